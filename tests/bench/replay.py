"""A replay beside the live worker: on a real Kafka that shares its cores. `make bench-replay`.

    python -m tests.bench.replay [--rounds N] [--events N] [--seconds N] [--reviews N] [--out FILE]

Ratios within one run, measured in turns, the median of the rounds. Times are the broker's: when it
took records, and when it wrote down commits of offsets. Embeddings in the events (384 numbers,
base64), 1,000 entities, one sentence an event, k = 20:

    rate      events/s from the first commit to the last: `replay --emit final` against `run` over
              the same topic
    memory    the largest resident set of both
    latency   from the receipt of an event to the commit of its offset, 99 of 100: of a worker under
              steady load, alone and beside a throttled replay of its input
    text      reviews without vectors: a replay that embeds them all, and one with another k that
              finds all in the store; the same texts through the engine alone, in this process
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.machine import began, command_line, tell, write
from tests.bench.worker.events import ENTITIES, reviews
from tests.bench.worker.latency import percentiles, until_committed
from tests.bench.worker.measure import commits_of, settings
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import Mix, NoVectors, Sent, SteadyLoad, Stream, read_reviews, send
from tests.harness.pauses import APPENDED
from tests.harness.replays import ReplayProcess
from tests.harness.topics import committed_offsets, end_offsets, read_topic
from tests.harness.workers import Pipeline, WorkerError, pipeline
from worker.settings import Settings
from worker.text.embedders import load_engine
from worker.text.splitting import split_sentences

LIVE_A_SECOND, REPLAYED_A_SECOND = 300, 500
TARGETS = {
    "rate_ratio": 1.5,
    "memory_ratio": 1.0,
    "latency_ratio": 1.1,
    "text_ratio": 20.0,
    "engine_ratio": 0.9,
}
ENGINE_AT_ONCE = 1000
UNDISTURBED = Mix(0, 0, 0, 0, 0, 0, 0, 0, 0)
PATIENCE_SECONDS = 600
RESULTS = Path(__file__).with_name("results") / "replay.json"


class Watched:
    """What a process has used so far: looked at until it ends."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._over = threading.Event()
        self.peak_mib = 0.0
        self.cpu_seconds = 0.0
        self._look()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self._look()

    def _look(self) -> None:
        with suppress(OSError, IndexError, TypeError):  # it ended
            fields = (self._folder / "stat").read_text().rsplit(")", 1)[1].split()
            self.cpu_seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            peak = re.search(r"VmHWM:\s+(\d+) kB", (self._folder / "status").read_text())
            self.peak_mib = int(peak[1]) / 1024  # type: ignore[index]


class Turn(NamedTuple):
    """One run over the whole topic."""

    events_per_s: float
    commits: int
    cpu_us_per_event: float
    peak_mib: float


def turn(site: Pipeline, group: str, used: Watched) -> Turn:
    """The figures of a group that has committed the whole input."""
    found = commits_of(site, group)
    events = sum(end_offsets(site.broker.bootstrap_servers, site.input_topic).values())
    times = sorted({commit.at_ms for commit in found})
    in_first = sum(commit.offset for commit in found if commit.at_ms == times[0])
    seconds = (times[-1] - times[0]) / 1000
    return Turn(
        round((events - in_first) / seconds),
        len(times),
        round(1e6 * used.cpu_seconds / events),
        round(used.peak_mib),
    )


# -- rate and memory -------------------------------------------------------------------------------


