"""What settings demand of each other and of this machine: one line for each demand that
is not met.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from worker.settings.fields import DEFAULT_MODEL_DIMENSION, Fields
from worker.settings.kinds import show_size


def complaints(settings: Fields) -> Iterator[str]:
    """The demands that are not met, each in a line that names the variables."""
    yield from _check_names(settings)
    yield from _check_sizes(settings)
    yield from _check_deadlines(settings)
    yield from _check_sasl(settings)
    yield from _check_tls_files(settings)


def _check_names(settings: Fields) -> Iterator[str]:
    topics = [settings.input_topic, settings.output_topic, settings.dlq_topic]
    if len(set(topics)) < 3 or max(map(len, topics)) > 249:
        yield (
            f"COVERSUMM_INPUT_TOPIC, COVERSUMM_OUTPUT_TOPIC, COVERSUMM_DLQ_TOPIC: {', '.join(topics)} must be "
            "three different names of at most 249 characters"
        )
    if settings.instance_id == "dlq":
        yield "COVERSUMM_INSTANCE_ID: dlq would take the transactional id of `coversumm-worker dlq send`: choose another"
    if settings.emit_min_changes > settings.k:
        yield (
            f"COVERSUMM_EMIT_MIN_CHANGES: {settings.emit_min_changes} must be at most COVERSUMM_K ({settings.k}): a set of "
            "so many sentences could never differ by more"
        )
    if settings.vector_store_dir == settings.data_dir:
        yield (
            f"COVERSUMM_VECTOR_STORE_DIR: {settings.vector_store_dir} is COVERSUMM_DATA_DIR, which belongs to one worker: name "
            "another folder, it may be one in there"
        )
    if settings.embedder == "onnx" and settings.dimension != DEFAULT_MODEL_DIMENSION:
        yield (
            f"COVERSUMM_DIMENSION: {settings.dimension} is not the {DEFAULT_MODEL_DIMENSION} of "
            "COVERSUMM_EMBEDDER=onnx: unset it, or set COVERSUMM_EMBEDDER=none if the events carry embeddings"
        )


def _check_sizes(settings: Fields) -> Iterator[str]:
    text, event = show_size(settings.max_text_bytes), show_size(settings.max_event_bytes)
    transaction, in_flight = (
        show_size(settings.transaction_bytes),
        show_size(settings.in_flight_bytes),
    )
    if settings.max_text_bytes > settings.max_event_bytes:
        yield (
            f"COVERSUMM_MAX_TEXT_BYTES: {text} must be at most COVERSUMM_MAX_EVENT_BYTES ({event}): "
            "the event holds the text"
        )
    if settings.max_event_bytes > settings.transaction_bytes:
        yield (
            f"COVERSUMM_MAX_EVENT_BYTES: {event} must be at most COVERSUMM_TRANSACTION_BYTES ({transaction}): "
            "a transaction holds the event"
        )
    if settings.transaction_records > settings.in_flight_messages:
        yield (
            f"COVERSUMM_TRANSACTION_RECORDS: {settings.transaction_records} must be at most "
            f"COVERSUMM_IN_FLIGHT_MESSAGES ({settings.in_flight_messages}): a transaction is published at once"
        )
    if settings.transaction_bytes > settings.in_flight_bytes:
        yield (
            f"COVERSUMM_TRANSACTION_BYTES: {transaction} must be at most COVERSUMM_IN_FLIGHT_BYTES ({in_flight}): "
            "a transaction is published at once"
        )
    summary_bytes = settings.k * _sentence_bytes(settings.max_sentence_chars)
    if summary_bytes > settings.max_message_bytes:
        yield (
            f"COVERSUMM_MAX_MESSAGE_BYTES: {show_size(settings.max_message_bytes)} may be too little for COVERSUMM_K="
            f"{settings.k} sentences of COVERSUMM_MAX_SENTENCE_CHARS={settings.max_sentence_chars}: set at least "
            f"{summary_bytes}, and max.message.bytes of the output topic with it"
        )


def _sentence_bytes(chars: int) -> int:
    """The most bytes one sentence of a summary takes: six for a character that JSON escapes, its
    ids four times.
    """
    from worker.events import (
        MAX_SENTENCE_ID_CHARS,
    )  # late: it loads NumPy, whose threads are limited first

    return 6 * (chars + 4 * MAX_SENTENCE_ID_CHARS)


def _check_deadlines(settings: Fields) -> Iterator[str]:
    if settings.transaction_timeout_ms >= settings.commit_timeout_ms:
        yield (
            f"COVERSUMM_TRANSACTION_TIMEOUT_MS: {settings.transaction_timeout_ms} must be less than "
            f"COVERSUMM_COMMIT_TIMEOUT_MS ({settings.commit_timeout_ms}): the broker decides first"
        )
    if settings.batch_ms >= settings.stall_timeout_ms:
        yield (
            f"COVERSUMM_BATCH_MS: {settings.batch_ms} must be less than COVERSUMM_STALL_TIMEOUT_MS "
            f"({settings.stall_timeout_ms}): a slow micro-batch is no stall"
        )
    if settings.commit_timeout_ms >= settings.stall_timeout_ms:
        yield (
            f"COVERSUMM_COMMIT_TIMEOUT_MS: {settings.commit_timeout_ms} must be less than "
            f"COVERSUMM_STALL_TIMEOUT_MS ({settings.stall_timeout_ms}): a slow commit is no stall"
        )


def _check_sasl(settings: Fields) -> Iterator[str]:
    protocol = settings.security_protocol
    used = protocol.startswith("SASL_")
    wrong = "not set, but needed with" if used else "set, but not used with"
    values = {
        "COVERSUMM_SASL_MECHANISM": settings.sasl_mechanism,
        "COVERSUMM_SASL_USERNAME": settings.sasl_username,
        "COVERSUMM_SASL_PASSWORD": settings.sasl_password,
    }
    for variable, value in values.items():
        if (value is not None) != used:
            yield f"{variable}: {wrong} COVERSUMM_SECURITY_PROTOCOL={protocol}"


def _check_tls_files(settings: Fields) -> Iterator[str]:
    protocol = settings.security_protocol
    locations = {
        "COVERSUMM_SSL_CA_LOCATION": settings.ssl_ca_location,
        "COVERSUMM_SSL_CERTIFICATE_LOCATION": settings.ssl_certificate_location,
        "COVERSUMM_SSL_KEY_LOCATION": settings.ssl_key_location,
    }
    for variable, location in locations.items():
        if location is not None and not protocol.endswith("SSL"):
            yield f"{variable}: set, but not used with COVERSUMM_SECURITY_PROTOCOL={protocol}"
        if location is not None and not _is_readable(location):
            yield f"{variable}: {location!r} is not a file that can be read"
    if (settings.ssl_certificate_location is None) != (settings.ssl_key_location is None):
        yield "COVERSUMM_SSL_CERTIFICATE_LOCATION, COVERSUMM_SSL_KEY_LOCATION: set both or neither"
    if settings.ssl_key_password is not None and settings.ssl_key_location is None:
        yield "COVERSUMM_SSL_KEY_PASSWORD: set, but COVERSUMM_SSL_KEY_LOCATION is not"


def _is_readable(location: str) -> bool:
    try:
        return Path(location).is_file() and os.access(location, os.R_OK)
    except OSError:  # not a path at all: too long
        return False
