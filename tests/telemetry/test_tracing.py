"""Whether there are traces: what of the environment turns them on, and what is loaded where they
are off.
"""

from __future__ import annotations

import builtins
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.workers import ROOT, clean_environment
from worker.app import open_tracing
from worker.errors import SetupError
from worker.extras import install_command
from worker.settings import Settings
from worker.stream.surroundings import NO_TRACING

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
URL = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith("OTEL_"):
            monkeypatch.delenv(variable)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {ENDPOINT: " "},
        {ENDPOINT: URL, "OTEL_SDK_DISABLED": "true"},
        {ENDPOINT: URL, "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_off(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert open_tracing(Settings()) is NO_TRACING


@pytest.mark.parametrize("variable", [ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_on(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, URL)
    tracing = open_tracing(Settings())
    assert tracing is not NO_TRACING
    tracing.close()


def test_only_http_is_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, URL)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(
        SetupError, match=r"^OTEL_EXPORTER_OTLP_PROTOCOL=grpc: .* http/protobuf alone$"
    ):
        open_tracing(Settings())
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")  # the nearer one wins
    open_tracing(Settings()).close()


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    really = builtins.__import__

    def missing(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return really(name, *arguments, **more)

    monkeypatch.setenv(ENDPOINT, URL)
    for loaded in [name for name in sys.modules if name == "worker.telemetry.spans"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SetupError, match=re.escape(install_command("otel"))):
        open_tracing(Settings())


def test_nothing_of_opentelemetry_is_loaded_where_it_is_off() -> None:
    """In a process that knows all parts of the worker, and has looked whether it traces."""
    code = (
        "import sys, worker.app, worker.cli.group;"
        "from worker.settings import Settings;"
        "worker.app.open_tracing(Settings()).close();"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    loaded = done.stdout.split()
    assert "worker.app" in loaded
    assert not [
        name for name in loaded if name.startswith(("opentelemetry", "worker.telemetry.spans"))
    ]
