"""The settings, and the only package that reads the environment.

    fields       the settings: variable, kind, default, help
    kinds        the values that a variable accepts
    checks       conditions between settings; options of Kafka clients that are refused
    environment  the variables of this process, of files, and of child processes; unknown ones

An error is one SetupError that names the variable, the value and what is accepted. An empty
variable counts as not set.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from worker.errors import SetupError
from worker.settings.checks import complaints
from worker.settings.environment import misspelt, place_of, placed, unknown_variables
from worker.settings.fields import (
    MAX_BATCH_EVENTS,
    MAX_MESSAGE_BYTES,
    MAX_SENTENCES_PER_ENTITY,
    PREFIX,
    Fields,
    Setting,
    settings_by_field,
)
from worker.settings.kinds import PAIRS, host_port, pairs

__all__ = [
    "ALL_ADDRESSES",
    "COMPUTED",
    "HIDDEN",
    "MAX_BATCH_EVENTS",
    "MAX_MESSAGE_BYTES",
    "MAX_SENTENCES_PER_ENTITY",
    "PREFIX",
    "Setting",
    "Settings",
    "origins",
    "settings_by_field",
    "unknown_settings",
]

HIDDEN = "***"  # shown in place of a secret
ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - recognised, not listened on
COMPUTED = "computed"  # the origin of a default that is computed at start


@dataclass(frozen=True, kw_only=True)
class Settings(Fields):
    """All settings. Construction checks the conditions between them and raises SetupError."""

    def __post_init__(self) -> None:
        """Compute the defaults that depend on other settings, then check."""
        for name in ("data_dir", "model_cache_dir", "vector_store_dir", "mapping"):
            if (folder := getattr(self, name)) is not None:
                object.__setattr__(self, name, folder.expanduser().absolute())
        for name, value in self._computed().items():
            object.__setattr__(self, name, getattr(self, name) or value)
        for complaint in complaints(self):
            raise SetupError(complaint)
        try:
            self.broker_password()
        except (OSError, ValueError) as cause:
            raise SetupError(f"COVERSUMM_SASL_PASSWORD_LOCATION: {cause}") from None
        for prefix, context, of_whom in (
            ("COVERSUMM_SSL_", self.tls_context, "TLS files"),
            ("COVERSUMM_SCHEMA_REGISTRY_", self.registry_tls_context, "registry's TLS files"),
        ):
            try:
                context()
            except (OSError, ValueError) as cause:  # ValueError: a password that is too long
                raise SetupError(
                    f"the {of_whom} cannot be used ({getattr(cause, 'strerror', None) or cause}): "
                    f"check {prefix}CA_LOCATION, {prefix}CERTIFICATE_LOCATION, "
                    f"{prefix}KEY_LOCATION and {prefix}KEY_PASSWORD"
                ) from cause

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] = os.environ, **instead: str | None
    ) -> Settings:
        """The settings of this process. Raises SetupError for a value that is not accepted.

        `instead`: by field, the text of a command line option that replaces the variable's, or
        None.
        """
        described = settings_by_field()
        _refuse_misspelt(environ, [setting.variable for setting in described.values()])
        options = {name: text for name, text in instead.items() if text is not None}
        values = {
            name: _parse(described[name], described[name].variable, text)
            for name, text in options.items()
            if text
        }
        for name, setting in described.items():
            if name not in options and (text := environ.get(setting.variable, "").strip()):
                values[name] = _parse(setting, placed(setting.variable), text)
        return cls(**values)

    def _computed(self) -> dict[str, Any]:
        """The defaults that depend on this machine or on other settings, by field."""
        host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:180] or "worker"
        return {
            "dlq_topic": f"{self.input_topic}.dlq",
            "embedder_threads": os.cpu_count() or 1,
            "instance_id": f"{host}-{sha256(os.fsencode(self.data_dir)).hexdigest()[:8]}",
            "web_advertised_url": self.url_of(self.web_bind, self.web_port),
        }

    def shown(self, name: str) -> Any:
        """A field's value as a JSON scalar; `HIDDEN` for a secret."""
        value = getattr(self, name)
        if settings_by_field()[name].secret and value is not None:
            return HIDDEN
        return str(value) if isinstance(value, Path) else value

    def changed(self) -> dict[str, Any]:
        """The values that are not defaults, by variable, as `shown`."""
        described = settings_by_field()
        return {described[name].variable: self.shown(name) for name in self._changed_fields()}

    def environment(self) -> dict[str, str]:
        """The variables that give a process these settings, without defaults and secrets."""
        described = settings_by_field()
        return {
            described[name].variable: described[name].kind.show(getattr(self, name))
            for name in self._changed_fields()
            if not described[name].secret
        }

    def _changed_fields(self) -> list[str]:
        defaults = {name: getattr(Fields, name) for name in settings_by_field()} | self._computed()
        defaults |= {
            name: value.expanduser().absolute()
            for name, value in defaults.items()
            if isinstance(value, Path)
        }
        return [name for name, default in defaults.items() if getattr(self, name) != default]

    def secrets(self) -> list[str]:
        """The secret values, which no output may show."""
        values = [
            getattr(self, name) for name, setting in settings_by_field().items() if setting.secret
        ]
        values += [self.broker_password()] if self.sasl_password_location else []
        return [str(value) for value in values if value]

    def url_of(self, host: str, port: int) -> str:
        """The URL of a worker there that has these settings."""
        scheme = "http" if self.web_tls_certificate_location is None else "https"
        return f"{scheme}://{host_port(host, port)}"

    @property
    def local_url(self) -> str:
        """The URL of the worker on this machine that has these settings."""
        advertised = urlsplit(self.web_advertised_url)
        is_named = advertised.hostname not in ALL_ADDRESSES
        if self.web_tls_certificate_location is not None and is_named:
            return self.web_advertised_url  # the certificate is for this name
        host = self.web_bind if self.web_bind not in ALL_ADDRESSES else "127.0.0.1"
        return self.url_of(host, self.web_port)

    @property
    def transactional_id(self) -> str:
        """The transactional id: stable over restarts, unique among running workers."""
        return f"{self.app_id}-{self.instance_id}"

    @property
    def group_instance_id(self) -> str | None:
        """The name of a static member of the group; None for a dynamic member."""
        return self.instance_id

    def broker_password(self) -> str | None:
        """The password for SASL; if a file has it, as it is now. Raises OSError and ValueError."""
        if self.sasl_password_location is None:
            return self.sasl_password
        found = Path(self.sasl_password_location).read_text("utf-8").strip()
        if len(found.splitlines()) != 1:
            raise ValueError(f"{self.sasl_password_location} must have a password in one line")
        return found

    def kafka_client_config(self) -> dict[str, Any]:
        """Addresses and security for librdkafka, without tokens and `client_options`.

        Raises OSError and ValueError as `broker_password` does.
        """
        mechanism = self.sasl_mechanism
        config = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.transactional_id,
            "security.protocol": self.security_protocol.lower(),
            "sasl.mechanism": "OAUTHBEARER" if mechanism == "AWS_MSK_IAM" else mechanism,
            "sasl.username": self.sasl_username,
            "sasl.password": self.broker_password(),
            "ssl.ca.location": self.ssl_ca_location,
            "ssl.certificate.location": self.ssl_certificate_location,
            "ssl.key.location": self.ssl_key_location,
            "ssl.key.password": self.ssl_key_password,
        }
        return {name: value for name, value in config.items() if value is not None}

    def tls_context(self) -> ssl.SSLContext | None:
        """TLS for Python's own clients; None without TLS. Raises OSError for a bad file."""
        if not self.security_protocol.endswith("SSL"):
            return None
        context = _tls(
            self.ssl_ca_location,
            self.ssl_certificate_location,
            self.ssl_key_location,
            self.ssl_key_password,
        )
        named = pairs(self.client_options).get("ssl.endpoint.identification.algorithm")
        context.check_hostname = named != "none"
        return context

    def registry_tls_context(self) -> ssl.SSLContext | None:
        """TLS for the schema registry; None for the system's. Raises OSError for a bad file."""
        if not (self.schema_registry_ca_location or self.schema_registry_certificate_location):
            return None
        return _tls(
            self.schema_registry_ca_location,
            self.schema_registry_certificate_location,
            self.schema_registry_key_location,
            self.schema_registry_key_password,
        )


