"""TLS contexts made from files, and made again when the files change: certificates are renewed."""

import logging
import os
import ssl
import time
from collections.abc import Callable
from typing import Any, Final

from worker.errors import SetupError
from worker.settings import Settings

LOOK_SECONDS: Final = 5.0  # between looks at the files, while there are connections

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
