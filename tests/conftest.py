"""What every suite shares: tests on a real Kafka are skipped where it cannot run, and the last
lines say so.

With TESTS_NO_SKIP=1 (`.ci/run` sets it) any skip, whatever its reason, is a failure: a test that
never runs proves nothing.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.bench.peers import launch
from tests.deploy import tools
from tests.deploy.cluster import programs
from tests.harness import browser, node, postgres
from tests.harness.broker import KafkaBroker
from tests.harness.fake_clients import FakeClock
from tests.harness.fake_producer import Bounded, Producers
from tests.harness.node import INSTALL, missing_tools
from worker.coversumm.native import native_module
from worker.text import openvino
from worker.text.identity import machine_type

SITE = Path(__file__).parents[1] / ".cache" / "site" / ".ready"
NO_SKIP = os.environ.get("TESTS_NO_SKIP") == "1"
FEW_EXAMPLES = 20
"""Examples of a property test at most, unless `--every-example` is given."""
_notice: list[str] = []

# An example takes as long as the machine lets it take.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Let brokers start quickly, but for the fault suites, whose loads are long.

    Where the run itself was started with SIGINT ignored (`make test &` in a script), the children
    it starts must not be.
    """
    if config.getoption("markexpr") != "faults":
        node.java_options[:] = node.QUICK_START
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the long suites: `--data`, `--share` and `--every-example`."""
    parser.addoption("--data", help="JSONL file of reviews (.gz too) for the fault suites")
    parser.addoption(
        "--share", default="1", help="share of the fault suites' events and faults, to try them"
    )
    parser.addoption(
        "--every-example",
        action="store_true",
        help=f"as many Hypothesis examples as each test names, not {FEW_EXAMPLES} at most",
    )


@pytest.fixture
def clock() -> FakeClock:
    """A clock that a test moves."""
    return FakeClock()


@pytest.fixture
def producers() -> Producers:
    return Producers()


@pytest.fixture
def bounded() -> Bounded:
    return Bounded()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole session. Tests keep apart by topics, group and application id, never
    by a fresh broker.
    """
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


_opened_sockets = 0


def _count_sockets(event: str, _: object) -> None:
    global _opened_sockets
    if event == "socket.__new__":
        _opened_sockets += 1


sys.addaudithook(_count_sockets)


@pytest.fixture(autouse=True)
def _answers_for_its_sockets() -> Iterator[None]:
    """Collect what a test that opened sockets leaves behind, so that one it did not close fails
    this test and not a later one.
    """
    before = _opened_sockets
    yield
    if _opened_sockets > before:
        gc.collect()


