"""Questions beside a stream at full speed: how long answers take by the size of an entity, and what
ten questions a second cost the stream.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from math import inf, isinf
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

from tests.bench.worker.events import ENTITIES, real, reviews
from tests.bench.worker.latency import PATIENCE_SECONDS, percentiles
from tests.bench.worker.measure import Progress, settings
from tests.harness.broker import KafkaBroker
from tests.harness.load import EngineVectors, Sent, read_reviews, send
from tests.harness.workers import WorkerProcess, pipeline

SIZES = (300, 2600, 27_000)  # sentences
NOUNS = ("bed", "host", "kitchen", "screen", "battery", "sound", "room", "price", "food", "bar")
WHAT = ("clean", "good", "easy to use", "quiet", "loud", "near", "for children", "slow", "cheap")
PER_SECOND = 10


def questions(broker: KafkaBroker, folder: Path, rounds: int, events: int, file: Path) -> Any:
    """Rounds of two backlogs, one with questions: from the end of sending to the last commit."""
    servers = broker.bootstrap_servers
    rates: dict[str, list[int]] = {"without": [], "with": []}
    answers: list[tuple[int, float]] = []
    with pipeline(broker, "bench-ask", folder, settings=settings("onnx")) as site:
        send(servers, site.input_topic, _entities(file), chunk=500)
        (worker,) = site.start(1)
        site.wait_caught_up(PATIENCE_SECONDS)
        for turn in range(2 * rounds):
            kind = ("without", "with", "with", "without")[turn % 4]
            load = list(reviews(events, ENTITIES, seed=turn))
            send(servers, site.input_topic, load, chunk=5000)
            ended = Event()
            with ThreadPoolExecutor(9) as threads:
                if kind == "with":
                    asking = threads.submit(_ask_steadily, worker, threads, ended)
                samples = Progress(site).wait(PATIENCE_SECONDS)
                ended.set()
                answers += asking.result() if kind == "with" else []
            rates[kind].append(round((samples[-1][1] - samples[0][1]) / samples[-1][0]))
        site.stop()
    medians = {kind: statistics.median(found) for kind, found in rates.items()}
    return {
        "questions_per_s": PER_SECOND,
        "refused": sum(isinf(wait_ms) for _, wait_ms in answers),
        "events_per_s": medians | {"turns": rates},
        "with_over_without": round(medians["with"] / medians["without"], 3),
        "answers": {
            str(size): percentiles([ms for of, ms in answers if of == size and not isinf(ms)])
            for size in SIZES
        },
    }


def _entities(file: Path) -> Iterator[Sent]:
    """Entities of these sizes, of real reviews and their vectors; some twice if there are few."""
    found = [review for review in read_reviews(file) if review.sentences]
    vectors = EngineVectors(found)
    for size in SIZES:
        left = size
        for number, review in enumerate(cycle(found)):
            own = review._replace(entity_id=f"size-{size}", review_id=f"r{number}")
            yield from real([own], vectors, 1)
            left -= len(review.sentences)
            if left <= 0:
                break


def _ask_steadily(
    worker: WorkerProcess, threads: ThreadPoolExecutor, ended: Event
) -> list[tuple[int, float]]:
    """Questions at a steady rate, however long the answers take."""
    asked: list[Future[tuple[int, float]]] = []
    while not ended.wait(1 / PER_SECOND):
        asked.append(threads.submit(_ask, worker, len(asked)))
    return [answer.result() for answer in asked]


def _ask(worker: WorkerProcess, number: int) -> tuple[int, float]:
    """Sentences of the entity, and milliseconds to its answer; infinite if it was refused. The
    questions differ, so that the worker knows no answer and no embedding.
    """
    turn, size = number // len(SIZES), SIZES[number % len(SIZES)]
    question = f"Is the {NOUNS[number % len(NOUNS)]} {WHAT[number // len(NOUNS) % len(WHAT)]}?"
    query = urlencode({"q": question, "sentences": 1 + turn % 50})
    began_s = time.monotonic()
    try:
        with worker.get(f"/entities/size-{size}/ask?{query}") as answer:
            assert json.load(answer)["answered"] is not None
    except HTTPError as refused:
        if refused.code != 429:
            raise
        return size, inf
    return size, 1000 * (time.monotonic() - began_s)
