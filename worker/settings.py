"""The settings, and the only module that reads the environment.

Each setting is one field of `Settings`: its variable, what it accepts, its default and one line of help; the README's
table is made from them (`settings_table`). Whatever is wrong is one SurroundingsError that names the variable, the
value and what is accepted. An empty variable counts as not set.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from worker.errors import SurroundingsError
from worker.text import embedders

PREFIX: Final = "COVERSUMM_"
DEFAULT_MODEL_DIMENSION: Final = 384
MAX_BATCH_EVENTS: Final = 5000
MAX_SENTENCES_PER_ENTITY: Final = 2_700_000
"""Up to so many the core ranks exactly, in every dimension that can be set."""

# --- What a variable accepts ------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """How a variable's text becomes a value. `parse` raises ValueError for what is not accepted."""

    accepts: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str


def _integer(low: int, high: int) -> Kind:
    def parse(text: str) -> int:
        if not re.fullmatch("-?[0-9]{1,20}", text) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return Kind(f"a whole number from {low} to {high}", parse)


_UNITS: Final = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "": 1}


def _show_size(size: int) -> str:
    unit = next(unit for unit, factor in _UNITS.items() if size % factor == 0) if size else ""
    return f"{size // _UNITS[unit]}{unit}"


def _size(low: int, high: int) -> Kind:
    def parse(text: str) -> int:
        match = re.fullmatch("([0-9]{1,15}) ?(GiB|MiB|KiB|)", text)
        if match is None or not low <= (size := int(match[1]) * _UNITS[match[2]]) <= high:
            raise ValueError
        return size

    accepts = f"a number of bytes from {_show_size(low)} to {_show_size(high)}, written like 1048576 or 1MiB"
    return Kind(accepts, parse, _show_size)


def _choice(*names: str) -> Kind:
    by_name = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        if text.lower() not in by_name:
            raise ValueError
        return by_name[text.lower()]

    return Kind(f"one of {', '.join(names)}", parse)


def _flag() -> Kind:
    words = {word: value for value in (True, False) for word in _WORDS[value]}

    def parse(text: str) -> bool:
        if text.lower() not in words:
            raise ValueError
        return words[text.lower()]

    return Kind("true or false", parse, lambda value: str(value).lower())


_WORDS: Final = {True: ("true", "1", "yes", "on"), False: ("false", "0", "no", "off")}


def _text(pattern: str, accepts: str) -> Kind:
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError
        return text

    return Kind(accepts, parse)


def _servers() -> Kind:
    def parse(text: str) -> str:
        servers = [server.strip() for server in text.split(",")]
        for server in servers:
            parts = urlsplit(f"//{server}")
            if not parts.hostname or not parts.port or parts.netloc != server or "@" in server:
                raise ValueError
        return ",".join(servers)

    return Kind("host:port, or several with commas between", parse)


def _url() -> Kind:
    def parse(text: str) -> str:
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError
        return text.rstrip("/")

    return Kind("a URL like http://worker-0.coversumm:8080", parse)


def _one_line() -> Kind:
    return _text(r".+", "a text of one line")


def _name(longest: int) -> Kind:
    return _text(
        rf"(?!\.\.?$)[A-Za-z0-9._-]{{1,{longest}}}",
        f"a name of 1 to {longest} letters, digits, dots, underscores and hyphens",
    )


def _folder() -> Kind:
    def parse(text: str) -> Path:
        try:
            return Path(text).expanduser().absolute()
        except RuntimeError:  # ~somebody whom this machine does not know
            raise ValueError from None

    return Kind("a folder", parse)


def _embedder() -> Kind:
    return _text(embedders.PATTERN, embedders.FORMS)


def _milliseconds() -> Kind:
    return _integer(100, 86_400_000)


# --- The settings -----------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """What is known of a setting besides its value."""

    variable: str
    kind: Kind
    default: str
    help: str
    secret: bool


