"""The verifier: a process of its own that reads the topics and nothing else, and recomputes
everything.

    python -m tests.harness.verifier --bootstrap H:P --input T --output T --dlq T [--group G]
        [--changelog T [--data DIR ...]]

k, epoch, dimension, embedder and limits are read from the same COVERSUMM_ variables as the
worker's. It reads only what was committed, computes the whole history by brute force, and compares
message by message:

    I1  the final summary of every entity is that of the history
    I2  sequences strictly rise per entity; none is repeated
    I3  every change of the history is published exactly once, in order, and nothing else
    I4  every record is applied, ignored or dead-lettered, once in effect: each bad one has exactly
        one dead letter, and with --group everything is committed
    I5  with --group and --changelog: the offsets ever committed are the applied offsets that the
        changelog ever held
    I8  with --changelog and --data: each local copy in these directories of ended workers is what
        the changelog says

It prints one JSON object and ends with 1 when there is any difference.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.bench.machine import command_line
from tests.harness.compare import Difference, compare_changes, compare_dead_letters
from tests.harness.history import history
from tests.harness.recovered import (
    OFFSETS_TOPIC,
    commits,
    compare_commits,
    compare_copies,
    read_copies,
)
from tests.harness.topics import Message, committed_offsets, read_topic
from worker.settings import Settings

SHOWN = 50


def verify(settings: Settings, given: argparse.Namespace) -> dict[str, Any]:
    """The report on the topics and directories of the command line."""
    started_s = time.monotonic()
    records, published, letters = (
        read_topic(given.bootstrap, topic) for topic in (given.input, given.output, given.dlq)
    )
    wanted = history(records, settings)
    coalesced = settings.emit == "coalesced"
    checked = ["I1", "I2", *([] if coalesced else ["I3"]), "I4"]
    differences = compare_changes(wanted.changes, published, coalesced=coalesced)
    differences += compare_dead_letters(wanted.dead_letters, letters)
    if settings.facets:
        facets = read_topic(given.bootstrap, settings.facets_topic)
        differences += compare_changes(wanted.facets, facets, coalesced=coalesced)
    if given.group:
        differences += _uncommitted(given.bootstrap, records, given.group)
    if given.changelog:
        changelog = read_topic(given.bootstrap, given.changelog)
        if given.group and not given.compacted:
            checked.append("I5")
            offsets = commits(read_topic(given.bootstrap, OFFSETS_TOPIC), given.group, given.input)
            differences += compare_commits(offsets, changelog)
        if given.data:
            checked.append("I8")
            differences += compare_copies(
                read_copies(given.data), changelog, compacted=given.compacted
            )
    kinds = Counter(f"{difference.invariant} {difference.kind}" for difference in differences)
    return {
        "ok": not differences,
        "checked": checked,
        "records": len(records),
        "outcomes": dict(wanted.outcomes.most_common()),
        "changes": sum(change.body is not None for change in wanted.changes),
        "tombstones": sum(change.body is None for change in wanted.changes),
        "facet_changes": sum(change.body is not None for change in wanted.facets),
        "entities": len({change.entity_id for change in wanted.changes}),
        "published": len(published),
        "dead_letters": len(letters),
        "differences": dict(kinds),
        "shown": [difference._asdict() for difference in differences[:SHOWN]],
        "seconds": round(time.monotonic() - started_s, 1),
    }


def _uncommitted(bootstrap_servers: str, records: list[Message], group: str) -> list[Difference]:
    ends = {message.partition: message.offset + 1 for message in records}
    if not records:
        return []
    committed = committed_offsets(bootstrap_servers, records[0].topic, group)
    return [
        Difference(
            "I4",
            "lost",
            f"partition {partition}",
            f"committed {committed[partition]}, the end is {end}",
        )
        for partition, end in ends.items()
        if committed[partition] < end
    ]


def main() -> int:
    """The command; its exit code."""
    parser = command_line(__doc__)
    for name in ("bootstrap", "input", "output", "dlq"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--group", help="consumer group that must have committed everything")
    parser.add_argument("--changelog", help="topic that the state is rebuilt from")
    parser.add_argument(
        "--compacted", action="store_true", help="the changelog may have lost its history"
    )
    parser.add_argument(
        "--data", type=Path, nargs="*", default=[], help="data directories of ended workers"
    )
    report = verify(Settings.from_environment(), parser.parse_args())
    json.dump(report, sys.stdout, indent=1)
    print()
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
