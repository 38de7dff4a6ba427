"""Conditions between settings (the chart has the tables) and of this machine, a line for each."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from worker.settings.fields import DEFAULT_MODEL_DIMENSION, Fields, settings_by_field
from worker.settings.kinds import pairs, show_size
from worker.text import embedders

AT_MOST: Final = (
    ("emit_min_changes", "k", "a set of so many sentences could never differ by more"),
    ("max_text_bytes", "max_event_bytes", "the event holds the text"),
    ("max_event_bytes", "transaction_bytes", "a transaction holds the event"),
    ("transaction_records", "in_flight_messages", "a transaction is published at once"),
    ("transaction_bytes", "in_flight_bytes", "a transaction is published at once"),
)
"""Field, field of its upper bound, and reason."""
LESS_THAN: Final = (
    ("transaction_timeout_ms", "commit_timeout_ms", "the broker decides first"),
    ("batch_ms", "stall_timeout_ms", "a slow micro-batch is not a stall"),
    ("commit_timeout_ms", "stall_timeout_ms", "a slow commit is not a stall"),
)
"""Field, field of a larger value, and reason."""
_REGISTRY: Final = [name for name in settings_by_field() if name.startswith("schema_registry_")]
_OAUTH: Final = [f"schema_registry_oauth_{a}" for a in ("token_url", "client_id", "client_secret")]
NEEDS: Final = (
    ("ssl_key_password", "ssl_key_location"),
    ("schema_registry_key_password", "schema_registry_key_location"),
    *((name, "schema_registry_url") for name in _REGISTRY),
    *((name, needed) for name in _REGISTRY if "_oauth_" in name for needed in _OAUTH),
)
"""Field, and a field without which it is not used."""
TOGETHER: Final = (
    ("ssl_certificate_location", "ssl_key_location"),
    ("schema_registry_username", "schema_registry_password"),
    ("schema_registry_certificate_location", "schema_registry_key_location"),
    ("web_tls_certificate_location", "web_tls_key_location"),
)
"""Fields that are set both or neither."""
ONE_OF: Final = ("schema_registry_username", "schema_registry_token", _OAUTH[0])  # at most one
OF_TLS: Final = ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location")
"""Fields that only a security protocol with SSL uses."""
SENTENCE_BYTES: Final = 256  # upper bound of a sentence's field names, numbers and date
_SECRET_HEADER: Final = re.compile("auth|cookie|key|token|secret|password", re.IGNORECASE)
MESSAGE_BYTES: Final = 8 * 2**10
"""Upper bound of the rest of a message without its two ids: key, headers, and other fields."""


def complaints(settings: Fields) -> Iterator[str]:
    """The conditions that fail, each as a line that names the variables."""
    yield from _check_names(settings)
    yield from _check_order(settings)
    yield from _check_message_bytes(settings)
    yield from _check_sasl(settings)
    yield from _check_client_options(settings)
    yield from _check_files(settings)
    yield from _check_presence(settings)
    yield from _check_registry(settings)
    yield from _check_web(settings)


def _check_names(settings: Fields) -> Iterator[str]:
    topics = [settings.input_topic, settings.output_topic, settings.dlq_topic]
    if settings.facets and settings.facets_topic in topics:
        yield (
            f"COVERSUMM_FACETS_TOPIC: {settings.facets_topic} is another topic of the worker: "
            "name one of its own"
        )
    if len(set(topics)) < 3 or max(map(len, topics)) > 249:
        yield (
            "COVERSUMM_INPUT_TOPIC, COVERSUMM_OUTPUT_TOPIC, COVERSUMM_DLQ_TOPIC: "
            f"{', '.join(topics)} must be three different names of at most 249 characters"
        )
    if settings.instance_id == "dlq":
        yield (
            "COVERSUMM_INSTANCE_ID: dlq would take the transactional id of "
            "`coversumm-worker dlq send`: choose another"
        )
    if settings.vector_store_dir == settings.data_dir:
        yield (
            f"COVERSUMM_VECTOR_STORE_DIR: {settings.vector_store_dir} is COVERSUMM_DATA_DIR, which "
            "belongs to one worker: name another folder, it may be one in there"
        )
    if settings.embedder == "onnx" and settings.dimension != DEFAULT_MODEL_DIMENSION:
        yield (
            f"COVERSUMM_DIMENSION: {settings.dimension} is not the {DEFAULT_MODEL_DIMENSION} of "
            "COVERSUMM_EMBEDDER=onnx: unset it, or set COVERSUMM_EMBEDDER=none if the events carry "
            "embeddings"
        )
    if settings.model_file is not None and settings.embedder == "none":
        yield (
            "COVERSUMM_MODEL_FILE: set, and COVERSUMM_EMBEDDER=none has no model: unset one of them"
        )
    if settings.embedder_precision == "bf16" and settings.embedder != embedders.DEFAULT:
        yield (
            f"{embedders.PRECISION_VARIABLE}: bf16 is for COVERSUMM_EMBEDDER={embedders.DEFAULT} "
            "alone: unset one of them"
        )


def _check_order(settings: Fields) -> Iterator[str]:
    described = settings_by_field()
    for bounds, words in ((AT_MOST, "at most"), (LESS_THAN, "less than")):
        for name, bound, reason in bounds:
            value, limit = getattr(settings, name), getattr(settings, bound)
            if value > limit or (value == limit and bounds is LESS_THAN):
                field, other = described[name], described[bound]
                yield (
                    f"{field.variable}: {field.kind.show(value)} must be {words} "
                    f"{other.variable} ({other.kind.show(limit)}): {reason}"
                )


def _check_message_bytes(settings: Fields) -> Iterator[str]:
    # its own id, and that of each list of changes
    summary_bytes = largest_message(settings, settings.k, sentence_ids=3)
    if summary_bytes > settings.max_message_bytes:
        yield (
            f"COVERSUMM_MAX_MESSAGE_BYTES: {show_size(settings.max_message_bytes)} may be too "
            f"little for COVERSUMM_K={settings.k} sentences of "
            f"COVERSUMM_MAX_SENTENCE_CHARS={settings.max_sentence_chars}: set at least "
            f"{summary_bytes}, and max.message.bytes of the worker's topics with it"
        )


def largest_message(
    settings: Fields, sentences: int, sentence_ids: int, max_chars: int | None = None
) -> int:
    """Most bytes of a message with `sentences` sentences, which name `sentence_ids` ids each, and
    have at most `max_chars` characters. The key, the headers and the stored row of the message
    count too.
    """
    from worker.events.fields import (  # late: it loads msgspec
        MAX_AUTHOR_BYTES,
        MAX_COUNTRY_BYTES,
        MAX_ID_CHARS,
        MAX_LANGUAGE_CHARS,
        MAX_SENTENCE_ID_CHARS,
    )

    # JSON escapes a character in six, and a string of JSON the backslash too. Avro has UTF-8.
    escaped = {"json-row": 7, "avro": 4}.get(settings.output_format, 6)
    ids = MAX_ID_CHARS + sentence_ids * MAX_SENTENCE_ID_CHARS
    characters = settings.max_sentence_chars if max_chars is None else max_chars
    characters += ids + MAX_LANGUAGE_CHARS
    # of JSON, where a string of it writes " as \\\\\"
    more = (MAX_COUNTRY_BYTES + MAX_AUTHOR_BYTES) * (1 + (settings.output_format == "json-row"))
    return sentences * (escaped * characters + more + SENTENCE_BYTES) + (
        2 * escaped * MAX_ID_CHARS + MESSAGE_BYTES
    )


def _variables(settings: Fields, *names: str) -> dict[str, Any]:
    """The values of these fields by variable."""
    described = settings_by_field()
    return {described[name].variable: getattr(settings, name) for name in names}


_PASSWORD: Final = (("sasl_username", "sasl_password"), ("sasl_password_location",))
SASL: Final[dict[str | None, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "PLAIN": _PASSWORD,
    "SCRAM-SHA-256": _PASSWORD,
    "SCRAM-SHA-512": _PASSWORD,
    "OAUTHBEARER": (
        ("sasl_oauth_token_url", "sasl_oauth_client_id", "sasl_oauth_client_secret"),
        (
            "sasl_oauth_scope",
            "sasl_oauth_audience",
            "sasl_oauth_extensions",
            "sasl_oauth_ca_location",
        ),
    ),
    "AWS_MSK_IAM": ((), ("sasl_aws_region",)),
    None: ((), ()),
}
"""The fields that a mechanism needs, and those that it may have."""


def _check_sasl(settings: Fields) -> Iterator[str]:
    protocol, mechanism = settings.security_protocol, settings.sasl_mechanism
    with_protocol = f"with COVERSUMM_SECURITY_PROTOCOL={protocol}"
    if protocol.startswith("SASL_") and mechanism is None:
        yield f"COVERSUMM_SASL_MECHANISM: not set, but needed {with_protocol}"
    if not protocol.startswith("SASL_"):
        mechanism = None
    others = {name for needed, optional in SASL.values() for name in (*needed, *optional)}
    needed, optional = SASL[mechanism]
    what = f"with COVERSUMM_SASL_MECHANISM={mechanism}" if mechanism else with_protocol
    if "sasl_password" in needed and settings.sasl_password_location is not None:
        needed, what = ("sasl_username",), f"{what} and COVERSUMM_SASL_PASSWORD_LOCATION"
    unused = sorted(others.difference(needed, optional)) + ["sasl_mechanism"] * (mechanism is None)
    for variable, value in _variables(settings, *needed).items():
        if value is None:
            yield f"{variable}: not set, but needed {what}"
    for variable, value in _variables(settings, *unused).items():
        if value is not None:
            yield f"{variable}: set, but not used {what}"
    if mechanism == "AWS_MSK_IAM" and protocol != "SASL_SSL":
        yield "COVERSUMM_SECURITY_PROTOCOL: set SASL_SSL with COVERSUMM_SASL_MECHANISM=AWS_MSK_IAM"
    if mechanism == "AWS_MSK_IAM" and msk_region(settings) is None:
        yield "COVERSUMM_SASL_AWS_REGION: not set, and KAFKA_BOOTSTRAP_SERVERS names no AWS region"


def msk_region(settings: Fields) -> str | None:
    """The AWS region of the brokers: as set, else as their names have it; None if they do not."""
    named = re.search(
        r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.", settings.bootstrap_servers
    )
    return settings.sasl_aws_region or (named[1] if named else None)


_REFUSED: Final = (
    (r"bootstrap\.servers|metadata\.broker\.list", "set KAFKA_BOOTSTRAP_SERVERS"),
    (r"security\.protocol", "set COVERSUMM_SECURITY_PROTOCOL"),
    (r"(enable\.)?sasl\..*", "set COVERSUMM_SASL_MECHANISM and its settings, for both clients"),
    (
        r"ssl_?\.?(ca|key|certificate|keystore|crl|engine|providers)([._].*)?|https?\..*",
        "set COVERSUMM_SSL_CA_LOCATION, COVERSUMM_SSL_CERTIFICATE_LOCATION and their like",
    ),
    (r"enable\.ssl\.certificate\.verification", "set COVERSUMM_SSL_CA_LOCATION to trust a broker"),
    (r"client\.id", "it is made of COVERSUMM_APP_ID and COVERSUMM_INSTANCE_ID"),
    (r"transaction\.timeout\.ms", "set COVERSUMM_TRANSACTION_TIMEOUT_MS"),
    (r"message\.max\.bytes", "set COVERSUMM_MAX_MESSAGE_BYTES"),
    (
        r"queue\.buffering\..*|linger\.ms",
        "set COVERSUMM_IN_FLIGHT_MESSAGES and COVERSUMM_IN_FLIGHT_BYTES",
    ),
    (
        r"group\..*|session\..*|heartbeat\..*|max\.poll\..*|partition\.assignment\..*",
        "set COVERSUMM_APP_ID, COVERSUMM_INSTANCE_ID and COVERSUMM_SESSION_TIMEOUT_MS",
    ),
    (
        r"transactional\.id|enable\.(idempotence|gapless\.guarantee)|acks|request\.required\.acks"
        r"|max\.in\.flight.*|(message\.send\.max\.)?retries",
        "transactions depend on it: events would be lost or repeated",
    ),
    (r".*partition(er|ing).*", "messages of an entity would be in two partitions"),
    (r"isolation\.level", "aborted messages would be read"),
    (
        r"(enable\.)?auto\.(commit|offset)\..*|(enable\.auto\.)?offset\.store.*|auto\.commit\..*"
        r"|enable\.(auto\.commit|partition\.eof)|check\.crcs",
        "records would be skipped or read twice: transactions commit the offsets",
    ),
    (
        r"(message|delivery|request|socket)\.timeout\.ms",
        "the deadlines of commits depend on it",
    ),
    (r"allow\.auto\.create\.topics", "a misspelt topic would be created"),
    (r"fetch\..*|queued\..*", "the memory and the pace of a restore depend on it"),
    (r"test\.mock\..*", "no message would reach Kafka"),
    (r"plugin\..*|.*_cb|interceptors|logger|on_delivery|.*opaque|default_topic_conf", "it is code"),
)
"""Options of Kafka clients that COVERSUMM_CLIENT_OPTIONS may not set: patterns of names, each with
the setting to use or what would break.
"""


def refusal(option: str) -> str | None:
    """Why an option may not be set, or the setting to use; None if it may."""
    return next((why for names, why in _REFUSED if re.fullmatch(names, option)), None)


def _check_client_options(settings: Fields) -> Iterator[str]:
    for option in pairs(settings.client_options):
        if (why := refusal(option)) is not None:
            yield f"COVERSUMM_CLIENT_OPTIONS: {option} is refused: {why}"


def _check_files(settings: Fields) -> Iterator[str]:
    files = (name for name in settings_by_field() if name.endswith("_location"))
    for variable, location in _variables(settings, *files).items():
        if location is not None and not _is_readable(location):
            yield f"{variable}: {location!r} is not a file that can be read"


def _check_presence(settings: Fields) -> Iterator[str]:
    protocol = settings.security_protocol
    named = {name: setting.variable for name, setting in settings_by_field().items()}
    given = {name: named[name] for name in named if getattr(settings, name) is not None}
    for name in OF_TLS:
        if name in given and not protocol.endswith("SSL"):
            yield f"{named[name]}: set, but not used with COVERSUMM_SECURITY_PROTOCOL={protocol}"
    for key, other in TOGETHER:
        if (key in given) != (other in given):
            yield f"{named[key]}, {named[other]}: set both or neither"
    for name, needed in NEEDS:
        if name in given and needed not in given:
            yield f"{named[needed]}: not set, but needed with {named[name]}"
    ways = [given[name] for name in ONE_OF if name in given]
    if len(ways) > 1:
        yield f"{ways[1]}: set, and so is {ways[0]}: unset one of them"


def _check_registry(settings: Fields) -> Iterator[str]:
    prefix = "COVERSUMM_SCHEMA_REGISTRY_"
    if settings.output_format == "avro" and settings.schema_registry_url is None:
        yield f"COVERSUMM_OUTPUT_FORMAT: avro needs {prefix}URL, which is not set"
    for header in pairs(settings.schema_registry_headers):
        if _SECRET_HEADER.search(header):
            yield (
                f"{prefix}HEADERS: {header} is refused, its value is a secret: set {prefix}TOKEN "
                f"or {prefix}PASSWORD"
            )


def _check_web(settings: Fields) -> Iterator[str]:
    has_tls = settings.web_tls_certificate_location is not None
    if has_tls and settings.web_advertised_url.startswith("http:"):
        yield (
            f"COVERSUMM_WEB_ADVERTISED_URL: {settings.web_advertised_url} must begin with https, "
            "because COVERSUMM_WEB_TLS_CERTIFICATE_LOCATION is set"
        )
    if settings.web_rate is not None and settings.web_proxies is None:
        yield (
            "COVERSUMM_WEB_PROXIES: not set, but needed with COVERSUMM_WEB_RATE: the networks of "
            "proxies and of the other workers, such as 10.0.0.0/8; 127.0.0.1 if there are none"
        )


def _is_readable(location: str) -> bool:
    try:
        return Path(location).is_file() and os.access(location, os.R_OK)
    except OSError:  # too long for a path
        return False
