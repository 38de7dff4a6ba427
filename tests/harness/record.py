"""What a run of the fault suites found, row by row: `tests/bench/results/faults.json`, and the
table of the results.

A row is one scenario: what was done to the workers or the broker, how often, under how many events,
and which invariants held afterwards. It is opened with the invariants that the scenario checks;
each is false until the scenario has shown that it holds, so a scenario that fails on its way leaves
a row that says so.

    I1  the final summary of every entity is that of the brute-force history over the input topic
    I2  to a read-committed reader sequences strictly rise per entity, and none is repeated
    I3  every change of that history is published exactly once, in order, and nothing else
    I4  every record is applied, ignored or dead-lettered, once in effect; all of the input is
        committed
    I5  what became visible became visible together: the offsets that the group ever committed are,
        one by one, the applied offsets in the changelog, and the outputs are those of I3 and I4
    I6  the certificate held at every event: with every change published (`emit=every`), I3 compares
        each with brute force
    I7  ready, and lag zero, within a minute of the last fault
    I8  each copy of the state, in any worker's data directory, is byte for byte what the changelog
        says up to its offset
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tests.bench.machine import machine, write
from tests.harness.pauses import Pause, longest

if TYPE_CHECKING:
    from tests.harness.run import Strike

RECORDS = Path(__file__).parents[1] / "bench" / "results"
RESULTS, CLUSTER_RESULTS = RECORDS / "faults.json", RECORDS / "cluster.json"
INVARIANTS = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8")
READY_SECONDS = 60.0
"""I7: the most that may pass between the last fault and all workers ready without lag."""


class Enough(NamedTuple):
    """What a run must have had before its record means something."""

    events: int
    faults: int


ENOUGH, CLUSTER_ENOUGH = Enough(100_000, 50), Enough(40_000, 50)

R = TypeVar("R", bound="Row")


@dataclass
class Row:
    """One scenario. `lost`, `repeated` and `wrong` count messages; `invariants` has None where one
    is not checked.

    `again`: when and by what it was run anew, in the place of its row in a whole run.
    """

    fault: str
    events: int = 0
    faults: int = 0
    lost: int = 0
    repeated: int = 0
    wrong: int = 0
    seconds_to_ready: float | None = None
    invariants: dict[str, bool | None] = field(default_factory=lambda: dict.fromkeys(INVARIANTS))
    again: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The row as it is recorded."""
        return {name: value for name, value in asdict(self).items() if name != "again" or value}

    def measured(self) -> str:
        """What was measured besides, in words, each after a comma."""
        return "" if self.seconds_to_ready is None else f", ready after {self.seconds_to_ready} s"

    def judge(self, report: Mapping[str, Any]) -> None:
        """Take the verifier's verdict: the records it read, its differences, and what they say of
        what it checked.
        """
        found: Mapping[str, int] = report["differences"]
        self.events += report["records"]
        for difference, count in found.items():
            kind = difference.split()[1]
            if kind in ("lost", "repeated"):
                setattr(self, kind, getattr(self, kind) + count)
            else:
                self.wrong += count
        broken = {difference.split()[0] for difference in found}
        repeated = any(difference.endswith(" repeated") for difference in found)
        verdicts = {name: name not in broken for name in report["checked"]}
        verdicts["I2"] = verdicts["I2"] and not repeated
        if "I3" in verdicts:  # not when changes are coalesced
            verdicts["I6"] = verdicts["I3"]
        self.holds(**verdicts)

    def ready_after(self, seconds: float) -> None:
        """All workers were ready and without lag so long after the last fault; a row keeps its
        longest.
        """
        self.seconds_to_ready = round(max(seconds, self.seconds_to_ready or 0.0), 1)
        self.holds(I7=self.seconds_to_ready < READY_SECONDS)

    def holds(self, **verdicts: bool) -> None:
        """Say of invariants whether they hold; those that the scenario does not check stay None."""
        for name, verdict in verdicts.items():
            if self.invariants[name] is not None:
                self.invariants[name] = verdict

    @property
    def broken(self) -> list[str]:
        """The checked invariants that do not hold, or were not shown to."""
        return [name for name, verdict in self.invariants.items() if verdict is False]


@dataclass
class ClusterRow(Row):
    """One scenario on a cluster.

    `ends`: of workers, not ordered. `pauses`: by partition, seconds of the longest one during the
    faults. `each`: every fault with the longest pause of any partition, the seconds until all was
    well again, and the workers that ended.
    """

    ends: int = 0
    pauses: dict[str, float] = field(default_factory=dict)
    each: list[dict[str, Any]] = field(default_factory=list)

    @property
    def pause(self) -> float:
        """The longest of all partitions, in seconds."""
        return max(self.pauses.values(), default=0.0)

    def measured(self) -> str:
        """What was measured besides, in words."""
        each = "".join(
            f"\n    {fault['fault']}: {fault['pause']} s, ready after {fault['ready']} s "
            f"{' '.join(fault['ends'])}"
            for fault in self.each
        )
        return f"{super().measured()}, {self.ends} ends, longest pause {self.pause} s{each}"

    def take(self, strikes: Sequence[Strike], pauses: Sequence[Pause]) -> None:
        """Take what became of the faults."""
        self.faults += len(strikes)
        for strike in strikes:
            by_partition = longest(pauses, strike.since_ms, strike.until_ms)
            for partition, seconds in by_partition.items():
                known = self.pauses.get(str(partition), 0.0)
                self.pauses[str(partition)] = max(round(seconds, 1), known)
            self.each.append(
                {
                    "fault": strike.fault,
                    "pause": round(max(by_partition.values(), default=0.0), 1),
                    "ready": round(strike.ready_s, 1),
                    "ends": list(map(str, strike.ends)),
                }
            )
            self.ends += len(strike.ends)
            self.ready_after(strike.ready_s)


