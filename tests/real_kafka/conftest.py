"""The session's broker, and the record of a run of the fault suites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.record import ENOUGH_EVENTS, ENOUGH_FAULTS, RESULTS, Recorder, Row

_recorder = Recorder()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole session. Tests keep apart by topics, group and application id, never by a fresh broker."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def recorder() -> Recorder:
    """Where the scenarios of this run put their rows."""
    return _recorder


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Show the rows; a whole run of `-m faults` also writes them, one of `-k WORDS` renews its own in the record."""
    if not _recorder.rows:
        return
    terminalreporter.section("faults")
    for row in _recorder.rows:
        terminalreporter.write_line(_shown(row))
    if exitstatus == pytest.ExitCode.INTERRUPTED or not _is_recorded(config):
        return
    if words := config.getoption("keyword"):
        if RESULTS.exists():
            renewed = _recorder.renew(RESULTS, f"make faults ONLY={words}")
            terminalreporter.write_line(
                f"renewed in {RESULTS}: {', '.join(renewed) or 'none'}; `make docs` shows it"
            )
        return
    record = _recorder.write(RESULTS, "make faults")
    verdict = "enough" if record["enough"] else f"TOO FEW: {ENOUGH_EVENTS:,} and {ENOUGH_FAULTS} are wanted"
    terminalreporter.write_line(f"{record['events']:,} events, {record['faults']} faults: {verdict}")
    terminalreporter.write_line(f"written to {RESULTS}; `make docs` puts it into docs/reference/results.md")


def _is_recorded(config: pytest.Config) -> bool:
    """Whether the fault suites were to run in their full size, all of them or those of some words."""
    if config.getoption("markexpr") != "faults":
        return False
    if float(config.getoption("--share")) != 1:
        return False
    return all(Path(argument).is_dir() for argument in config.args)


def _shown(row: Row) -> str:
    verdict = f"BROKEN {' '.join(row.broken)}" if row.broken else "holds"
    seconds = "" if row.seconds_to_ready is None else f", ready after {row.seconds_to_ready} s"
    counts = f"lost {row.lost}, repeated {row.repeated}, wrong {row.wrong}"
    return f"{row.fault}: {row.events:,} events, {row.faults} faults, {counts}{seconds}: {verdict}"