def rates(broker: KafkaBroker, folder: Path, rounds: int, events: int) -> dict[str, Any]:
    """Live, replay, replay, live, ... over one topic."""
    with pipeline(broker, "bench-rate", folder, settings=settings()) as site:
        send(broker.bootstrap_servers, site.input_topic, reviews(events, ENTITIES), chunk=5000)
        turns: dict[str, list[Turn]] = {"live": [], "replay": []}
        for number in range(2 * rounds):
            kind = "replay" if number % 4 in (1, 2) else "live"
            turns[kind].append((live if kind == "live" else replayed)(site, f"{kind}-{number}"))
    medians = {
        kind: Turn(*map(statistics.median, zip(*found, strict=True)))
        for kind, found in turns.items()
    }
    ours, lived = medians["replay"], medians["live"]
    return {
        "events": events,
        "entities": ENTITIES,
        **{kind: [turn._asdict() for turn in found] for kind, found in turns.items()},
        "live_events_per_s": lived.events_per_s,
        "replay_events_per_s": ours.events_per_s,
        "rate_ratio": round(ours.events_per_s / lived.events_per_s, 2),
        "cpu_ratio": round(ours.cpu_us_per_event / lived.cpu_us_per_event, 2),
        "memory_ratio": round(ours.peak_mib / lived.peak_mib, 2),
    }


def live(site: Pipeline, name: str) -> Turn:
    """A worker over the whole topic."""
    worker = site.worker(name, app_id=name, output_topic=f"{name}.summaries").start()
    used = Watched(worker.pid)
    servers, topic = site.broker.bootstrap_servers, site.input_topic
    targets = end_offsets(servers, topic)
    eventually(
        lambda: committed_offsets(servers, topic, name) == targets,
        worker.log_end,
        timeout_s=PATIENCE_SECONDS,
        every_s=0.5,
    )
    used.end()
    if worker.terminate():
        raise WorkerError(worker.log_end())
    return turn(site, name, used)


def replayed(site: Pipeline, name: str, **own: str) -> Turn:
    """A replay of the whole topic that publishes each summary once, with settings of its own."""
    process = ReplayProcess(site, "--name", name, "--emit", "final", label=name, **own).start()
    used = Watched(process.pid)
    process.wait(timeout_s=PATIENCE_SECONDS)
    used.end()
    return turn(site, f"{site.name}-replay-{name}", used)


# -- latency ---------------------------------------------------------------------------------------


def latencies(
    broker: KafkaBroker, folder: Path, rounds: int, events: int, seconds: float
) -> dict[str, Any]:
    """A worker under steady load: alone, beside, beside, alone, ..."""
    found: dict[str, list[dict[str, float]]] = {"alone": [], "beside": []}
    with pipeline(
        broker, "bench-latency", folder, settings=settings(), input_config=APPENDED
    ) as site:
        send(broker.bootstrap_servers, site.input_topic, reviews(events, ENTITIES), chunk=5000)
        site.start(1)
        site.wait_caught_up(PATIENCE_SECONDS)
        load = SteadyLoad(
            broker.bootstrap_servers,
            site.input_topic,
            reviews(10**9, ENTITIES, seed=1),
            LIVE_A_SECOND,
        )
        spans = []
        for number in range(2 * rounds):
            kind = "beside" if number % 4 in (1, 2) else "alone"
            with replaying(site, f"beside-{number}") if kind == "beside" else quiet():
                started = time.time()
                time.sleep(seconds)
                spans.append((kind, started, time.time()))
        load.end()
        site.wait_caught_up()
        sent = read_topic(broker.bootstrap_servers, site.input_topic)
        waits = until_committed(sent, commits_of(site, site.name))
        site.stop()
    for kind, since, until in spans:
        found[kind].append(
            percentiles([ms for at_ms, ms in waits if since <= at_ms / 1000 < until])
        )
    p99 = {
        kind: statistics.median(turn["p99_ms"] for turn in of_kind)
        for kind, of_kind in found.items()
    }
    return {
        "live_events_per_s": LIVE_A_SECOND,
        "replay_events_per_s_at_most": REPLAYED_A_SECOND,
        "seconds_each": seconds,
        **found,
        "alone_p99_ms": p99["alone"],
        "beside_p99_ms": p99["beside"],
        "latency_ratio": round(p99["beside"] / p99["alone"], 2),
    }


