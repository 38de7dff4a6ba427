"""What traces cost a worker: on a real Kafka, in turns with a worker without them. `make
bench-traces`.

    python -m tests.bench.traces [--rounds N] [--events N] [--out FILE]

Backlogs of the same events, each event with a producer's context of its own, which is the most that
there is to do; embeddings in the events, k = 20. The collector is a process of its own. Processor
time of the worker by event is what tells most where the machine has other work; events/s are beside
it.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.bench.machine import began, command_line, tell, write
from tests.bench.worker.events import ENTITIES, reviews
from tests.bench.worker.measure import Progress, cpu_seconds, settings
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent
from tests.harness.otlp import OtlpReceiver
from tests.harness.topics import producer
from tests.harness.workers import pipeline

TARGETS = {"cpu_ratio": 1.03}
RESULTS = Path(__file__).with_name("results") / "traces.json"


def collect(pipe: Connection) -> None:
    """A collector: tells its address, and at the end how many spans and links came."""
    with OtlpReceiver() as receiver:
        pipe.send(receiver.url)
        pipe.recv()
        spans = receiver.spans()
        pipe.send((len(spans), sum(len(span.links) for span in spans)))


def send(servers: str, topic: str, events: list[Sent]) -> None:
    """Each event with a context of its own."""
    sender = producer(servers)
    for number, event in enumerate(events, 1):
        context = f"00-{number:032x}-{number:016x}-01".encode()
        sender.produce(topic, event.value, event.key, headers=[("traceparent", context)])
        if number % 2000 == 0:
            sender.flush()
    sender.flush()


def run(
    broker: KafkaBroker, folder: Path, name: str, events: list[Sent], endpoint: str | None
) -> dict[str, Any]:
    """A backlog worked off, from ready to the last commit."""
    traced = {} if endpoint is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    with pipeline(broker, name, folder / name, settings=settings() | traced) as site:
        send(broker.bootstrap_servers, site.input_topic, events)
        progress = Progress(site)
        worker = site.worker().start()
        worker.wait_ready()
        before_s = cpu_seconds(worker) or 0.0
        samples = progress.wait(600)
        after_s = cpu_seconds(worker) or 0.0
        site.stop()
    done = len(events) - samples[0][1]
    return {
        "events_per_s": round(done / samples[-1][0]),
        "cpu_us_per_event": round(1e6 * (after_s - before_s) / done, 1),
    }


def compare(broker: KafkaBroker, folder: Path, events: list[Sent], rounds: int) -> dict[str, Any]:
    """Rounds without and with traces, in turns; medians, and with over without."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    collector = context.Process(target=collect, args=(theirs,))
    collector.start()
    modes = {"without": None, "with": ours.recv()}
    rows: dict[str, list[dict[str, Any]]] = {mode: [] for mode in modes}
    for number in range(rounds + 1):
        for mode, endpoint in modes.items():
            row = run(broker, folder, f"traces-{mode}-{number}", events, endpoint)
            if number:  # the first round warms up the broker
                rows[mode].append(row)
                print(mode, row, flush=True)
    ours.send("end")
    spans, links = ours.recv()
    collector.join()
    medians = {
        mode: {figure: statistics.median(row[figure] for row in found) for figure in found[0]}
        for mode, found in rows.items()
    }
    return {
        "rounds": rows,
        "spans": spans,
        "links": links,
        **medians,
        "cpu_ratio": _ratio(medians, "cpu_us_per_event"),
        "throughput_ratio": _ratio(medians, "events_per_s"),
    }


def _ratio(medians: dict[str, dict[str, float]], figure: str) -> float:
    return round(medians["with"][figure] / medians["without"][figure], 3)


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=20_000)
    given = parser.parse_args()
    report = began("tests.bench.traces") | {"targets": TARGETS, "events": given.events}
    events = list(reviews(given.events, ENTITIES))
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        report |= compare(broker, Path(scratch), events, given.rounds)
    write(given.out, report)
    tell(TARGETS, report, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
