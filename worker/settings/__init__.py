"""The settings, and the only package that reads the environment.

    fields       what can be set: variable, kind, default, help
    kinds        what a variable's text may be
    checks       what settings demand of each other
    environment  the variables of this process and of its children
    env_file     files of variables
    unknown      variables that look like settings and are none

Whatever is wrong is one SetupError that names the variable, the value and what is accepted.
An empty variable counts as not set.
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

from worker.errors import SetupError
from worker.settings.checks import complaints
from worker.settings.environment import (
    environment_file,
    environment_with,
    limit_native_threads,
    misspelt,
    place_of,
    placed,
    traces_endpoint,
    traces_protocol,
    unknown_variables,
)
from worker.settings.fields import (
    MAX_BATCH_EVENTS,
    MAX_SENTENCES_PER_ENTITY,
    PREFIX,
    RESERVED,
    Fields,
    Setting,
    settings_by_field,
)

__all__ = [
    "ALL_ADDRESSES",
    "COMPUTED",
    "HIDDEN",
    "MAX_BATCH_EVENTS",
    "MAX_SENTENCES_PER_ENTITY",
    "PREFIX",
    "RESERVED",
    "Setting",
    "Settings",
    "environment_file",
    "environment_with",
    "limit_native_threads",
    "origins",
    "settings_by_field",
    "traces_endpoint",
    "traces_protocol",
    "unknown_settings",
]

HIDDEN = "***"
"""Shown in place of a secret."""
ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - recognised, not listened on
COMPUTED = "computed"
"""The origin of a default that is found out at start."""


@dataclass(frozen=True, kw_only=True)
class Settings(Fields):
    """Everything that can be set. Construction checks what settings demand of each other
    (SetupError).
    """

    def __post_init__(self) -> None:
        """Fill in the defaults that are found out at start, then check."""
        for name in ("data_dir", "model_cache_dir", "vector_store_dir"):
            if (folder := getattr(self, name)) is not None:
                object.__setattr__(self, name, folder.expanduser().absolute())
        for name, value in self._found_out().items():
            object.__setattr__(self, name, getattr(self, name) or value)
        for complaint in complaints(self):
            raise SetupError(complaint)
        try:
            self.tls_context()
        except (
            OSError,
            ValueError,
        ) as cause:  # ssl.SSLError is an OSError; a password may be too long
            raise SetupError(
                f"the TLS files cannot be used ({getattr(cause, 'strerror', None) or cause}): look at COVERSUMM_SSL_CA_LOCATION, "
                "COVERSUMM_SSL_CERTIFICATE_LOCATION, COVERSUMM_SSL_KEY_LOCATION and COVERSUMM_SSL_KEY_PASSWORD"
            ) from cause

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] = os.environ, **instead: str | None
    ) -> Settings:
        """The settings of this process; SetupError for what is not accepted.

        `instead`: by field, the text to take in place of its variable (of command line options);
        None: the variable.
        """
        described = settings_by_field()
        _refuse_reserved(environ)
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

    def _found_out(self) -> dict[str, Any]:
        """The defaults that depend on this machine or on other settings, by field."""
        return {
            "dlq_topic": f"{self.input_topic}.dlq",
            "embedder_threads": os.cpu_count() or 1,
            "instance_id": _instance_id(self.data_dir),
            "web_advertised_url": f"http://{self.web_bind}:{self.web_port}",
        }

    def shown(self, name: str) -> Any:
        """A field's value as it may be shown: a JSON scalar, `HIDDEN` for a secret."""
        value = getattr(self, name)
        if settings_by_field()[name].secret and value is not None:
            return HIDDEN
        return str(value) if isinstance(value, Path) else value

    def changed(self) -> dict[str, Any]:
        """By variable, what is not as it would be by default, as it may be shown."""
        described = settings_by_field()
        return {described[name].variable: self.shown(name) for name in self._set()}

    def environment(self) -> dict[str, str]:
        """By variable, the texts that give a process these settings; without what is default, and
        without secrets.
        """
        described = settings_by_field()
        return {
            described[name].variable: described[name].kind.show(getattr(self, name))
            for name in self._set()
            if not described[name].secret
        }

    def _set(self) -> list[str]:
        """The fields that are not as they would be by default, in order."""
        defaults = {name: getattr(Fields, name) for name in settings_by_field()} | self._found_out()
        defaults |= {
            name: value.expanduser().absolute()
            for name, value in defaults.items()
            if isinstance(value, Path)
        }
        return [name for name, default in defaults.items() if getattr(self, name) != default]

    def secrets(self) -> list[str]:
        """The values that nothing may show."""
        values = (
            getattr(self, name) for name, setting in settings_by_field().items() if setting.secret
        )
        return [str(value) for value in values if value]

    @property
    def local_url(self) -> str:
        """The URL of the worker on this machine that has these settings."""
        host = self.web_bind if self.web_bind not in ALL_ADDRESSES else "127.0.0.1"
        return f"http://{host}:{self.web_port}"

    @property
    def transactional_id(self) -> str:
        """Of this worker's transactions: stable over restarts, unique among running workers."""
        return f"{self.app_id}-{self.instance_id}"

    @property
    def group_instance_id(self) -> str | None:
        """Under which name this worker is a static member of its group; None: a member for as long
        as it runs.
        """
        return self.instance_id

    def kafka_client_config(self) -> dict[str, Any]:
        """Addresses and security for librdkafka."""
        config = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.transactional_id,
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
        """TLS for Python's own clients, None where it is not used. Raises OSError where a file is
        not what it has to be.
        """
        if not self.security_protocol.endswith("SSL"):
            return None
        context = ssl.create_default_context(cafile=self.ssl_ca_location)
        if self.ssl_certificate_location is not None:
            # An empty password: with none at all OpenSSL would ask at the terminal, and wait.
            password = self.ssl_key_password or ""
            context.load_cert_chain(self.ssl_certificate_location, self.ssl_key_location, password)
        return context


