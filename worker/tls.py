"""TLS contexts made from files, and made again when the files change: certificates are renewed."""

import logging
import os
import re
import ssl
import time
from calendar import timegm
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from worker.errors import SetupError
from worker.settings import Settings

LOOK_SECONDS: Final = 5.0  # between looks at the files, while there are connections

PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
VALIDITY: Final = re.compile(rb"(?:\x17\r|\x18\x0f)\d{12,14}Z(?:\x17\r|\x18\x0f)(\d{12,14})Z")
"""Two times in a row in the DER of a certificate, with two digits of the year or with four."""

log = logging.getLogger(__name__)


class FileContext:
    """A context made from files. Raises SetupError if that is impossible at first.

    Later it keeps the last good files, and the log says why. Open connections keep their own.
    """

    def __init__(self, setting: str, make: Callable[[], ssl.SSLContext], *files: str) -> None:
        self._make, self._files = make, files
        try:
            self._seen, self._context = self._versions(), make()
        except OSError as cause:
            raise SetupError(
                f"{setting}: {', '.join(files)} cannot be used, as PEM files without a password "
                f"would be: {cause}"
            ) from cause
        self._looked = time.monotonic()

    def current(self) -> ssl.SSLContext:
        """The context of the files as they were when they were last right."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            try:
                if (versions := self._versions()) != self._seen:
                    self._seen = versions
                    self._context = self._make()
                    log.info("TLS is renewed from %s", ", ".join(self._files))
            except OSError as cause:
                log.warning("TLS is not renewed from %s: %s", ", ".join(self._files), cause)
        return self._context

    def _versions(self) -> list[tuple[int, int]]:
        return [(one.st_mtime_ns, one.st_ino) for one in map(os.stat, self._files)]


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
    """By file with a certificate of this process, when the first of its chain expires in Unix
    seconds. A file that cannot be read is left out.
    """
    found: dict[str, float] = {}
    for of in ("ssl", "schema_registry", "web_tls"):
        if file := getattr(settings, f"{of}_certificate_location"):
            with suppress(OSError, ValueError):
                found[file] = min(map(_expiry, PEM.findall(Path(file).read_text())))
    return found


def _expiry(pem: str) -> float:
    """Raises ValueError if it is no certificate."""
    if (validity := VALIDITY.search(ssl.PEM_cert_to_DER_cert(pem))) is None:
        raise ValueError("there is no validity")
    until = validity[1].decode()
    year = "%y" if len(until) == 12 else "%Y"
    return timegm(time.strptime(until, f"{year}%m%d%H%M%S"))