class Recorder(Generic[R]):
    """The rows of one run, all of a kind."""

    def __init__(self, kind: type[R] = Row, enough: Enough = ENOUGH) -> None:
        self.rows: list[R] = []
        self.enough = enough
        self._kind = kind

    @contextmanager
    def row(self, fault: str, checks: Iterable[str] = INVARIANTS) -> Iterator[R]:
        """A row for the scenario in the block, kept however the block ends.

        `checks` names the invariants that the block shows; AssertionError at its end when one of
        them is not shown to hold.
        """
        unproven = {name: False if name in set(checks) else None for name in INVARIANTS}
        made = self._kind(fault, invariants=unproven)
        self.rows.append(made)
        yield made
        assert not made.broken, f"invariants that do not hold, or were not shown to: {made}"
        assert not made.lost + made.repeated + made.wrong, f"differences: {made}"

    def write(self, path: Path, command: str) -> dict[str, Any]:
        """Write the record; what was written."""
        record = {
            "machine": machine(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": command,
            **total(self.rows, self.enough),
            "rows": [row.as_json() for row in self.rows],
        }
        write(path, record)
        return record

    def renew(self, path: Path, command: str) -> list[str]:
        """Put these rows in the place of those of their names in a record that is there, and after
        them those of new names; all their names.
        """
        record = json.loads(path.read_text())
        fresh = {row.fault: row for row in self.rows}
        for row in fresh.values():
            row.again = f"{datetime.now(UTC).date().isoformat()} by `{command}`"
        rows = [fresh.pop(old["fault"], None) or self._kind(**old) for old in record["rows"]]
        rows += fresh.values()
        write(path, record | total(rows, self.enough) | {"rows": [row.as_json() for row in rows]})
        return [row.fault for row in rows if row in self.rows]


def finish(path: Path, record: Mapping[str, Any], faults: Sequence[str]) -> int:
    """Write the record with what must not be, and tell both; the exit code."""
    write(path, {**record, "faults": list(faults)})
    print(json.dumps(record, indent=1, ensure_ascii=False))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def total(rows: Iterable[Row], enough: Enough) -> dict[str, Any]:
    """The run as a whole: its events and faults, and whether they were enough."""
    listed = list(rows)
    events, faults = sum(row.events for row in listed), sum(row.faults for row in listed)
    return {
        "events": events,
        "faults": faults,
        "enough": events >= enough.events and faults >= enough.faults,
    }


def faults_table(path: Path = RESULTS) -> str:
    """The record as a Markdown table, with what it was recorded on; says so when there is none."""
    if not path.exists():
        return "Not recorded yet: `make faults` does it."
    return read_rows(path, Row, _table)


def cluster_table(path: Path = CLUSTER_RESULTS) -> str:
    """The same of the record of a cluster."""
    if not path.exists():
        return "Not recorded yet: `make faults ONLY=cluster` does it."
    return read_rows(path, ClusterRow, _cluster_table)


def read_rows(path: Path, kind: type[R], table: Callable[[list[R]], list[str]]) -> str:
    """A record as Markdown: what it was recorded on, the lines that `table` makes of its rows, and
    which were run again.
    """
    record = json.loads(path.read_text())
    rows = [kind(**row) for row in record["rows"]]
    renewed = [f"Run again {row.again}: {row.fault}." for row in rows if row.again]
    lines = [
        f"Recorded {record['date'][:10]} by `{record['command']}` on {record['machine']['cores']} "
        "cores "
        f"({record['machine']['cpu']}).",
        "",
        *table(rows),
        *([""] if renewed else []),
        *renewed,
    ]
    return "\n".join(lines)


def _table(rows: list[Row]) -> list[str]:
    return [
        "| fault | events | faults | lost | repeated | wrong | s to ready | "
        + " | ".join(INVARIANTS)
        + " |",
        "|---" * (7 + len(INVARIANTS)) + "|",
        *(_line(row) for row in rows),
        _line(_sum(rows)),
    ]


def _sum(rows: list[Row]) -> Row:
    """All rows in one: the worst of each."""
    seconds = [row.seconds_to_ready for row in rows if row.seconds_to_ready is not None]
    verdicts: dict[str, bool | None] = {}
    for name in INVARIANTS:
        checked = [row.invariants[name] for row in rows if row.invariants[name] is not None]
        verdicts[name] = all(checked) if checked else None
    sums = {
        name: sum(getattr(row, name) for row in rows)
        for name in ("events", "faults", "lost", "repeated", "wrong")
    }
    return Row("**all**", **sums, seconds_to_ready=max(seconds, default=None), invariants=verdicts)


def _line(row: Row) -> str:
    seconds = "-" if row.seconds_to_ready is None else f"{row.seconds_to_ready:.1f}"
    marks = [{True: "yes", False: "**no**", None: "-"}[row.invariants[name]] for name in INVARIANTS]
    counts = [f"{count:,}" for count in (row.events, row.faults, row.lost, row.repeated, row.wrong)]
    return f"| {' | '.join([row.fault, *counts, seconds, *marks])} |"


def _cluster_table(rows: list[ClusterRow]) -> list[str]:
    columns = "fault | events | faults | lost | repeated | wrong | worker ends"
    return [
        f"| {columns} | longest without a commit |",
        "|---" * 8 + "|",
        *(
            f"| {row.fault} | {row.events:,} | {row.faults:,} | {row.lost:,} | {row.repeated:,} "
            f"| {row.wrong:,} | {row.ends:,} | {row.pause:.1f} s |"
            for row in rows
        ),
    ]