def _tls(
    ca: str | None, certificate: str | None, key: str | None, password: str | None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    if certificate is not None:
        # without a password OpenSSL asks at the terminal
        context.load_cert_chain(certificate, key, password or "")
    return context


def origins(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The origin of each field: `default`, `computed`, `environment`, or `file:line`."""
    described = settings_by_field()
    found = dict.fromkeys(described, "default") | dict.fromkeys(Settings()._computed(), COMPUTED)
    for name, setting in described.items():
        if environ.get(setting.variable, "").strip():
            found[name] = place_of(setting.variable) or "environment"
    return found


def unknown_settings(environ: Mapping[str, str] = os.environ) -> str | None:
    """A line about variables that look like settings, with suggestions; None without any.

    `Settings.from_environment` refuses others.
    """
    known = {setting.variable for setting in settings_by_field().values()}
    unknown = [
        f"{placed(name)} ({f'is it {nearest}?' if nearest else 'nothing is near'})"
        for name, nearest in unknown_variables(environ, known)
        if not misspelt(name, known)
    ]
    return f"ignored, for there are no such settings: {', '.join(unknown)}" if unknown else None


def _parse(setting: Setting, what: str, text: str) -> Any:
    try:
        return setting.kind.parse(text)
    except ValueError:
        # a password in a URL, or among options
        is_secret = setting.secret or setting.kind is PAIRS or re.search("//.*@", text)
        shown = repr(text if len(text) <= 100 else f"{text[:100]}...")
        value = "its value" if is_secret else shown
        raise SetupError(f"{what}: {value} is not accepted; {setting.kind.accepts}") from None


def _refuse_misspelt(environ: Mapping[str, str], known: Iterable[str]) -> None:
    """Raise SetupError for a near miss; others may be variables that Kubernetes adds."""
    names = set(known)
    for variable in environ:
        if near := misspelt(variable, names):
            raise SetupError(
                f"{placed(variable)}: there is no such setting; {near} is the nearest: "
                "rename or unset"
            )
