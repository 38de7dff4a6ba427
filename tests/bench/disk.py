"""How much disk the state takes: in a worker's volume, and as changelog in the brokers. `make
bench-disk`.

    python -m tests.bench.disk [--reviews N] [--out FILE]

One worker on a real Kafka, reviews of five sentences with their embeddings (384 numbers). All of
them are written, then edited once each, then the worker restores everything into an empty volume.
The volume is looked at every half second, so that what compactions take for a while counts too.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.bench.machine import began, command_line, write
from tests.bench.worker.events import DIMENSION, reviews
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.workers import pipeline

RESULTS: Final = Path(__file__).with_name("results") / "disk.json"
SENTENCES, ENTITIES = 5, 1000
LOOK_SECONDS = 0.5


def edition(count: int, version: int) -> Iterator[Sent]:
    """All reviews, in this version, with other vectors in each."""
    for one in reviews(count, ENTITIES, SENTENCES, seed=version):
        assert one.value is not None
        yield one._replace(
            value=one.value.replace(b'"review_version": 1', b'"review_version": %d' % version)
        )


def size(paths: Iterable[Path]) -> int:
    """Bytes that the files below take on their disk."""
    total = 0
    for path in paths:
        for file in path.rglob("*"):
            with suppress(FileNotFoundError):  # compacted away meanwhile
                total += file.stat().st_blocks * 512
    return total


@contextmanager
def highest(folder: Path) -> Iterator[Callable[[], int]]:
    """The most bytes that the folder took until it is asked."""
    over = threading.Event()
    seen = [0]

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            seen.append(size([folder]))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield lambda: max(*seen, size([folder]))
    finally:
        over.set()
        thread.join()


def measured(broker: KafkaBroker, folder: Path, count: int) -> list[dict[str, Any]]:
    """Volume and changelog after each step."""
    rows = []

    def note(step: str, most: int) -> None:
        changelog = size(broker.directory.rglob(f"{site.changelog_topic}-*"))
        now = size([worker.data_dir])
        rows.append(
            {"step": step, "volume_bytes": now, "most_bytes": most, "changelog_bytes": changelog}
        )
        print(rows[-1], flush=True)

    with pipeline(broker, "bench-disk", folder) as site:
        worker = site.worker()
        for version, step in ((1, "written"), (2, "each edited once")):
            send(broker.bootstrap_servers, site.input_topic, edition(count, version), chunk=2000)
            with highest(worker.data_dir) as most:
                worker.start().wait_ready()
                site.wait_caught_up(1800)
                site.stop()
                note(step, most())
        worker.wipe()
        with highest(worker.data_dir) as most:
            worker.start().wait_ready(1800)
            site.stop()
            note("restored", most())
    return rows


def main() -> int:
    """Measure, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--reviews", type=int, default=20_000)
    given = parser.parse_args()
    record = began("tests.bench.disk")
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        rows = measured(broker, Path(scratch) / "worker", given.reviews)
    report = record | {
        "reviews": given.reviews,
        "sentences": given.reviews * SENTENCES,
        "dimension": DIMENSION,
        "rows": rows,
    }
    write(given.out, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
