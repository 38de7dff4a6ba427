"""The variables of this process: what a file adds to them, and what child processes get of them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from worker.settings.env_file import read_env_file
from worker.settings.fields import RESERVED, settings_by_field

_places: Final[dict[str, str]] = {}
"""Of variables that `environment_file` has set: where they stand."""


@contextmanager
def environment_file(path: str) -> Iterator[None]:
    """The variables of a file in the environment meanwhile; what is set there already, and not empty, wins.

    Raises:
        SurroundingsError: see `read_env_file`.
    """
    before = dict(os.environ)
    for name, value, place in read_env_file(path):
        if not before.get(name, "").strip():
            os.environ[name] = value
            _places[name] = place
    try:
        yield
    finally:
        for name in _places:
            os.environ.pop(name)
            if name in before:
                os.environ[name] = before[name]
        _places.clear()


def place_of(variable: str) -> str | None:
    """`file:line` of a variable that comes from a file."""
    return _places.get(variable)


def placed(variable: str) -> str:
    """The variable, with the place it comes from where that is a file."""
    return f"{_places[variable]}: {variable}" if variable in _places else variable


def limit_native_threads() -> None:
    """One thread for NumPy's BLAS, unless the environment says otherwise; before NumPy is imported.

    Its matrices here are small: more threads would only wait for each other, and take cores from the embedder.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(variable, "1")


def traces_endpoint() -> str | None:
    """The variable of OpenTelemetry that names a collector, `NAME=VALUE`; None where none does, or traces are turned off."""
    if _set("OTEL_SDK_DISABLED").lower() == "true" or _set("OTEL_TRACES_EXPORTER").lower() == "none":
        return None
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        if endpoint := _set(variable):
            return f"{variable}={endpoint}"
    return None


def traces_protocol() -> tuple[str, str]:
    """The variable of OpenTelemetry that says how to speak to it, and its value; empty where it says nothing."""
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := _set(variable):
            return variable, protocol
    return variable, ""


def _set(variable: str) -> str:
    return os.environ.get(variable, "").strip()


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process with these settings alone, whatever this process was started with."""
    known = {setting.variable for setting in settings_by_field().values()} | set(RESERVED)
    kept = {name: text for name, text in os.environ.items() if name not in known}
    return {**kept, **variables}
