"""The variables of this process, of files, and of child processes."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Final

from worker.errors import SetupError
from worker.settings.fields import PREFIX, settings_by_field

_LINE: Final = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_SINGLE: Final = re.compile(r"'(?P<text>[^']*)'\s*(?:#.*)?")
_DOUBLE: Final = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPED: Final = re.compile(r'\\(["\\$`])')


def read_env_file(path: str) -> list[tuple[str, str, str]]:
    """The variables of a file with their values and places (`file:line`), in order; the last one of
    a name counts.

    Raises SetupError if the file cannot be read, or for another line. The message never quotes the
    line, which may be a secret.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as cause:
        raise SetupError(f"--env-file {path} cannot be read: {cause.strerror}") from cause
    except UnicodeDecodeError as cause:
        raise SetupError(f"--env-file {path} is not UTF-8: write it as such") from cause
    lines = enumerate((line.strip() for line in text.split("\n")), start=1)
    return [
        _parse(line, f"{path}:{number}") for number, line in lines if line and line[0] not in "#;"
    ]


def _parse(line: str, place: str) -> tuple[str, str, str]:
    match = _LINE.fullmatch(line)
    if match is None or "\0" in line:
        raise SetupError(f"{place}: not of the form NAME=VALUE; a comment begins with #")
    return match["name"], _value(match["value"].strip(), f"{place}: {match['name']}"), place


def _value(text: str, what: str) -> str:
    if text[:1] not in ("'", '"'):
        if re.search(r"\s#", text):
            raise SetupError(f"{what}: put the value in quotes, or the comment on its own line")
        return text
    match = (_SINGLE if text[0] == "'" else _DOUBLE).fullmatch(text)
    if match is None:
        raise SetupError(f"{what}: the value begins with a quote and does not end with it")
    return match["text"] if text[0] == "'" else _ESCAPED.sub(r"\1", match["text"])


_places: Final[dict[str, str]] = {}  # the places of variables that `environment_file` has set


@contextmanager
def environment_file(path: str) -> Iterator[None]:
    """Add the variables of a file to the environment; a non-empty variable takes precedence.

    Raises SetupError as `read_env_file` does.
    """
    before = dict(os.environ)
    for name, value, place in read_env_file(path):
        if not before.get(name, "").strip():
            os.environ[name] = value
            _places[name] = place
    try:
        yield
    finally:
        for name in _places:
            os.environ.pop(name)
            if name in before:
                os.environ[name] = before[name]
        _places.clear()


def place_of(variable: str) -> str | None:
    """`file:line` of a variable that comes from a file."""
    return _places.get(variable)


def placed(variable: str) -> str:
    """The variable, with its place if it comes from a file."""
    return f"{_places[variable]}: {variable}" if variable in _places else variable


def limit_native_threads() -> None:
    """Limit NumPy's BLAS to one thread, unless the environment sets a number. Call it before NumPy
    is imported.

    The matrices are small: more threads would wait for each other and take cores from the embedder.
    """
    for variable in (
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OMP_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ):
        os.environ.setdefault(variable, "1")


def traces_endpoint() -> str | None:
    """OpenTelemetry's variable for a collector as `NAME=VALUE`; None if it is unset or disabled."""
    if _value_of("OTEL_SDK_DISABLED").lower() == "true":
        return None
    if _value_of("OTEL_TRACES_EXPORTER").lower() == "none":
        return None
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        if endpoint := _value_of(variable):
            return f"{variable}={endpoint}"
    return None


def traces_protocol() -> tuple[str, str]:
    """OpenTelemetry's variable for the protocol, and its value; empty if it is unset."""
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := _value_of(variable):
            return variable, protocol
    return variable, ""