def _setting(
    name: str,
    default: Any,
    kind: Kind,
    help: str,
    *,
    instead: str = "",
    secret: bool = False,
    prefix: str = PREFIX,
) -> Any:
    """A field of `Settings`. `instead`: what the table shows for a default that is found out at start."""
    shown = instead or ("none" if default is None else f"`{kind.show(default)}`")
    about = Setting(prefix + name, kind, shown, help, secret)
    return field(default=default, repr=not secret, metadata={"setting": about})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be set. Construction checks what settings demand of each other (SurroundingsError)."""

    bootstrap_servers: str = _setting(
        "KAFKA_BOOTSTRAP_SERVERS",
        "localhost:9092",
        _servers(),
        "Kafka brokers, with commas between",
        prefix="",
    )
    input_topic: str = _setting(
        "INPUT_TOPIC", "marketplace.reviews.v1", _name(249), "Review events; must exist"
    )
    output_topic: str = _setting(
        "OUTPUT_TOPIC",
        "marketplace.review-summaries.v1",
        _name(249),
        "Summary changes; each epoch its own topic",
    )
    dlq_topic: str = _setting("DLQ_TOPIC", "", _name(249), "Dead letters", instead="input topic + `.dlq`")
    app_id: str = _setting(
        "APP_ID", "coversumm-worker", _name(200), "Consumer group: its workers share the partitions"
    )
    epoch: int = _setting(
        "EPOCH",
        1,
        _integer(0, 2**31 - 1),
        "Build of the summaries: another model, `k` or code is another epoch",
    )
    k: int = _setting("K", 20, _integer(1, 1000), "Sentences in a summary")
    distinct: bool = _setting("DISTINCT", False, _flag(), "Show sentences with identical vectors once")
    emit: str = _setting(
        "EMIT",
        "every",
        _choice("every", "coalesced"),
        "`every` change, or `coalesced`: an entity's net change in each micro-batch",
    )
    index: str = _setting(
        "INDEX",
        "flat",
        _choice("flat", "sgtree", "graphgrove"),
        "What refills search, all with the same results. `flat` reads the stored rows: right for embeddings. `sgtree` keeps "
        "all vectors of an entity in use in a tree in memory (they count in the cache): for few dimensions. `graphgrove` "
        "does so with that library, which has wheels for Python 3.8 and older alone",
    )
    embedder: str = _setting(
        "EMBEDDER",
        "onnx",
        _embedder(),
        embedders.HELP,
    )
    embedder_threads: int = _setting(
        "EMBEDDER_THREADS", 0, _integer(1, 1024), "Threads of the embedder", instead="number of cores"
    )
    dimension: int = _setting(
        "DIMENSION",
        DEFAULT_MODEL_DIMENSION,
        _integer(1, 16_384),
        "Dimension of the embeddings with `none`; an engine brings its own",
    )
    data_dir: Path = _setting(  # noqa: RUF009 - a Path is immutable
        "DATA_DIR",
        Path("~/.local/state/coversumm-worker"),
        _folder(),
        "Local state: a folder for each worker, locked while it runs",
    )
    model_cache_dir: Path = _setting(  # noqa: RUF009
        "MODEL_CACHE_DIR",
        Path("~/.cache/coversumm-worker"),
        _folder(),
        "Models that were built or downloaded",
    )
    instance_id: str = _setting(
        "INSTANCE_ID",
        "",
        _name(200),
        "Makes the transactional id: stable over restarts, unique among running workers",
        instead="host name and hash of the data directory",
    )
    batch_size: int = _setting(
        "BATCH_SIZE", 1000, _integer(1, MAX_BATCH_EVENTS), "Most events in a micro-batch"
    )
    batch_linger_ms: int = _setting(
        "BATCH_LINGER_MS", 50, _integer(0, 60_000), "How long a micro-batch waits for more events"
    )
    batch_bytes: int = _setting(
        "BATCH_BYTES", 16 * 2**20, _size(2**10, 2**28), "Most bytes of a micro-batch of several events"
    )
    batch_sentences: int = _setting(
        "BATCH_SENTENCES",
        20_000,
        _integer(1, 10_000_000),
        "Most sentences, new and replaced, of a micro-batch of several events",
    )
    transaction_records: int = _setting(
        "TRANSACTION_RECORDS",
        50_000,
        _integer(1, 10_000_000),
        "Most messages and rows in a transaction of several events",
    )
    transaction_bytes: int = _setting(
        "TRANSACTION_BYTES", 64 * 2**20, _size(2**20, 2**31), "Most bytes of them"
    )
    in_flight_messages: int = _setting(
        "IN_FLIGHT_MESSAGES",
        100_000,
        _integer(1, 10_000_000),
        "Messages and rows that the broker has not taken yet; past it publishing waits",
    )
    in_flight_bytes: int = _setting(
        "IN_FLIGHT_BYTES", 128 * 2**20, _size(2**20, 2**31 - 2**10), "The same in bytes"
    )
    cache_bytes: int = _setting(
        "CACHE_BYTES", 256 * 2**20, _size(0, 2**40), "Memory for the entities in use; all are on disk"
    )
    rocksdb_bytes: int = _setting(
        "ROCKSDB_BYTES",
        256 * 2**20,
        _size(16 * 2**20, 2**40),
        "Memory for the databases of all partitions together: blocks, indexes, write buffers",
    )
    max_event_bytes: int = _setting(
        "MAX_EVENT_BYTES", 4 * 2**20, _size(2**10, 2**26), "Largest event; a larger one is a dead letter"
    )
    max_text_bytes: int = _setting(
        "MAX_TEXT_BYTES", 256 * 2**10, _size(1, 2**26), "Largest text; a larger one is a dead letter"
    )
    max_sentence_chars: int = _setting(
        "MAX_SENTENCE_CHARS", 2000, _integer(1, 100_000), "Longest sentence; a longer one is split there"
    )
    max_sentences_per_review: int = _setting(
        "MAX_SENTENCES_PER_REVIEW",
        1000,
        _integer(1, 100_000),
        "Most sentences of a review; one with more is a dead letter",
    )
    max_sentences_per_deletion: int = _setting(
        "MAX_SENTENCES_PER_DELETION",
        10_000,
        _integer(1, 100_000),
        "Most sentences a `sentences.deleted` may name, and several reviews it is about may hold; one with more is a dead letter",
    )
    max_sentences_per_entity: int = _setting(
        "MAX_SENTENCES_PER_ENTITY",
        1_000_000,
        _integer(1, MAX_SENTENCES_PER_ENTITY),
        "Most live sentences of an entity; an event that would make more is a dead letter",
    )
    max_message_bytes: int = _setting(
        "MAX_MESSAGE_BYTES",
        1_000_000,
        _size(2**18, 2**30),
        "Largest message the worker may send; of a dead letter that would be larger, the value's first 64 KiB are kept",
    )
    web_port: int = _setting("WEB_PORT", 8080, _integer(1, 65_535), "Port of health, metrics and summaries")
    web_bind: str = _setting(
        "WEB_BIND", "127.0.0.1", _text(r"[^\s/]+", "an address"), "Address it listens on"
    )
    web_advertised_url: str = _setting(
        "WEB_ADVERTISED_URL", "", _url(), "Where the other workers reach it", instead="made of bind and port"
    )
    schema_registry_url: str = _setting(
        "SCHEMA_REGISTRY_URL", "", _url(), "Leave it empty: this version has no Avro", instead="none"
    )
    security_protocol: str = _setting(
        "SECURITY_PROTOCOL",
        "PLAINTEXT",
        _choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
    )
    sasl_mechanism: str | None = _setting(
        "SASL_MECHANISM",
        None,
        _choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`",
    )
    sasl_username: str | None = _setting("SASL_USERNAME", None, _one_line(), "User name for SASL")
    sasl_password: str | None = _setting("SASL_PASSWORD", None, _one_line(), "Password for SASL", secret=True)
    ssl_ca_location: str | None = _setting(
        "SSL_CA_LOCATION", None, _one_line(), "CA certificates, a PEM file", instead="the system's"
    )
    ssl_certificate_location: str | None = _setting(
        "SSL_CERTIFICATE_LOCATION", None, _one_line(), "Client certificate, a PEM file"
    )
    ssl_key_location: str | None = _setting(
        "SSL_KEY_LOCATION", None, _one_line(), "Its private key, a PEM file"
    )
    ssl_key_password: str | None = _setting(
        "SSL_KEY_PASSWORD", None, _one_line(), "Password of the private key", secret=True
    )
    standby_replicas: int = _setting(
        "STANDBY_REPLICAS", 0, _integer(0, 16), "Workers that keep a warm copy of a partition's state"
    )
    session_timeout_ms: int = _setting(
        "SESSION_TIMEOUT_MS",
        10_000,
        _integer(6000, 1_800_000),
        "A worker silent for so long loses its partitions",
    )
    transaction_timeout_ms: int = _setting(
        "TRANSACTION_TIMEOUT_MS",
        10_000,
        _integer(1000, 900_000),
        "A dead worker's open transaction is aborted after it",
    )
    commit_timeout_ms: int = _setting(
        "COMMIT_TIMEOUT_MS", 25_000, _milliseconds(), "Deadline of a commit; past it the worker exits"
    )
    shutdown_timeout_ms: int = _setting(
        "SHUTDOWN_TIMEOUT_MS",
        20_000,
        _milliseconds(),
        "Deadline of an orderly stop; past it the worker exits",
    )
    stall_timeout_ms: int = _setting(
        "STALL_TIMEOUT_MS",
        300_000,
        _milliseconds(),
        "Events waiting but no progress for so long: the worker exits",
    )
    log_level: str = _setting(
        "LOG_LEVEL",
        "INFO",
        _choice("DEBUG", "INFO", "WARNING", "ERROR"),
        "`DEBUG`, `INFO`, `WARNING`, `ERROR`",
    )
    log_format: str = _setting("LOG_FORMAT", "text", _choice("text", "json"), "`text`, or `json` lines")

    def __post_init__(self) -> None:
        """Fill in the defaults that are found out at start, then check."""
        data_dir = self.data_dir.expanduser().absolute()
        resolved = {
            "data_dir": data_dir,
            "model_cache_dir": self.model_cache_dir.expanduser().absolute(),
            "dlq_topic": self.dlq_topic or f"{self.input_topic}.dlq",
            "embedder_threads": self.embedder_threads or os.cpu_count() or 1,
            "instance_id": self.instance_id or _instance_id(data_dir),
        }
        for name, value in resolved.items():
            object.__setattr__(self, name, value)
        for demand in _demands(self):
            if not demand.met:
                raise SurroundingsError(demand.message)
        try:
            self.tls_context()
        except (OSError, ValueError) as cause:  # ssl.SSLError is an OSError; a password may be too long
            raise SurroundingsError(
                f"the TLS files cannot be used ({getattr(cause, 'strerror', None) or cause}): look at COVERSUMM_SSL_CA_LOCATION, "
                "COVERSUMM_SSL_CERTIFICATE_LOCATION, COVERSUMM_SSL_KEY_LOCATION and COVERSUMM_SSL_KEY_PASSWORD"
            ) from cause

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ, **instead: str | None) -> Settings:
        """The settings of this process; SurroundingsError for what is not accepted.

        `instead`: by field, the text to take in place of its variable (of command line options); None: the variable.
        """
        described = settings_by_field()
        _refuse_misspelt(environ, [setting.variable for setting in described.values()])
        given = {name: environ.get(setting.variable, "").strip() for name, setting in described.items()}
        given |= {name: text for name, text in instead.items() if text is not None}
        return cls(**{name: _parse(described[name], text) for name, text in given.items() if text})

    def redacted(self) -> dict[str, str]:
        """Variables and values as text, for logs: secrets hidden, what is not set left out."""
        shown: dict[str, str] = {}
        for name, setting in settings_by_field().items():
            value = getattr(self, name)
            if value not in (None, ""):
                shown[setting.variable] = "***" if setting.secret else setting.kind.show(value)
        return shown

    def secrets(self) -> list[str]:
        """The values that nothing may show."""
        values = (getattr(self, name) for name, setting in settings_by_field().items() if setting.secret)
        return [str(value) for value in values if value]

    def kafka_client_config(self) -> dict[str, Any]:
        """Addresses and security for librdkafka."""
        config = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": f"{self.app_id}-{self.instance_id}",
            "security.protocol": self.security_protocol.lower(),
            "sasl.mechanism": self.sasl_mechanism,
            "sasl.username": self.sasl_username,
            "sasl.password": self.sasl_password,
            "ssl.ca.location": self.ssl_ca_location,
            "ssl.certificate.location": self.ssl_certificate_location,
            "ssl.key.location": self.ssl_key_location,
            "ssl.key.password": self.ssl_key_password,
        }
        return {name: value for name, value in config.items() if value is not None}

    def tls_context(self) -> ssl.SSLContext | None:
        """TLS for Python's own clients, None where it is not used. Raises OSError where a file is not what it has to be."""
        if not self.security_protocol.endswith("SSL"):
            return None
        context = ssl.create_default_context(cafile=self.ssl_ca_location)
        if self.ssl_certificate_location is not None:
            # An empty password: with none at all OpenSSL would ask at the terminal, and wait.
            password = self.ssl_key_password or ""
            context.load_cert_chain(self.ssl_certificate_location, self.ssl_key_location, password)
        return context