def origins(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """By field, where its value comes from: `default`, `computed`, `environment`, or
    `file:line`.
    """
    unset = dict.fromkeys(settings_by_field(), "default") | dict.fromkeys(
        Settings()._found_out(), COMPUTED
    )
    return {
        name: place_of(one.variable) or "environment"
        if environ.get(one.variable, "").strip()
        else unset[name]
        for name, one in settings_by_field().items()
    }


def unknown_settings(environ: Mapping[str, str] = os.environ) -> str | None:
    """A line about the variables that look like settings and are none, with what may be meant; None
    where there are none.

    Without those that are refused anyway: `Settings.from_environment` says so.
    """
    known = {*(one.variable for one in settings_by_field().values()), *RESERVED}
    unknown = [
        f"{placed(one.variable)} ({'is it ' + one.nearest + '?' if one.nearest else 'nothing is near'})"
        for one in unknown_variables(environ, known)
        if not misspelt(one.variable, known)
    ]
    return f"ignored, for there are no such settings: {', '.join(unknown)}" if unknown else None


def _instance_id(data_dir: Path) -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:180] or "worker"
    return f"{host}-{sha256(os.fsencode(data_dir)).hexdigest()[:8]}"


def _parse(setting: Setting, what: str, text: str) -> Any:
    try:
        return setting.kind.parse(text)
    except ValueError:
        value = "its value" if setting.secret else _shown(text)
        raise SetupError(f"{what}: {value} is not accepted; {setting.kind.accepts}") from None


def _refuse_reserved(environ: Mapping[str, str]) -> None:
    for variable, why in RESERVED.items():
        if text := environ.get(variable, "").strip():
            raise SetupError(f"{placed(variable)}: {_shown(text)} cannot be used, {why}: unset it")


def _refuse_misspelt(environ: Mapping[str, str], known: Iterable[str]) -> None:
    """A misspelt variable would be ignored in silence. Near misses only: Kubernetes adds some of
    its own.
    """
    names = {*known, *RESERVED}
    for variable in environ:
        if near := misspelt(variable, names):
            raise SetupError(
                f"{placed(variable)}: there is no such setting; {near} is the nearest: rename or unset"
            )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}...")
