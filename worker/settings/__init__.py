"""The settings, and the only package that reads the environment.

    fields   what can be set: variable, kind, default, help
    kinds    what a variable's text may be
    checks   what settings demand of each other

Whatever is wrong is one SurroundingsError that names the variable, the value and what is accepted. An empty variable
counts as not set.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

from worker.errors import SurroundingsError
from worker.settings.checks import complaints
from worker.settings.fields import (
    MAX_SENTENCES_PER_ENTITY,
    PREFIX,
    RESERVED,
    Fields,
    Setting,
    settings_by_field,
)

__all__ = [
    "MAX_SENTENCES_PER_ENTITY",
    "PREFIX",
    "RESERVED",
    "Setting",
    "Settings",
    "environment_with",
    "limit_native_threads",
    "settings_by_field",
]


@dataclass(frozen=True, kw_only=True)
class Settings(Fields):
    """Everything that can be set. Construction checks what settings demand of each other (SurroundingsError)."""

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
        for complaint in complaints(self):
            raise SurroundingsError(complaint)
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
        _refuse_reserved(environ)
        _refuse_misspelt(environ, [setting.variable for setting in described.values()])
        given = {name: environ.get(setting.variable, "").strip() for name, setting in described.items()}
        given |= {name: text for name, text in instead.items() if text is not None}
        return cls(**{name: _parse(described[name], text) for name, text in given.items() if text})

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


def limit_native_threads() -> None:
    """One thread for NumPy's BLAS, unless the environment says otherwise; before NumPy is imported.

    Its matrices here are small: more threads would only wait for each other, and take cores from the embedder.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(variable, "1")


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process with these settings alone, whatever this process was started with."""
    known = {setting.variable for setting in settings_by_field().values()} | set(RESERVED)
    kept = {name: text for name, text in os.environ.items() if name not in known}
    return {**kept, **variables}


def _instance_id(data_dir: Path) -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:180] or "worker"
    return f"{host}-{sha256(os.fsencode(data_dir)).hexdigest()[:8]}"


def _parse(setting: Setting, text: str) -> Any:
    try:
        return setting.kind.parse(text)
    except ValueError:
        value = "its value" if setting.secret else _shown(text)
        raise SurroundingsError(
            f"{setting.variable}: {value} is not accepted; {setting.kind.accepts}"
        ) from None


def _refuse_reserved(environ: Mapping[str, str]) -> None:
    for variable, why in RESERVED.items():
        if text := environ.get(variable, "").strip():
            raise SurroundingsError(f"{variable}: {_shown(text)} cannot be used, {why}: unset it")


def _refuse_misspelt(environ: Mapping[str, str], known: Iterable[str]) -> None:
    """A misspelt variable would be ignored in silence. Near misses only: Kubernetes adds some of its own."""
    names = {*known, *RESERVED}
    for variable in environ:
        if variable.startswith(PREFIX) and variable not in names:
            for near in get_close_matches(variable, names, n=1, cutoff=0.93):
                raise SurroundingsError(
                    f"{variable}: there is no such setting; {near} is the nearest: rename or unset"
                )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}...")
