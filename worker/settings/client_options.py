"""The options of Kafka clients that `COVERSUMM_CLIENT_OPTIONS` may not set, and why."""

import re
from typing import Final

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
"""Patterns of names, each with the setting to use or what would break."""


def refusal(option: str) -> str | None:
    """Why an option may not be set, or the setting to use; None if it may."""
    return next((why for names, why in _REFUSED if re.fullmatch(names, option)), None)