@pytest.fixture(autouse=True, scope="module")
def _module_answers_for_its_fixtures() -> Iterator[None]:
    """Collect the garbage of a module's fixtures, so that its warning fails no other module's test.
    Later collections do not visit the objects that are alive then.
    """
    yield
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    """Let collections look only at what tests make."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process sets up logging: the next test is not
    to have it.
    """
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Limit the examples of a property test."""
    test = getattr(item, "obj", None)
    given = getattr(test, "_hypothesis_internal_use_settings", None)
    if given is not None and not item.config.getoption("--every-example"):
        few = min(given.max_examples, FEW_EXAMPLES)
        test._hypothesis_internal_use_settings = hypothesis.settings(given, max_examples=few)


def _slow_files_first(items: list[pytest.Item]) -> None:
    """Sort the items so that `-n 2 --dist loadfile` starts with the longest files: those on a real
    Kafka, of which test_security waits for certificates to expire, then the simulation. The many
    short files then keep both processes busy to the end.
    """
    on_kafka = {item.path for item in items if item.get_closest_marker("kafka")}
    first = "test_security.py", "test_replay.py", "test_registry.py"
    items.sort(
        key=lambda item: (
            item.path not in on_kafka,
            item.path.name not in first,
            "simulation" not in item.path.parts,
        )
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests, and leave out those whose tool is missing. Tests on a real Kafka are skipped
    instead; the last lines of the run say so.
    """
    _slow_files_first(items)
    for program in ("promtool", "prometheus"):
        if shutil.which(program) is None:
            why = (
                f"Tests of alerts and dashboard were left out for want of {program}, of Prometheus."
            )
            _leave_out(program, config, items, why)
    if lacking_tools := tools.missing_tools():
        what = ", ".join(lacking_tools)
        _leave_out(
            "helm",
            config,
            items,
            f"The tests of the chart were left out for want of {what}: make deploy-tools",
        )
    if not tools.ASYNCAPI.exists():
        why = (
            f"The AsyncAPI document was not parsed for want of Node.js {tools.NODE_MAJOR} or its "
            "packages: make deploy-tools"
        )
        _leave_out("asyncapi", config, items, why)
    if not SITE.exists():
        why = "The site of the documentation was not built for want of mkdocs: make site"
        _leave_out("site", config, items, why)
    if browser.program() is None:
        why = (
            "The tests of the live page were left out for want of Chromium "
            "(Debian: apt-get install chromium)."
        )
        _leave_out("chromium", config, items, why)
    if postgres.program("initdb") is None:
        why = f"The tests of PostgreSQL were left out for want of it: {postgres.INSTALL}."
        _leave_out("postgres", config, items, why)
    if not openvino.INSTRUCTION_SETS & set(machine_type().split()):
        why = (
            "The tests of bf16 were left out: this processor has neither avx512_bf16 nor amx_bf16."
        )
        _leave_out("bf16", config, items, why)
    if native_module() is None:
        why = (
            "The tests of native code were left out: it is not built here. Install Rust 1.88 or "
            "newer, then: make setup"
        )
        _leave_out("native", config, items, why)
    if shutil.which("cargo") is None:
        why = "The model of the commit protocol was left out: install Rust 1.88 or newer."
        _leave_out("cargo", config, items, why)
    if lacking_peers := [name for name in launch.IN_PYTHON if not launch.is_installed(name)]:
        why = (
            "The tests of peers in Python were left out for want of environments for "
            f"{', '.join(lacking_peers)}: make bench-peers makes them."
        )
        _leave_out("peers", config, items, why)
    if programs.missing():
        why = "Tests on a control plane were left out: make deploy-cluster builds it first."
        _leave_out("control_plane", config, items, why)
    concerned = [
        item
        for item in items
        if item.get_closest_marker("kafka") or item.get_closest_marker("faults")
    ]
    missing = missing_tools() if concerned else []
    if not missing:
        return
    lacking = " and ".join(missing)
    for item in concerned:
        item.add_marker(pytest.mark.skip(reason=f"needs {lacking}"))
    verdict = "FAILED for want of" if NO_SKIP else "skipped for want of"
    _notice[:0] = [
        "",
        f"{len(concerned)} tests on a real Apache Kafka were {verdict}: {lacking}.",
        f"Install on Debian or Ubuntu (with sudo if you are not root): {INSTALL}",
        "On other systems: Java 17 or newer and Maven on the PATH (SDKMAN has them). Then: make "
        "test",
    ]


def _leave_out(marker: str, config: pytest.Config, items: list[pytest.Item], why: str) -> None:
    """Deselect, not skip: a package index cannot supply these programs and processors. The last
    lines of the run say what was left out, and the run does not fail.
    """
    concerned = [item for item in items if item.get_closest_marker(marker)]
    if concerned:
        items[:] = [item for item in items if item not in concerned]
        config.hook.pytest_deselected(items=concerned)
        _notice.append(why)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where skips are not allowed (expected failures stay what they
    are).
    """
    report = yield
    return _refused(report) if report.skipped and not hasattr(report, "wasxfail") else report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself while it is collected."""
    report = yield
    return _refused(report) if report.skipped else report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the notice to the process that ends last: only those that run tests collect them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["notice"] = _notice


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of tests has to say, once."""
    lines = getattr(node, "workeroutput", {}).get("notice", ())
    _notice.extend(line for line in lines if line not in _notice)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the notice after everything else: it must be the last thing that is read."""
    if _notice and not hasattr(config, "workerinput"):
        print("\n".join(_notice))


def _refused(report: Any) -> Any:
    if NO_SKIP:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason}\nTESTS_NO_SKIP=1 allows no skip"
    return report