def settings_by_field() -> dict[str, Setting]:
    """What is known of each field of `Settings`, in order."""
    return {one.name: one.metadata["setting"] for one in fields(Settings)}


def settings_table() -> str:
    """All settings as a Markdown table."""
    rows = [f"| `{one.variable}` | {one.default} | {one.help} |" for one in settings_by_field().values()]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows]) + "\n"


def limit_native_threads() -> None:
    """One thread for NumPy's BLAS, unless the environment says otherwise; before NumPy is imported.

    Its matrices here are small: more threads would only wait for each other, and take cores from the embedder.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(variable, "1")


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process with these settings alone, whatever this process was started with."""
    known = {setting.variable for setting in settings_by_field().values()}
    kept = {name: text for name, text in os.environ.items() if name not in known}
    return {**kept, **variables}


def _instance_id(data_dir: Path) -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:180] or "worker"
    return f"{host}-{sha256(os.fsencode(data_dir)).hexdigest()[:8]}"


# --- Checks -----------------------------------------------------------------------------------------------------


def _parse(setting: Setting, text: str) -> Any:
    try:
        return setting.kind.parse(text)
    except ValueError:
        value = "its value" if setting.secret else repr(text if len(text) <= 100 else f"{text[:100]}...")
        raise SurroundingsError(
            f"{setting.variable}: {value} is not accepted; {setting.kind.accepts}"
        ) from None