@contextmanager
def replaying(site: Pipeline, name: str) -> Iterator[None]:
    """Meanwhile a throttled replay is on its way through the history."""
    process = ReplayProcess(
        site, "--name", name, "--max-events-per-s", str(REPLAYED_A_SECOND), label=name
    ).start()
    group = f"{site.name}-replay-{name}"
    eventually(
        lambda: len(commits_of(site, group)) > 0, lambda: "the replay does not begin", every_s=1.0
    )
    time.sleep(2.0)
    try:
        yield
        if not process.alive:
            raise SystemExit(
                "the replay was over before the time: ask for more --events or fewer --seconds"
            )
    finally:
        process.kill()


@contextmanager
def quiet() -> Iterator[None]:
    """Meanwhile nothing."""
    time.sleep(2.0)
    yield


# -- text ------------------------------------------------------------------------------------------


def texts(broker: KafkaBroker, folder: Path, rounds: int, count: int) -> dict[str, Any]:
    """A first pass over reviews of text alone, and a second one with another k."""
    history = list(Stream(read_reviews(limit=count), NoVectors(), mix=UNDISTURBED))
    with pipeline(broker, "bench-text", folder, settings=settings("onnx")) as site:
        send(broker.bootstrap_servers, site.input_topic, history, chunk=500)
        passes: dict[str, list[Turn]] = {"first": [], "second": []}
        alone = []
        for number in range(rounds):
            store = {"vector_store_dir": str(folder / f"vectors-{number}")}
            for kind, k in (("first", "20"), ("second", "10")):
                name = f"{kind}-{number}"
                passes[kind].append(replayed(site, name, k=k, **store))
            alone.append(engine_alone(history))
    rate = {
        kind: statistics.median(turn.events_per_s for turn in found)
        for kind, found in passes.items()
    }
    return {
        "reviews": len(history),
        **{kind: [turn._asdict() for turn in found] for kind, found in passes.items()},
        "engine_events_per_s": alone,
        "text_ratio": round(rate["second"] / rate["first"], 1),
        "engine_ratio": round(rate["first"] / statistics.median(alone), 2),
    }


def engine_alone(history: Sequence[Sent]) -> int:
    """Reviews a second, their texts split beforehand, through the engine of a worker with its
    defaults.
    """
    defaults = Settings()
    engine = load_engine(
        "onnx", threads=defaults.embedder_threads, cache_dir=defaults.model_cache_dir
    )
    assert engine is not None
    limit = defaults.max_sentence_chars
    texts = [json.loads(message.value or b"")["text"] for message in history]
    sentences = list(
        dict.fromkeys(sentence for text in texts for sentence in split_sentences(text, limit))
    )
    engine.embed(sentences[:ENGINE_AT_ONCE])  # it is slower at first
    started = time.perf_counter()
    for first in range(0, len(sentences), ENGINE_AT_ONCE):
        engine.embed(sentences[first : first + ENGINE_AT_ONCE])
    return round(len(texts) / (time.perf_counter() - started))


# -- all together ----------------------------------------------------------------------------------


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--events", type=int, default=80_000)
    parser.add_argument("--seconds", type=float, default=15.0, help="of steady load, each time")
    parser.add_argument("--reviews", type=int, default=12_000, help="of text alone")
    parser.add_argument("--only", choices=["rate", "latency", "text"], action="append")
    given = parser.parse_args()
    wanted = given.only or ["rate", "latency", "text"]
    report = began("tests.bench.replay") | {"targets": TARGETS}
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        folder = Path(scratch)
        if "rate" in wanted:
            report["rate"] = rates(broker, folder / "rate", given.rounds, given.events)
        if "latency" in wanted:
            report["latency"] = latencies(
                broker, folder / "latency", given.rounds, given.events, given.seconds
            )
        if "text" in wanted:
            report["text"] = texts(broker, folder / "text", given.rounds, given.reviews)
    write(given.out, report)
    measured = {**report.get("rate", {}), **report.get("latency", {}), **report.get("text", {})}
    tell(TARGETS, measured, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
