"""The cost of queries for summaries while a worker on a real Kafka is at full load.
`make bench-queries`.

    python -m tests.bench.queries [--rounds N] [--events N] [--pages N] [--page-rounds N] [--out
        FILE]

One worker, embeddings in the events (384 numbers, base64), k = 20. The worker processes backlogs of
the same size in turns. During every second one, clients ask for 20 summaries per second, without
waiting for earlier answers:

    of hot entities      1,000 of 100 sentences, which the backlog changes; with fewer sentences the
                         cost of an event grows during the turn
    of large hot ones    10 of 3,000 sentences, which the backlog changes too
    of cold entities     200 of 60 sentences, which it does not change and which are not in memory
    of nothing           /healthz: the share of machine, web server and event loop in any answer

Then the same with a hundred open live pages instead of clients: half of them follow all changes,
the other half one entity of the backlog each. Each page asks for the worker's state every 30 s, as
its script does.

A rate counts the worker's own commits by the broker's clock, from the first one after the backlog
was sent to the last. The cost of clients is measured pair by pair: one quiet turn and one with
clients, in the opposite order in every second pair, so that drift (growing entities, warm
processors) cancels out.

Last, a cold entity of 100,000 sentences: how long the first answer takes, and the second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from scipy.stats import t as student

from tests.bench.machine import began, command_line, tell, write
from tests.bench.worker.events import DIMENSION, review
from tests.bench.worker.measure import Progress, commits_of, settings
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.recovered import Commit
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

HOT, LARGE, COLD = 1000, 10, 200
HOT_SENTENCES, LARGE_SENTENCES, COLD_SENTENCES, HUGE_SENTENCES = 100, 3000, 60, 100_000
A_SECOND = 20
STATUS_EVERY_S = 30
SHARES = {"hot": 0.6, "large": 0.1, "cold": 0.3}
HEALTH = "healthz"
TARGETS = {"answer_p99_ms": 100.0, "throughput_ratio": 0.97}
Answer = tuple[str, float, int]
RESULTS = Path(__file__).with_name("results") / "queries.json"


class Reviews:
    """New reviews of any entity; each entity's vectors lie around a centre of its own."""

    def __init__(self) -> None:
        self._chance = np.random.default_rng(0)
        self._centres: dict[str, Any] = {}
        self._made = 0

    def one(self, entity_id: str, sentences: int = 1) -> Sent:
        """The next review."""
        centre = self._centres.setdefault(entity_id, self._chance.standard_normal(DIMENSION) * 0.7)
        vectors = (centre + self._chance.standard_normal((sentences, DIMENSION))).astype("<f4")
        self._made += 1
        return review(entity_id, f"review-{self._made}", vectors)

    def history(self) -> Iterator[Sent]:
        """What there is before anything is measured."""
        for kind, count, sentences in (
            ("hot", HOT, HOT_SENTENCES),
            ("large", LARGE, LARGE_SENTENCES),
            ("cold", COLD, COLD_SENTENCES),
        ):
            for number in range(count):
                for _ in range(sentences // 10):
                    yield self.one(f"{kind}-{number}", 10)
        for _ in range(HUGE_SENTENCES // 10):
            yield self.one("huge", 10)

    def backlog(self, count: int) -> list[Sent]:
        """Reviews of one sentence, one in a hundred about a large entity."""
        chance = random.Random(self._made)
        return [
            self.one(
                f"large-{chance.randrange(LARGE)}"
                if i % 100 == 0
                else f"hot-{chance.randrange(HOT)}"
            )
            for i in range(count)
        ]


class Clients:
    """Ask at a fixed rate until `stop`; (kind, seconds since it was due, status) of each answer.

    They have a process of their own: in the process that sends the backlog they would wait for its
    interpreter, up to a second.
    """

    def __init__(self, worker: WorkerProcess, work: Callable[..., None], *given: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._begun, self._over = context.Event(), context.Event()
        self._answers: multiprocessing.SimpleQueue[list[Answer]] = context.SimpleQueue()
        url = f"http://127.0.0.1:{worker.web_port}"
        self._process = context.Process(
            target=work, args=(url, self._begun, self._over, self._answers, *given)
        )

    def start(self) -> None:
        """Return when they are about to ask."""
        self._process.start()
        assert self._begun.wait(60)

    def stop(self) -> list[Answer]:
        """Wait for the answers that are due."""
        self._over.set()
        answers = self._answers.get()
        self._process.join()
        return answers


def ask(
    url: str, begun: Event, over: Event, answers: multiprocessing.SimpleQueue[list[Answer]]
) -> None:
    """What `Clients` do in their process."""
    answers.put(asyncio.run(_ask(url, begun, over)))


async def _ask(url: str, begun: Event, over: Event) -> list[Answer]:
    chance = random.Random(1)
    asked: list[asyncio.Future[Answer]] = []
    async with aiohttp.ClientSession() as session:

        async def one(kind: str, path: str, due: float) -> Answer:
            async with session.get(url + path) as answer:
                await answer.read()
                return kind, time.monotonic() - due, answer.status

        begun.set()
        due = time.monotonic()
        while not over.is_set():
            kind = chance.choices(list(SHARES), list(SHARES.values()))[0]
            number = chance.randrange({"hot": HOT, "large": LARGE, "cold": COLD}[kind])
            asked.append(
                asyncio.ensure_future(one(kind, f"/entities/{kind}-{number}/summary", due))
            )
            if len(asked) % 4 == 0:
                asked.append(asyncio.ensure_future(one(HEALTH, "/healthz", due)))
            due += 1 / A_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        return await asyncio.gather(*asked)


def look_on(
    url: str,
    begun: Event,
    over: Event,
    answers: multiprocessing.SimpleQueue[list[Answer]],
    pages: int,
) -> None:
    """Open `pages` live pages in a process of their own; (kind, seconds since the start, 200) of
    each event that they receive.
    """
    answers.put(asyncio.run(_look_on(url, begun, over, pages)))


async def _look_on(url: str, begun: Event, over: Event, pages: int) -> list[Answer]:
    heard: list[Answer] = []
    started = time.monotonic()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def status() -> None:
            while True:
                async with session.get(url + "/page/status") as answer:
                    answer.raise_for_status()
                    await answer.read()
                await asyncio.sleep(STATUS_EVERY_S)

        async def one(number: int) -> None:
            kind = "one" if number % 2 else "everything"
            path = f"/page/entities/hot-{number}/changes" if number % 2 else "/page/changes"
            async with session.get(url + path, timeout=aiohttp.ClientTimeout(total=None)) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    if line.startswith(b"event: change"):
                        heard.append((kind, time.monotonic() - started, 200))

        tasks = [asyncio.ensure_future(work) for at in range(pages) for work in (one(at), status())]
        await asyncio.sleep(1)
        assert not any(task.done() for task in tasks), [task for task in tasks if task.done()]
        begun.set()
        while not over.is_set():
            await asyncio.sleep(0.1)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return heard


def work_off(site: Pipeline, backlog: list[Sent]) -> float:
    """Events/s from the first commit after all of the backlog is in the topic to the last one."""
    send(site.broker.bootstrap_servers, site.input_topic, backlog, chunk=5000)
    sent_ms = int(1000 * time.time())
    Progress(site).wait(600)
    return rate_since(commits_of(site, site.name), sent_ms)


def rate_since(found: Iterable[Commit], since_ms: int) -> float:
    """Events/s between the first and the last of the commits after a moment, over all
    partitions.
    """
    offsets: dict[int, int] = {}
    samples: list[tuple[int, int]] = []
    for commit in sorted((one for one in found if not one.by_hand), key=lambda one: one.at_ms):
        offsets[commit.partition] = commit.offset
        if commit.at_ms >= since_ms:
            samples.append((commit.at_ms, sum(offsets.values())))
    if not samples or samples[-1][0] == samples[0][0]:
        raise SystemExit("the backlog was worked off while it was sent: ask for more --events")
    (first_ms, first), (last_ms, last) = samples[0], samples[-1]
    return 1000 * (last - first) / (last_ms - first_ms)


def paired(quiet: Sequence[float], asked: Sequence[float]) -> tuple[float, list[float] | None]:
    """The ratio of a figure with clients to the quiet one, over pairs of turns: the geometric mean
    and its 95 % interval.
    """
    logs = np.log(np.asarray(asked, np.float64) / np.asarray(quiet, np.float64))
    mean = float(logs.mean())
    if len(logs) < 2:
        return round(float(np.exp(mean)), 3), None
    off = float(student.ppf(0.975, len(logs) - 1)) * float(logs.std(ddof=1)) / len(logs) ** 0.5
    return round(float(np.exp(mean)), 3), [
        round(float(np.exp(mean + one)), 3) for one in (-off, off)
    ]


def turns(
    site: Pipeline,
    worker: WorkerProcess,
    reviews: Reviews,
    rounds: int,
    events: int,
    clients_of: Callable[[WorkerProcess], Clients],
) -> tuple[dict[str, Any], list[Answer]]:
    """Backlogs in turns, quiet, asked, asked, quiet, ...; what they came to, and what the clients
    were answered.
    """
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    answers: list[Answer] = []
    for turn in range(2 * rounds):
        asked = turn % 4 in (1, 2)
        backlog = reviews.backlog(events)
        clients = clients_of(worker)
        if asked:
            clients.start()
        name, cpu = "asked" if asked else "quiet", cpu_seconds(worker)
        rates[name].append(round(work_off(site, backlog)))
        costs[name].append(round(1e6 * (cpu_seconds(worker) - cpu) / events))
        if asked:
            answers += clients.stop()
    throughput, between = paired(rates["quiet"], rates["asked"])
    cost, cost_between = paired(costs["asked"], costs["quiet"])
    row = {
        "events_each": events,
        "events_per_s_quiet": rates["quiet"],
        "events_per_s_asked": rates["asked"],
        "throughput_ratio": throughput,
        "throughput_ratio_95": between,
        "cpu_us_per_event_quiet": costs["quiet"],
        "cpu_us_per_event_asked": costs["asked"],
        "cpu_ratio": cost,
        "cpu_ratio_95": cost_between,
    }
    return row, answers


def answered(answers: list[Answer]) -> dict[str, Any]:
    """What became of questions."""
    return {
        "answers": len(answers),
        "statuses": dict(Counter(status for _, _, status in answers)),
        **latencies([seconds for kind, seconds, _ in answers if kind != HEALTH]),
        **{
            kind: latencies([seconds for one, seconds, _ in answers if one == kind])
            for kind in (*SHARES, HEALTH)
        },
    }


def cpu_seconds(worker: WorkerProcess) -> float:
    """Processor time that the worker has used."""
    fields = Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latencies(seconds: list[float]) -> dict[str, float]:
    """Percentiles in milliseconds."""
    found = np.percentile(np.array(seconds) * 1000, [50, 99, 100]).round(1).tolist()
    return dict(zip(("answer_p50_ms", "answer_p99_ms", "answer_max_ms"), found, strict=True))


def huge(worker: WorkerProcess) -> dict[str, Any]:
    """Milliseconds of three answers, one after the other."""
    found = []
    for _ in range(3):
        started = time.monotonic()
        with worker.get("/entities/huge/summary") as answer:
            assert json.load(answer)["sentence_count"] == HUGE_SENTENCES
        found.append(round(1000 * (time.monotonic() - started), 1))
    return {"sentences": HUGE_SENTENCES, "answers_ms": found}


def under_pages(
    site: Pipeline, worker: WorkerProcess, reviews: Reviews, given: argparse.Namespace
) -> dict[str, Any]:
    """The same turns with pages that look on."""
    found, heard = turns(
        site,
        worker,
        reviews,
        given.page_rounds,
        given.events,
        lambda one: Clients(one, look_on, given.pages),
    )
    kinds = Counter(kind for kind, _, _ in heard)
    return {
        "pages": given.pages,
        **found,
        "events_of_everything": kinds["everything"],
        "events_of_one": kinds["one"],
    }


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--page-rounds", type=int, default=12, help="at least 2")
    given = parser.parse_args()
    report = began("tests.bench.queries") | {"targets": TARGETS, "asked_a_second": A_SECOND}
    with (
        tempfile.TemporaryDirectory() as scratch,
        KafkaBroker(Path(scratch) / "broker") as broker,
        pipeline(broker, "bench-queries", Path(scratch) / "worker", settings=settings()) as site,
    ):
        reviews = Reviews()
        send(broker.bootstrap_servers, site.input_topic, reviews.history(), chunk=500)
        (worker,) = site.start(1)
        site.wait_caught_up(600)
        worker.terminate()
        worker.start().wait_ready(120)  # nothing is in memory
        report["huge_cold_entity"] = huge(worker)
        work_off(site, reviews.backlog(given.events))
        found, answers = turns(
            site, worker, reviews, given.rounds, given.events, lambda one: Clients(one, ask)
        )
        report["under_load"] = found | answered(answers)
        report["under_pages"] = under_pages(site, worker, reviews, given)
        site.stop()
    write(given.out, report)
    for part in ("huge_cold_entity", "under_load", "under_pages"):
        print(part, json.dumps(report[part]))
    tell(TARGETS, report["under_load"], given.out)
    pages = report["under_pages"]
    print(
        f"with {pages['pages']} live pages: {pages['throughput_ratio']} of the throughput "
        f"({pages['throughput_ratio_95']})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