def _refuse_misspelt(environ: Mapping[str, str], known: list[str]) -> None:
    """A misspelt variable would be ignored in silence. Near misses only: Kubernetes adds some of its own."""
    for variable in environ:
        if variable.startswith(PREFIX) and variable not in known:
            for near in get_close_matches(variable, known, n=1, cutoff=0.93):
                raise SurroundingsError(
                    f"{variable}: there is no such setting; {near} is the nearest: rename or unset"
                )


class _Demand(NamedTuple):
    met: bool
    message: str


def _demands(settings: Settings) -> list[_Demand]:
    """What settings demand of each other and of this machine."""
    return [*_demands_on_values(settings), *_demands_on_sasl(settings), *_demands_on_ssl(settings)]


def _demands_on_values(settings: Settings) -> list[_Demand]:
    topics = [settings.input_topic, settings.output_topic, settings.dlq_topic]
    return [
        _Demand(
            len(set(topics)) == 3 and max(map(len, topics)) <= 249,
            f"COVERSUMM_INPUT_TOPIC, COVERSUMM_OUTPUT_TOPIC, COVERSUMM_DLQ_TOPIC: {', '.join(topics)} must be "
            "three different names of at most 249 characters",
        ),
        _Demand(
            settings.instance_id != "dlq",
            "COVERSUMM_INSTANCE_ID: dlq would take the transactional id of `coversumm-worker dlq send`: choose another",
        ),
        _Demand(
            not settings.schema_registry_url,
            f"COVERSUMM_SCHEMA_REGISTRY_URL: {settings.schema_registry_url!r} cannot be used, this version has no "
            "Avro: unset it",
        ),
        _Demand(
            settings.embedder != "onnx" or settings.dimension == DEFAULT_MODEL_DIMENSION,
            f"COVERSUMM_DIMENSION: {settings.dimension} is not the {DEFAULT_MODEL_DIMENSION} of "
            "COVERSUMM_EMBEDDER=onnx: unset it, or set COVERSUMM_EMBEDDER=none if the events carry embeddings",
        ),
        _Demand(
            settings.max_text_bytes <= settings.max_event_bytes,
            f"COVERSUMM_MAX_TEXT_BYTES: {_show_size(settings.max_text_bytes)} must be at most COVERSUMM_MAX_EVENT_BYTES "
            f"({_show_size(settings.max_event_bytes)}): the event holds the text",
        ),
        _Demand(
            settings.max_event_bytes <= settings.transaction_bytes,
            f"COVERSUMM_MAX_EVENT_BYTES: {_show_size(settings.max_event_bytes)} must be at most "
            f"COVERSUMM_TRANSACTION_BYTES ({_show_size(settings.transaction_bytes)}): a transaction holds the event",
        ),
        _Demand(
            settings.transaction_records <= settings.in_flight_messages,
            f"COVERSUMM_TRANSACTION_RECORDS: {settings.transaction_records} must be at most "
            f"COVERSUMM_IN_FLIGHT_MESSAGES ({settings.in_flight_messages}): a transaction is published at once",
        ),
        _Demand(
            settings.transaction_bytes <= settings.in_flight_bytes,
            f"COVERSUMM_TRANSACTION_BYTES: {_show_size(settings.transaction_bytes)} must be at most "
            f"COVERSUMM_IN_FLIGHT_BYTES ({_show_size(settings.in_flight_bytes)}): a transaction is published at once",
        ),
        _Demand(
            settings.k * _sentence_bytes(settings.max_sentence_chars) <= settings.max_message_bytes,
            f"COVERSUMM_MAX_MESSAGE_BYTES: {_show_size(settings.max_message_bytes)} may be too little for COVERSUMM_K="
            f"{settings.k} sentences of COVERSUMM_MAX_SENTENCE_CHARS={settings.max_sentence_chars}: set at least "
            f"{settings.k * _sentence_bytes(settings.max_sentence_chars)}, and max.message.bytes of the output topic with it",
        ),
        _Demand(
            settings.transaction_timeout_ms < settings.commit_timeout_ms,
            f"COVERSUMM_TRANSACTION_TIMEOUT_MS: {settings.transaction_timeout_ms} must be less than "
            f"COVERSUMM_COMMIT_TIMEOUT_MS ({settings.commit_timeout_ms}): the broker decides first",
        ),
        _Demand(
            settings.commit_timeout_ms < settings.stall_timeout_ms,
            f"COVERSUMM_COMMIT_TIMEOUT_MS: {settings.commit_timeout_ms} must be less than "
            f"COVERSUMM_STALL_TIMEOUT_MS ({settings.stall_timeout_ms}): a slow commit is no stall",
        ),
    ]


