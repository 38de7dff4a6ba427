"""TLS contexts and the login to Kafka, made again when their files change."""

import logging
import os
import re
import ssl
import time
from calendar import timegm
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from worker.errors import SetupError
from worker.settings import Settings

LOOK_SECONDS: Final = 5.0  # between looks at the files, while there are connections

PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
VALIDITY: Final = re.compile(rb"(?:\x17\r|\x18\x0f)\d{12,14}Z(?:\x17\r|\x18\x0f)(\d{12,14})Z")
"""Two times in a row in the DER of a certificate, with two digits of the year or with four."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class FromFiles(Generic[T]):
    """A value made from files. Raises SetupError if that is impossible at first.

    Later it keeps that of the last good files, and the log says why. Open connections keep theirs.
    """

    def __init__(self, setting: str, make: Callable[[], T], *files: str | None) -> None:
        self._make, self._files = make, [file for file in files if file is not None]
        try:
            self._seen, self._value = self._versions(), make()
        except (OSError, ValueError) as cause:
            raise SetupError(
                f"{setting}: {', '.join(self._files)} cannot be used, as PEM files without a "
                f"password would be: {cause}"
            ) from cause
        self._looked = time.monotonic()

    def current(self) -> T:
        """The value of the files as they were when they were last right. Safe in any thread."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            try:
                if (versions := self._versions()) != self._seen:
                    self._seen = versions
                    self._value = self._make()
                    log.info("credentials are renewed from %s", ", ".join(self._files))
            except (OSError, ValueError) as cause:
                log.warning("credentials are not renewed (%s): %s", ", ".join(self._files), cause)
        return self._value

    def _versions(self) -> list[tuple[int, int]]:
        return [(status.st_mtime_ns, status.st_ino) for status in map(os.stat, self._files)]


KafkaLogin = tuple[ssl.SSLContext | None, str | None]
"""TLS and the password of a client that connects now, as far as the settings ask for them."""


def kafka_login(settings: Settings) -> FromFiles[KafkaLogin]:
    """The login of these settings, by their files. Raises SetupError."""
    return FromFiles(
        "COVERSUMM_SSL_..., COVERSUMM_SASL_PASSWORD_LOCATION",
        lambda: (settings.tls_context(), settings.broker_password()),
        settings.ssl_ca_location,
        settings.ssl_certificate_location,
        settings.ssl_key_location,
        settings.sasl_password_location,
    )


def expiry(file: str) -> int:
    """Unix time in seconds at which the first certificate of a file's chain expires.

    Raises OSError, and ValueError if there is no certificate.
    """
    return min(map(_expiry, PEM.findall(Path(file).read_text())))


def _expiry(pem: str) -> int:
    if (validity := VALIDITY.search(ssl.PEM_cert_to_DER_cert(pem))) is None:
        raise ValueError("there is no validity")
    until = validity[1].decode()
    year = "%y" if len(until) == 12 else "%Y"
    return timegm(time.strptime(until, f"{year}%m%d%H%M%S"))


def expired(settings: Settings) -> str:
    """Words about the client certificate in its file if that has expired; else none."""
    try:
        ends = expiry(settings.ssl_certificate_location or "")
    except (OSError, ValueError):
        return ""
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ends))
    return f", which expired on {at}" if ends < time.time() else ""


FileContext = FromFiles[ssl.SSLContext]


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """The context of the web server, or None: it speaks plain HTTP. Raises SetupError."""
    certificate, key = settings.web_tls_certificate_location, settings.web_tls_key_location
    if certificate is None or key is None:
        return None

    def make() -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.set_alpn_protocols(["http/1.1"])
        made.load_cert_chain(certificate, key, password="")  # never asks on a terminal
        return made

    files = FileContext("COVERSUMM_WEB_TLS_CERTIFICATE_LOCATION", make, certificate, key)

    def renew(connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = files.current()

    context = files.current()
    context.sni_callback = renew  # of each handshake, also without a name
    return context


def client_context(settings: Settings) -> FileContext | None:
    """The context to ask other workers, or None: the system's. Raises SetupError."""
    location = settings.web_tls_ca_location
    if location is None:
        return None
    make = lambda: ssl.create_default_context(cafile=location)  # noqa: E731
    return FileContext("COVERSUMM_WEB_TLS_CA_LOCATION", make, location)


def certificate_expiries(settings: Settings) -> dict[str, float]:
    """Expiry by file with a certificate of this process: when the first of its chain expires, in
    Unix seconds. A file that cannot be read is left out.
    """
    found: dict[str, float] = {}
    for of in ("ssl", "schema_registry", "web_tls"):
        if file := getattr(settings, f"{of}_certificate_location"):
            with suppress(OSError, ValueError):
                found[file] = expiry(file)
    return found
