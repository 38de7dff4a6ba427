"""Questions beside a stream at full speed: how long answers take by the size of an entity, and what
ten questions a second cost the stream.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode

from tests.bench.worker.events import ENTITIES, real, reviews
from tests.bench.worker.latency import PATIENCE_SECONDS, percentiles
from tests.bench.worker.measure import Progress, settings
from tests.harness.broker import KafkaBroker
from tests.harness.load import EngineVectors, Review, Sent, read_reviews, send
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

SIZES = (300, 2600, 27_000)  # sentences
QUESTIONS = (
    "Is it quiet at night?",
    "Is it easy to park?",
    "Was the bed comfortable?",
    "How clean is the bathroom?",
    "Is the host easy to reach?",
    "Is it a good place for a family?",
    "Can one walk to a restaurant?",
    "Is there a casino?",
)
PER_SECOND = 10.0
ALONE = 60  # questions of a worker without load


class Asked(NamedTuple):
    """A question: the entity's size, milliseconds to its answer, the status."""

    size: int
    wait_ms: float
    status: int


def questions(broker: KafkaBroker, folder: Path, rounds: int, events: int, file: Path) -> Any:
    """Rounds of two backlogs each, with and without questions."""
    with pipeline(broker, "bench-ask", folder, settings=settings("onnx")) as site:
        send(broker.bootstrap_servers, site.input_topic, _entities(file), chunk=500)
        (worker,) = site.start(1)
        site.wait_caught_up(PATIENCE_SECONDS)
        alone = [_ask(worker, number) for number in range(ALONE)]
        rates: dict[bool, list[int]] = {False: [], True: []}
        beside: list[Asked] = []
        for number in range(rounds):
            for is_asked in (False, True) if number % 2 else (True, False):
                load = list(reviews(events, ENTITIES, seed=2 * number + is_asked))
                with ThreadPoolExecutor(9) as threads:
                    ended = Event()
                    if is_asked:
                        asking = threads.submit(_ask_steadily, worker, threads, ended)
                    rates[is_asked].append(_events_per_s(site, load))
                    ended.set()
                    if is_asked:
                        beside += asking.result()
        site.stop()
    with_questions, without = statistics.median(rates[True]), statistics.median(rates[False])
    return {
        "questions_per_s": PER_SECOND,
        "events_per_s": {"without": without, "with": with_questions, "turns": rates},
        "with_over_without": round(with_questions / without, 3),
        "refused": sum(asked.status == 429 for asked in beside),
        "alone": _by_size(alone),
        "beside": _by_size(beside),
    }


def _entities(file: Path) -> Iterator[Sent]:
    """Entities of these sizes, of real reviews and their vectors; the largest has some twice."""
    found = [review for review in read_reviews(file) if review.sentences]
    for size in SIZES:
        taken: list[Review] = []
        count = 0
        for number, review in enumerate(cycle(found)):
            if count >= size:
                break
            taken.append(review._replace(entity_id=f"size-{size}", review_id=f"r{number}"))
            count += len(review.sentences)
        yield from real(taken, EngineVectors(found), len(taken))


def _ask(worker: WorkerProcess, number: int) -> Asked:
    """One question that has not been asked before: the number of sentences is another."""
    turn, at = divmod(number, len(SIZES))
    query = {"q": QUESTIONS[turn % len(QUESTIONS)], "sentences": 1 + turn // len(QUESTIONS) % 50}
    began_s = time.monotonic()
    try:
        with worker.get(f"/entities/size-{SIZES[at]}/ask?{urlencode(query)}") as answer:
            assert json.load(answer)["answered"] is not None
            status = answer.status
    except HTTPError as refused:
        status = refused.code
    return Asked(SIZES[at], 1000 * (time.monotonic() - began_s), status)


def _ask_steadily(worker: WorkerProcess, threads: ThreadPoolExecutor, ended: Event) -> list[Asked]:
    """Questions at a steady rate, however long the answers take."""
    waiting: list[Future[Asked]] = []
    while not ended.wait(1 / PER_SECOND):
        waiting.append(threads.submit(_ask, worker, len(waiting)))
    return [asked.result() for asked in waiting]


def _events_per_s(site: Pipeline, load: Sequence[Sent]) -> int:
    """From the end of sending a backlog to its last commit."""
    send(site.broker.bootstrap_servers, site.input_topic, load, chunk=5000)
    samples = Progress(site).wait(PATIENCE_SECONDS)
    return round((samples[-1][1] - samples[0][1]) / samples[-1][0])


def _by_size(asked: Sequence[Asked]) -> dict[str, Any]:
    return {
        str(size): percentiles(
            [found.wait_ms for found in asked if found.size == size and found.status == 200]
        )
        for size in SIZES
    }
