"""The session's registry, and the record of a run of the fault suites."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import KafkaCluster
from tests.harness.faults import WORKERS
from tests.harness.record import CLUSTER_ENOUGH, CLUSTER_RESULTS, RESULTS, ClusterRow, Recorder, Row
from tests.harness.registry import Registry

CLUSTER_SUITE = "tests/real_kafka/test_cluster_faults.py"

_recorder = Recorder()
_cluster_recorder = Recorder(ClusterRow, CLUSTER_ENOUGH)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One for all tests of a module: each leaves it whole."""
    with KafkaCluster(tmp_path_factory.mktemp("cluster"), clients=WORKERS[:2]) as made:
        yield made


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """One schema registry for the whole session. Tests keep apart by subjects."""
    with Registry(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture(scope="session")
def recorder() -> Recorder:
    """Where the scenarios of this run put their rows."""
    return _recorder


@pytest.fixture(scope="session")
def cluster_recorder() -> Recorder[ClusterRow]:
    """The same of those on a cluster."""
    return _cluster_recorder


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Show the rows; a whole run of `-m faults` also writes them, one of `-k WORDS` renews its own
    in the record.
    """
    recorded = exitstatus != pytest.ExitCode.INTERRUPTED and _is_recorded(config)
    for recorder, path in ((_recorder, RESULTS), (_cluster_recorder, CLUSTER_RESULTS)):
        if not recorder.rows:
            continue
        terminalreporter.section(path.stem)
        for row in recorder.rows:
            terminalreporter.write_line(_shown(row))
        words = config.getoption("keyword")
        if recorded and (path.exists() or not words):
            make = "make cluster-faults" if CLUSTER_SUITE in config.args else "make faults"
            terminalreporter.write_line(_written(recorder, path, make, words))


def _written(recorder: Recorder[Any], path: Path, make: str, words: str) -> str:
    """Write a record, or renew the rows of a run of some words in the one that is there; what was
    done.
    """
    if words:
        renewed = recorder.renew(path, f"{make} ONLY={shlex.quote(words)}")
        return f"renewed in {path}: {', '.join(renewed) or 'none'}; `make docs` shows it"
    record = recorder.write(path, make)
    least = f"{recorder.enough.events:,} and {recorder.enough.faults}"
    verdict = "enough" if record["enough"] else f"TOO FEW: {least} are wanted"
    return (
        f"{record['events']:,} events, {record['faults']} faults: {verdict}; "
        f"written to {path}; `make docs` puts it into docs/reference/results.md"
    )


def _is_recorded(config: pytest.Config) -> bool:
    """Whether the fault suites were to run in their full size, all of them or those of
    some words.
    """
    if config.getoption("markexpr") != "faults":
        return False
    if float(config.getoption("--share")) != 1:
        return False
    return all(Path(argument).is_dir() or argument == CLUSTER_SUITE for argument in config.args)


def _shown(row: Row) -> str:
    verdict = f"BROKEN {' '.join(row.broken)}" if row.broken else "holds"
    counts = f"lost {row.lost}, repeated {row.repeated}, wrong {row.wrong}"
    return (
        f"{row.fault}: {row.events:,} events, {row.faults} faults, {counts}{row.measured()}: "
        f"{verdict}"
    )
