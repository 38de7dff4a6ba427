"""TLS contexts made from files, and made again when the files change: certificates are renewed."""

import ssl
from contextlib import suppress
from typing import Any

from worker.credentials.files import FromFiles, expiry
from worker.settings import Settings

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