def _sentence_bytes(chars: int) -> int:
    """The most bytes one sentence of a summary takes: six for a character that JSON escapes, its ids four times."""
    from worker.events import MAX_SENTENCE_ID_CHARS  # late: it loads NumPy, whose threads are limited first

    return 6 * (chars + 4 * MAX_SENTENCE_ID_CHARS)


def _demands_on_sasl(settings: Settings) -> list[_Demand]:
    protocol = settings.security_protocol
    used = protocol.startswith("SASL_")
    wrong = "set, but not used with" if not used else "not set, but needed with"
    return [
        _Demand((value is not None) == used, f"{variable}: {wrong} COVERSUMM_SECURITY_PROTOCOL={protocol}")
        for variable, value in (
            ("COVERSUMM_SASL_MECHANISM", settings.sasl_mechanism),
            ("COVERSUMM_SASL_USERNAME", settings.sasl_username),
            ("COVERSUMM_SASL_PASSWORD", settings.sasl_password),
        )
    ]


def _is_readable(location: str) -> bool:
    try:
        return Path(location).is_file() and os.access(location, os.R_OK)
    except OSError:  # no path at all: too long
        return False


def _demands_on_ssl(settings: Settings) -> list[_Demand]:
    protocol = settings.security_protocol
    locations = {
        "COVERSUMM_SSL_CA_LOCATION": settings.ssl_ca_location,
        "COVERSUMM_SSL_CERTIFICATE_LOCATION": settings.ssl_certificate_location,
        "COVERSUMM_SSL_KEY_LOCATION": settings.ssl_key_location,
    }
    demands = []
    for variable, location in locations.items():
        if location is not None:
            unused = f"{variable}: set, but not used with COVERSUMM_SECURITY_PROTOCOL={protocol}"
            demands.append(_Demand(protocol.endswith("SSL"), unused))
            demands.append(
                _Demand(_is_readable(location), f"{variable}: {location!r} is not a file that can be read")
            )
    return [
        *demands,
        _Demand(
            (settings.ssl_certificate_location is None) == (settings.ssl_key_location is None),
            "COVERSUMM_SSL_CERTIFICATE_LOCATION, COVERSUMM_SSL_KEY_LOCATION: set both or neither",
        ),
        _Demand(
            settings.ssl_key_password is None or settings.ssl_key_location is not None,
            "COVERSUMM_SSL_KEY_PASSWORD: set, but COVERSUMM_SSL_KEY_LOCATION is not",
        ),
    ]
