"""What the worker must never do: run what it reads, show a secret, listen to more than its
settings say.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.harness.fake_clients import FakeClients
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.stream import no_seek
from tests.layers import ROOT, SOURCES, tree_of
from worker.app import CoverSummApp, assemble, on_faust
from worker.cli.group import cli
from worker.parts import Parts
from worker.settings import Settings, settings_by_field
from worker.settings.environment import environment_with
from worker.storage.databases import Databases
from worker.stream.surroundings import Surroundings
from worker.telemetry.metrics import Metrics

# Whatever turns bytes into objects of the writer's choice.
FORBIDDEN_MODULES = {
    *("pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal"),
    *("shelve", "yaml", "ruamel", "code", "codeop", "runpy"),
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {"system", "popen", "loads_pickle", "fromfile", "memmap"}


def imported(tree: ast.AST) -> set[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return {name.split(".")[0] for name in names}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call with the name it is called by: `f` of `f()`, `f` of `a.b.f()`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id, node
            elif isinstance(node.func, ast.Attribute):
                yield node.func.attr, node


def keyword(call: ast.Call, name: str) -> Any:
    """The constant given for a keyword, None where there is none."""
    return next(
        (
            keyword.value.value
            for keyword in call.keywords
            if keyword.arg == name and isinstance(keyword.value, ast.Constant)
        ),
        None,
    )


NAMED_BY_THE_OPERATOR = [("mapping/function.py", "exec"), ("mapping/function.py", "compile")]
"""The only calls that run what is read: the file of COVERSUMM_MAPPING or --mapping, NAME.py."""


def test_nothing_that_is_read_is_run_but_a_mapping_that_the_operator_names() -> None:
    run = []
    for source in SOURCES:
        tree = tree_of(source)
        assert not imported(tree) & FORBIDDEN_MODULES, source
        for name, call in calls(tree):
            place = f"{source}:{call.lineno} {name}"
            by_name = isinstance(call.func, ast.Name)
            if by_name and name in FORBIDDEN_CALLS:
                run.append(("/".join(Path(source).parts[-2:]), name))
            assert by_name or name not in FORBIDDEN_ATTRIBUTES, place
            assert keyword(call, "allow_pickle") is None, place
            assert keyword(call, "shell") is not True, place
            # rocksdict pickles what is no bytes, and unpickles what it reads, unless an option says
            # that all is bytes.
            if name in ("WriteBatch", "Options") and "rocksdict" in imported(tree):
                assert keyword(call, "raw_mode") is True, place
            if name == "Rdict":
                given = len(call.args) > 1 or any(
                    keyword.arg == "options" for keyword in call.keywords
                )
                assert given, f"{place}: rocksdict's own options are not raw"
    assert sorted(run) == sorted(NAMED_BY_THE_OPERATOR)


# -- Faust -----------------------------------------------------------------------------------------


@pytest.fixture
def app(tmp_path: Path, unused_tcp_port: int) -> Iterator[CoverSummApp]:
    """The worker's own app, not started."""
    settings = Settings(embedder="none", data_dir=tmp_path, web_port=unused_tcp_port)
    clients = FakeClients(producer=lambda options: None, admin=lambda: None)
    surroundings = Surroundings(clients, Databases(tmp_path, 2**24, 2, print))
    metrics = Metrics()
    made = on_faust(assemble(Parts(settings), 2, metrics, surroundings, no_seek), metrics)
    made.finalize()
    yield made
    made.web._bound.close()


def test_fausts_serializers_cannot_be_reached_from_a_topic(app: CoverSummApp) -> None:
    """Faust has a codec that unpickles. The input is raw, and the one topic besides it is never
    read through Faust.
    """
    topics = [agent._channel_arg for agent in app.agents.values()]
    assert [topic.topics for topic in topics] == [("marketplace.reviews.v1",)]
    for topic in topics:
        assert (topic.schema.key_serializer, topic.schema.value_serializer) == ("raw", "raw")
    changelogs = {table.changelog_topic_name for table in app.tables.values()}
    assert changelogs == {"coversumm-worker-entities-changelog"}
    serializers = {app.conf.key_serializer, app.conf.value_serializer}
    assert not any("pickle" in str(serializer) for serializer in serializers)