def _value_of(variable: str) -> str:
    return os.environ.get(variable, "").strip()


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process with only these settings."""
    known = {setting.variable for setting in settings_by_field().values()}
    kept = {name: text for name, text in os.environ.items() if name not in known}
    return {**kept, **variables}


_SERVERS: Final = "KAFKA_BOOTSTRAP_SERVERS"
# Other programs' names of settings, without the prefix. Similar names need no entry.
_ALIASES: Final = {
    "BOOTSTRAP": _SERVERS,
    "BROKER": _SERVERS,
    "BROKERS": _SERVERS,
    "CONSUMER_GROUP": "APP_ID",
    "DEDUPLICATE": "DISTINCT",
    "GROUP": "APP_ID",
    "GROUP_ID": "APP_ID",
    "HOST": "WEB_BIND",
    "MODEL": "EMBEDDER",
    "MODEL_NAME": "EMBEDDER",
    "NUM_SENTENCES": "K",
    "PORT": "WEB_PORT",
    "SENTENCES": "K",
    "STATE_DIR": "DATA_DIR",
    "SUMMARY_SIZE": "K",
    "THREADS": "EMBEDDER_THREADS",
    "TOPIC": "INPUT_TOPIC",
    "TOPK": "K",
    "TOP_K": "K",
    "TOP_N": "K",
}
_SUGGESTED: Final = 0.6  # similarity from which a setting is suggested
_PREFIX_LIKE: Final = 0.85  # similarity from which a prefix, or a name for the brokers, is misspelt
_MISSPELT: Final = 0.93  # similarity from which a variable is certainly a misspelt setting
# Kubernetes sets variables for every service of a namespace: NAME_SERVICE_HOST=10.0.0.1,
# NAME_PORT_80_TCP=tcp://10.0.0.1:80, ...
_SERVICE: Final = re.compile(r".+_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)")
_SERVICE_PORT: Final = re.compile(r".+?_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?")
_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://.*", re.IGNORECASE)


def misspelt(variable: str, known: set[str]) -> str | None:
    """The setting that a misspelt variable certainly means, or None."""
    if not variable.startswith(PREFIX) or variable in known:
        return None
    return next(iter(get_close_matches(variable, known, n=1, cutoff=_MISSPELT)), None)


def unknown_variables(
    environ: Mapping[str, str], known: Iterable[str]
) -> list[tuple[str, str | None]]:
    """The variables of `environ` that look like settings and are not `known`, by name, each with
    the nearest setting if one is near.

    Leaves out Kubernetes' variables of services, which may look alike.
    """
    names = set(known)
    return [
        (variable, _nearest(variable, names))
        for variable in sorted(environ)
        if variable not in names
        and _looks_like_setting(variable, environ)
        and not _is_of_service(variable, environ[variable])
    ]


def _looks_like_setting(variable: str, environ: Mapping[str, str]) -> bool:
    if _similarity(variable.upper(), _SERVERS) >= _PREFIX_LIKE:
        return not environ.get(_SERVERS)  # it may be another program's
    start, underscore, rest = variable.upper().partition("_")
    return bool(underscore and rest) and _similarity(start, PREFIX.rstrip("_")) >= _PREFIX_LIKE


def _is_of_service(variable: str, value: str) -> bool:
    if _SERVICE.fullmatch(variable):
        return True
    match = _SERVICE_PORT.fullmatch(variable)
    # NAME_PORT alone may be meant as a setting; a service's is an address
    return match is not None and bool(match[1] or _SERVICE_ADDRESS.fullmatch(value))


def _nearest(variable: str, known: set[str]) -> str | None:
    if _similarity(variable.upper(), _SERVERS) >= _PREFIX_LIKE:
        return _SERVERS
    rest = variable.upper().partition("_")[2]
    by_rest = {name.removeprefix(PREFIX): name for name in known}
    wanted = _ALIASES.get(rest, rest)
    if wanted in by_rest:
        return by_rest[wanted]
    near = get_close_matches(wanted, by_rest, n=1, cutoff=_SUGGESTED)
    return by_rest[near[0]] if near else None


def _similarity(name: str, other: str) -> float:
    return SequenceMatcher(None, name, other, autojunk=False).ratio()
