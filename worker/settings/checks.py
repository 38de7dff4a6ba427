"""The conditions between settings, and those of this machine: one line for each that fails."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from worker.settings.fields import DEFAULT_MODEL_DIMENSION, Fields, settings_by_field
from worker.settings.kinds import show_size
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
SENTENCE_BYTES: Final = 256  # upper bound of a sentence's field names, numbers and date
MESSAGE_BYTES: Final = 8 * 2**10
"""Upper bound of the rest of a message without its two ids: key, headers, and other fields."""


def complaints(settings: Fields) -> Iterator[str]:
    """The conditions that fail, each as a line that names the variables."""
    yield from _check_names(settings)
    yield from _check_order(settings)
    yield from _check_message_bytes(settings)
    yield from _check_sasl(settings)
    yield from _check_tls_files(settings)
    yield from _check_registry(settings)


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
    for pairs, words in ((AT_MOST, "at most"), (LESS_THAN, "less than")):
        for name, bound, reason in pairs:
            value, limit = getattr(settings, name), getattr(settings, bound)
            if value > limit or (value == limit and pairs is LESS_THAN):
                one, other = described[name], described[bound]
                yield (
                    f"{one.variable}: {one.kind.show(value)} must be {words} "
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


def largest_message(settings: Fields, sentences: int, sentence_ids: int) -> int:
    """Most bytes of a message with `sentences` sentences, which name `sentence_ids` ids each. The
    key, the headers and the stored row of the message count too.
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
    characters = settings.max_sentence_chars + ids + MAX_LANGUAGE_CHARS
    # of JSON, where a string of it writes " as \\\\\"
    more = (MAX_COUNTRY_BYTES + MAX_AUTHOR_BYTES) * (1 + (settings.output_format == "json-row"))
    return sentences * (escaped * characters + more + SENTENCE_BYTES) + (
        2 * escaped * MAX_ID_CHARS + MESSAGE_BYTES
    )


def _variables(settings: Fields, *names: str) -> dict[str, Any]:
    """The values of these fields by variable."""
    described = settings_by_field()
    return {described[name].variable: getattr(settings, name) for name in names}


def _check_sasl(settings: Fields) -> Iterator[str]:
    protocol = settings.security_protocol
    used = protocol.startswith("SASL_")
    wrong = "not set, but needed with" if used else "set, but not used with"
    values = _variables(settings, "sasl_mechanism", "sasl_username", "sasl_password")
    for variable, value in values.items():
        if (value is not None) != used:
            yield f"{variable}: {wrong} COVERSUMM_SECURITY_PROTOCOL={protocol}"


def _check_tls_files(settings: Fields) -> Iterator[str]:
    protocol = settings.security_protocol
    files = ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location")
    for variable, location in _variables(settings, *files).items():
        if location is not None and not protocol.endswith("SSL"):
            yield f"{variable}: set, but not used with COVERSUMM_SECURITY_PROTOCOL={protocol}"
        if location is not None and not _is_readable(location):
            yield f"{variable}: {location!r} is not a file that can be read"
    if (settings.ssl_certificate_location is None) != (settings.ssl_key_location is None):
        yield "COVERSUMM_SSL_CERTIFICATE_LOCATION, COVERSUMM_SSL_KEY_LOCATION: set both or neither"
    if settings.ssl_key_password is not None and settings.ssl_key_location is None:
        yield "COVERSUMM_SSL_KEY_PASSWORD: set, but COVERSUMM_SSL_KEY_LOCATION is not"


def _check_registry(settings: Fields) -> Iterator[str]:
    prefix = "COVERSUMM_SCHEMA_REGISTRY_"
    values = {
        "USERNAME": settings.schema_registry_username,
        "PASSWORD": settings.schema_registry_password,
        "TOKEN": settings.schema_registry_token,
        "CA_LOCATION": settings.schema_registry_ca_location,
    }
    given = [name for name, value in values.items() if value is not None]
    if settings.output_format == "avro" and settings.schema_registry_url is None:
        yield f"COVERSUMM_OUTPUT_FORMAT: avro needs {prefix}URL, which is not set"
    if given and settings.schema_registry_url is None:
        yield f"{prefix}{given[0]}: set, but {prefix}URL is not"
    if ("USERNAME" in given) != ("PASSWORD" in given):
        yield f"{prefix}USERNAME, {prefix}PASSWORD: set both or neither"
    if "USERNAME" in given and "TOKEN" in given:
        yield f"{prefix}TOKEN: set, and so is {prefix}USERNAME: unset one of them"
    location = settings.schema_registry_ca_location
    if location is not None and not _is_readable(location):
        yield f"{prefix}CA_LOCATION: {location!r} is not a file that can be read"


def _is_readable(location: str) -> bool:
    try:
        return Path(location).is_file() and os.access(location, os.R_OK)
    except OSError:  # too long for a path
        return False