def test_the_app_listens_on_localhost_unless_told_otherwise(app: CoverSummApp) -> None:
    assert app.web._bound.getsockname()[0] == "127.0.0.1"
    assert Settings().web_bind == "127.0.0.1"


def test_the_app_has_the_workers_pages_and_no_others(app: CoverSummApp) -> None:
    app.web.init_server()
    routes = {resource.canonical for resource in app.web.web_app.router.resources()}
    static = resources.files("worker.web.page").joinpath("static").iterdir()
    routes -= {f"/page/{file.name}" for file in static}
    assert routes == {
        "/",
        "/healthz",
        "/readyz",
        "/metrics",
        "/status",
        "/entities",
        "/entities/{id}/summary",
        "/entities/{id}/facets",
        "/entities/{id}/ask",
        "/entities/{id}/trend",
        "/widget.js",
        "/page/status",
        "/page/entities",
        "/page/changes",
        "/page/entities/{id}/history",
        "/page/entities/{id}/changes",
    }
    methods = {route.method for route in app.web.web_app.router.routes()}
    assert methods == {"GET", "HEAD"}


# -- secrets ---------------------------------------------------------------------------------------

MARKER = "MARKER-of-a-secret"
SECRETS = {setting.variable: MARKER for setting in settings_by_field().values() if setting.secret}


def test_every_password_is_a_secret() -> None:
    assert SECRETS.keys() == {
        v
        for setting in settings_by_field().values()
        if re.search("(PASSWORD|TOKEN|SECRET)$", v := setting.variable)
    }


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


@pytest.mark.parametrize("arguments", [*commands(cli)], ids=" ".join)
def test_help_shows_no_value_of_the_environment(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*arguments, "--help"], env=environment_with(SECRETS))
    assert done.exit_code == 0
    assert "Usage" in done.output
    assert MARKER not in done.output


def test_no_secret_is_an_option_of_a_command() -> None:
    """Whoever may list processes may read their command lines."""
    for path in commands(cli):
        command: click.Command = cli
        for name in path:
            assert isinstance(command, click.Group)
            command = command.commands[name]
        for parameter in command.params:
            assert "password" not in f"{parameter.name}{parameter.opts}"


@pytest.mark.parametrize(
    "settings",
    [
        {"COVERSUMM_SASL_PASSWORD": f"{MARKER}\nsecond line"},  # no password
        {"COVERSUMM_SASL_PASSWORD": MARKER},  # without SASL
        {"COVERSUMM_SSL_KEY_PASSWORD": MARKER},  # without a key
        {"COVERSUMM_SASL_PASSWORD": MARKER, "COVERSUMM_K": "many"},
        {
            "COVERSUMM_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "COVERSUMM_SASL_MECHANISM": "PLAIN",
            "COVERSUMM_SASL_USERNAME": "worker",
            "COVERSUMM_SASL_PASSWORD": MARKER,
            "COVERSUMM_DATA_DIR": "/dev/null/nowhere",
            "COVERSUMM_LOG_LEVEL": "DEBUG",
        },
    ],
)
def test_errors_show_no_secret(settings: dict[str, str]) -> None:
    run = [sys.executable, "-m", "worker", "run"]
    environment = environment_with({"COVERSUMM_EMBEDDER": "none", **settings})
    done = subprocess.run(
        run, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 2, done.stderr
    assert MARKER not in done.stdout + done.stderr


def test_a_traceback_with_the_settings_in_it_shows_no_secret() -> None:
    secret = Settings(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="u",
        sasl_password=MARKER,
    )
    assert MARKER not in f"{secret!r} {secret}"
    assert secret.secrets() == [MARKER]
