"""Variables that look like settings and are none: they would be ignored in silence."""

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Final, NamedTuple

from worker.settings.fields import PREFIX

_SERVERS: Final = "KAFKA_BOOTSTRAP_SERVERS"
# Names from elsewhere for what has another name here, both without the prefix; what is only misspelt needs no entry.
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
_ALIKE: Final = 0.6
"""From here on a name is near enough to be told."""
_ALIKE_START: Final = 0.85
"""From here on a prefix, or a name for the brokers, is taken for a misspelt one of ours."""
_SURE: Final = 0.93
"""From here on a name cannot be another one's."""
# What Kubernetes sets for every service of a namespace: NAME_SERVICE_HOST=10.0.0.1, NAME_PORT_80_TCP=tcp://10.0.0.1:80, ...
_SERVICE: Final = re.compile(r".+_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)")
_SERVICE_PORT: Final = re.compile(r".+?_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?")
_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://.*", re.IGNORECASE)


class Unknown(NamedTuple):
    """A variable that is no setting. `nearest`: the one that may be meant, None where none is near."""

    variable: str
    nearest: str | None


def misspelt(variable: str, known: set[str]) -> str | None:
    """The setting that is surely meant by a variable that is none, None where that is not sure."""
    if not variable.startswith(PREFIX) or variable in known:
        return None
    return next(iter(get_close_matches(variable, known, n=1, cutoff=_SURE)), None)


def unknown_variables(environ: Mapping[str, str], known: Iterable[str]) -> list[Unknown]:
    """The variables of `environ` that begin like settings and are not `known`, in order of their names.

    Kubernetes' links to services, which may begin so too, are left out.
    """
    names = set(known)
    return [
        Unknown(variable, _nearest(variable, names))
        for variable in sorted(environ)
        if variable not in names
        and _is_meant(variable, environ)
        and not _is_link(variable, environ[variable])
    ]


def _is_meant(variable: str, environ: Mapping[str, str]) -> bool:
    """Whether somebody may have thought of a setting."""
    if _alike(variable.upper(), _SERVERS) >= _ALIKE_START:
        return not environ.get(_SERVERS)  # it may be another program's
    start, underscore, rest = variable.upper().partition("_")
    return bool(underscore and rest) and _alike(start, PREFIX.rstrip("_")) >= _ALIKE_START


def _is_link(variable: str, value: str) -> bool:
    if _SERVICE.fullmatch(variable):
        return True
    match = _SERVICE_PORT.fullmatch(variable)
    # NAME_PORT alone may be meant for a setting; a link's is an address.
    return match is not None and bool(match[1] or _SERVICE_ADDRESS.fullmatch(value))


def _nearest(variable: str, known: set[str]) -> str | None:
    if _alike(variable.upper(), _SERVERS) >= _ALIKE_START:
        return _SERVERS
    rest = variable.upper().partition("_")[2]
    by_rest = {name.removeprefix(PREFIX): name for name in known}
    wanted = _ALIASES.get(rest, rest)
    if wanted in by_rest:
        return by_rest[wanted]
    near = get_close_matches(wanted, by_rest, n=1, cutoff=_ALIKE)
    return by_rest[near[0]] if near else None


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
