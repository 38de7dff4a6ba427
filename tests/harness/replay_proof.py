"""Replays at length: a real history replayed whole, as of ten dates, killed at twenty points, into
another epoch.

    python -m tests.harness.replay_proof [--data FILE]... [--facets] [--only PROOF...] [--reviews N]
        [--texts N] [--kills 20] [--out FILE]

For each file of reviews: a live worker on one broker summarizes its events (embeddings in them;
edits, deletions and poison between them; a minute from one timestamp to the next, some late). What
replays of them publish must be its bytes, and as of a time the last that it published by then. With
`--facets` the worker has facets, and their topic is compared too.
Besides, how well `--dry-run` and the time left say how long a replay takes, of the whole history
and of texts that have to be embedded. The result goes to `tests/bench/results/replays.json`, in the
place of what that has of the same file; the exit code is 1 when something differs, or was foretold
worse than `ESTIMATE_OFF` and `LEFT_OFF` allow.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.machine import began, command_line
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import (
    SAMPLE,
    HashedVectors,
    NoVectors,
    Review,
    Sent,
    SteadyLoad,
    Stream,
    read_reviews,
)
from tests.harness.record import finish
from tests.harness.replays import (
    BEGINNING_MS,
    STEP_MS,
    ReplayProcess,
    agreed,
    as_final,
    at,
    bodies_in,
    bodies_of,
    done_by,
    last_bodies,
    promote,
    published,
    replay,
    write_history,
)
from tests.harness.small_load import DIMENSION as FACETS_DIMENSION
from tests.harness.small_load import FACETS
from tests.harness.topics import committed_offsets, read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "replays.json"
DIMENSION, PARTITIONS, OTHER_PARTITIONS = 32, 4, 7
DATES, LATE = 10, 0.03
OTHER_K, LOAD_PER_S = "10", 50.0
ESTIMATE_OFF, LEFT_OFF = 0.25, 0.15
"""How far `--dry-run` and the time left after a tenth may be off, as shares of the truth."""
LEFT_SECONDS = 30.0
"""Less than that is over before there is a rate to speak of: a tenth of it is a few commits."""
WAIT_SECONDS = 900.0
COUNTS = ("read", "applied", "ignored", "dead_letters", "entities", "changes", "published")
"""What reports of the same history must have in common."""
SETTINGS = {"COVERSUMM_SESSION_TIMEOUT_MS": "6000"}
KILLED_SECONDS = 100
"""How long one process would take for a history while processes are killed."""
PROOFS = ("whole", "final", "dates", "kills", "partitions", "epoch", "texts")
HISTORY = {"max.message.bytes": str(32 << 20), "retention.ms": "-1"}
Whole = dict[str, Any]


class Proof(NamedTuple):
    """One thing that was shown: how much was compared, and how much of it differed."""

    history: str
    proof: str
    compared: str
    count: int
    different: int
    seconds: float


class Foretold(NamedTuple):
    """Seconds a replay took, and what was said before and after a tenth of it (None: nothing)."""

    history: str
    replay: str
    estimated: float
    took: float
    left_told: float | None
    left: float | None

    @property
    def faults(self) -> Iterator[str]:
        """What was foretold worse than it may be."""
        what = f"{self.history}, {self.replay}"
        if abs(self.estimated - self.took) > ESTIMATE_OFF * self.took:
            yield f"{what}: estimated {self.estimated} s, took {self.took} s"
        if self.left_told is None or self.left is None:
            if self.took >= LEFT_SECONDS:
                yield f"{what}: no time left was reported"
        elif self.left >= LEFT_SECONDS and abs(self.left_told - self.left) > LEFT_OFF * self.left:
            yield f"{what}: {self.left_told} s left after a tenth, were {self.left} s"


class Findings:
    """What was found so far; each is printed as it comes."""

    def __init__(self) -> None:
        self.proofs: list[Proof] = []
        self.foretold: list[Foretold] = []

    @contextmanager
    def of(self, history: str, proof: str, compared: str) -> Iterator[Callable[[int, int], None]]:
        """A proof in the block, which says how much it compared and how much differed."""
        started = time.monotonic()
        found: list[tuple[int, int]] = []
        yield lambda count, different: found.append((count, different))
        count, different = (sum(column) for column in zip(*found, strict=True))
        self.proofs.append(
            Proof(history, proof, compared, count, different, round(time.monotonic() - started, 1))
        )
        print(json.dumps(self.proofs[-1]._asdict()), file=sys.stderr, flush=True)

    def foresaw(self, forecast: Foretold) -> None:
        """How well the time of a replay was foretold."""
        self.foretold.append(forecast)
        print(json.dumps(forecast._asdict()), file=sys.stderr, flush=True)

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        wrong = [
            f"{proof.history}, {proof.proof}: {proof}"
            for proof in self.proofs
            if proof.different or not proof.count
        ]
        return wrong + [fault for forecast in self.foretold for fault in forecast.faults]


def unlike(found: Sequence[object], wanted: Sequence[object]) -> int:
    """How many are not what they should be, by place."""
    missing = object()
    return sum(value != other for value, other in zip_longest(found, wanted, fillvalue=missing))


class History:
    """A history that a live worker has summarized, and the replays of it."""

    def __init__(
        self, site: Pipeline, events: list[Sent], findings: Findings, chance: random.Random
    ) -> None:
        self._site, self._events, self._findings, self._chance = site, events, findings, chance
        self._topics = [site.output_topic]
        if "COVERSUMM_FACETS" in site.environment:
            self._topics.append(site.environment["COVERSUMM_FACETS_TOPIC"])
        self._live = [published(site, topic) for topic in self._topics]

    def prove(self, only: Collection[str], kills: int, load: Iterable[Sent]) -> None:
        """What is asked for; an epoch at last, for it goes on with other events."""
        proofs: dict[str, Callable[[], None]] = {
            "whole": self.whole,
            "final": self.final,
            "dates": self.as_of_dates,
            "kills": lambda: self.killed(kills),
            "partitions": self.in_other_partitions,
            "epoch": lambda: self.into_another_epoch(load),
        }
        for name, proof in proofs.items():
            if name in only:
                proof()

    def _proof(self, proof: str, compared: str) -> Any:
        return self._findings.of(self._site.name, proof, compared)

    def _compare(self, name: str) -> tuple[int, int]:
        """Of all topics of the replay of this name, the messages that are not the live worker's."""
        found = [published(self._site, f"{topic}.{name}") for topic in self._topics]
        assert all(self._live)
        return sum(map(len, self._live)), sum(map(unlike, found, self._live))

    def whole(self) -> None:
        """From the beginning to the end, foretold."""
        with self._proof("replayed whole", "messages, byte by byte") as compared:
            self._findings.foresaw(timed(self._site, "whole", "--name", "whole"))
            compared(*self._compare("whole"))

    def final(self) -> None:
        """As of now, into a file, foretold."""
        file = self._site.directory / "final.jsonl"
        with self._proof("`--emit final`", "entities") as compared:
            arguments = ("--name", "final", "--emit", "final", "--to", str(file))
            self._findings.foresaw(timed(self._site, "`--emit final`", *arguments))
            for topic in self._topics:
                compared(*entities_unlike(file, last_bodies(bodies_of(self._site, topic))))

    def as_of_dates(self) -> None:
        """Each summary is the last that the live worker published by then."""
        changes = [bodies_of(self._site, topic) for topic in self._topics]
        records = read_topic(self._site.broker.bootstrap_servers, self._site.input_topic)
        with self._proof(f"as of {DATES} dates", "entities") as compared:
            for number in range(DATES):
                event = int((number + self._chance.random()) / DATES * len(self._events))
                until = event + number % 2 / 2  # every other date is to the millisecond an event's
                boundaries: dict[int, int] = {}
                for record in records:
                    if record.timestamp_ms >= BEGINNING_MS + until * STEP_MS:
                        boundaries.setdefault(record.partition, record.offset)
                file = self._site.directory / f"then-{number}.jsonl"
                arguments = ("--until", at(until), "--emit", "final", "--to", str(file))
                replay(self._site, "--name", f"then-{number}", *arguments)
                for bodies in changes:
                    before = [body for body in bodies if is_before(body["cause"], boundaries)]
                    compared(*entities_unlike(file, last_bodies(before)))

    def killed(self, kills: int) -> None:
        """Half of the kills alone, half by three processes at once, each with micro-batches of
        another size: so small that there are more commits than kills.

        They are held back, or a replay would be over before it was killed so often.
        """
        what = f"`kill -9` at {kills} points, at last by three processes"
        with self._proof(what, "messages, byte by byte") as compared:
            total = len(self._events)
            size = max(1, total // (4 * kills))
            points = sorted(self._chance.randrange(total * 9 // 10) for _ in range(kills))
            slow = ("--name", "killed", "--max-events-per-s", str(total / KILLED_SECONDS))
            alone = [ReplayProcess(self._site, *slow, batch_size=str(2 * size), batch_ms="100")]
            several = [
                ReplayProcess(self._site, *slow, label=f"part-{size}", batch_size=str(size))
                for size in (size, 2 * size, 4 * size)
            ]
            self._kill_at(points[: kills // 2], alone)
            self._kill_at(points[kills // 2 :], several)
            reports = [process.report(WAIT_SECONDS) for process in several]
            compared(*self._compare("killed"))
            compared(*self._sums(reports))

    def _kill_at(self, points: Sequence[int], processes: Sequence[ReplayProcess]) -> None:
        """In turns, and only where something was committed since the last kill."""
        for process in processes:
            process.start()
        for number, point in enumerate(points):
            self._wait_until_done(max(point, done_by(self._site, "killed") + 1), processes)
            time.sleep(self._chance.random() * 0.3)
            victim = processes[number % len(processes)]
            victim.kill()
            victim.start()
        if len(processes) == 1:
            processes[0].kill()

    def _wait_until_done(self, point: int, processes: Sequence[ReplayProcess]) -> None:
        if point > len(self._events):
            raise ValueError("the replay is over before the last kill: fewer --kills, more reviews")
        eventually(
            lambda: done_by(self._site, "killed") >= point,
            lambda: (
                f"it does not come to {point}: {[process.errors[-2000:] for process in processes]}"
            ),
            every_s=0.02,
        )

    def _sums(self, reports: Iterable[Whole]) -> tuple[int, int]:
        """Of each report, the counts that are not those of the whole replay."""
        whole = replay(self._site, "--name", "whole")  # over is over: it says it again
        pairs = [(report[name], whole[name]) for report in reports for name in COUNTS]
        return len(pairs), sum(item != other for item, other in pairs)

    def in_other_partitions(self) -> None:
        """The same events in a topic with another number of partitions *agree*."""
        topic = f"{self._site.name}.repartitioned"
        self._site.broker.create_topic(topic, OTHER_PARTITIONS, HISTORY)
        write_history(self._site, self._events, topic=topic)
        with self._proof(
            f"in {OTHER_PARTITIONS} partitions, not {PARTITIONS}", "changes"
        ) as compared:
            report = replay(self._site, "--name", "repartitioned", "--from", topic)
            for live in self._topics:
                found, wanted = (
                    by_entity(bodies_of(self._site, name))
                    for name in (f"{live}.repartitioned", live)
                )
                compared(
                    sum(map(len, wanted.values())),
                    sum(
                        unlike(found.get(name, []), wanted.get(name, []))
                        for name in found.keys() | wanted
                    ),
                )
            compared(*self._sums([report]))

    def into_another_epoch(self, load: Iterable[Sent]) -> None:
        """With another k, while events come; then a worker goes on, killed in the hand-over."""
        site = self._site
        with self._proof(
            f"into epoch 2 with k={OTHER_K}, continued by a worker", "messages, byte by byte"
        ) as compared:
            writing = SteadyLoad(site.broker.bootstrap_servers, site.input_topic, load, LOAD_PER_S)
            epoch = {"epoch": "2", "k": OTHER_K}
            output = f"{site.output_topic}.epoch-2"
            replay(site, **epoch)
            following = self._going_on(output, epoch)
            promoted = promote(
                site,
                following.environment["COVERSUMM_APP_ID"],
                output,
                "--max-changed",
                "100%",
                **epoch,
            )
            writing.end()
            site.wait_caught_up(WAIT_SECONDS)
            self._wait_caught_up(following)
            following.terminate()
            site.workers.remove(following)
            replay(site, "--name", "two", **epoch)
            compared(0, not promoted[-1]["ok"])
            for topic in self._topics:
                found, wanted = (published(site, f"{topic}.{name}") for name in ("epoch-2", "two"))
                compared(len(wanted), unlike(found, wanted))

    def _going_on(self, output: str, epoch: dict[str, str]) -> WorkerProcess:
        """The worker that goes on from the replay, killed once it is there."""
        site = self._site
        worker = site.worker(
            "following",
            app_id=f"{site.name}-replay-epoch-2",
            output_topic=output,
            facets_topic=f"{site.environment['COVERSUMM_FACETS_TOPIC']}.epoch-2",
            data_dir=str(site.directory / "replay" / "replay-epoch-2"),
            **epoch,
        ).start()
        worker.wait_ready()
        worker.kill()
        worker.start()
        worker.wait_ready()
        return worker

    def _wait_caught_up(self, worker: WorkerProcess) -> None:
        site, targets = self._site, self._site.targets()
        group = worker.environment["COVERSUMM_APP_ID"]

        def caught_up() -> bool:
            committed = committed_offsets(site.broker.bootstrap_servers, site.input_topic, group)
            return all(committed[partition] >= target for partition, target in targets.items())

        eventually(caught_up, worker.log_end)


def timed(site: Pipeline, what: str, *arguments: str) -> Foretold:
    """A replay, and how well its time was foretold: by `--dry-run`, and by itself when a tenth was
    done.
    """
    estimated = ReplayProcess(site, *arguments, "--dry-run").start().wait()[-1]["seconds"]
    process = ReplayProcess(site, *arguments).start()
    report = process.report(WAIT_SECONDS)
    lines = process.said
    estimates = [
        (abs(line["offsets"] / line["of"] - 0.1), when, line["seconds_left"])
        for when, line in lines
        if line["type"] == "progress" and line.get("seconds_left") is not None
    ]
    left_told = left = None
    if estimates:
        _, when, left_told = min(estimates)
        left = round(lines[-1][0] - when, 1)
    return Foretold(site.name, what, estimated, report["seconds"], left_told, left)


def entities_unlike(file: Path, wanted: dict[str, Any]) -> tuple[int, int]:
    """How many entities should be in a file of `--emit final`, and how many differ, are missing or
    too many; of summaries or of facets, as wanted.
    """
    of_facets = any("facets" in body for body in wanted.values())
    found = {body["entity_id"]: body for body in bodies_in(file) if ("facets" in body) == of_facets}
    different = sum(
        entity not in wanted
        or entity not in found
        or _by_name(found[entity]) != as_final(wanted[entity])
        for entity in found.keys() | wanted.keys()
    )
    return len(wanted), different


def _by_name(body: dict[str, Any]) -> dict[str, Any]:
    """As `as_final` has facets."""
    return {**body, "changed": sorted(body["changed"])} if "facets" in body else body


def is_before(cause: dict[str, Any], boundaries: dict[int, int]) -> bool:
    """Whether the record that caused a change lies before its partition's boundary."""
    boundary = boundaries.get(cause["partition"])
    return boundary is None or cause["offset"] < boundary


def by_entity(bodies: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The changes of each entity in their order, as far as they must agree."""
    changes: dict[str, list[dict[str, Any]]] = {}
    for body in bodies:
        changes.setdefault(body["entity_id"], []).append(agreed(body))
    return changes


def prove(
    broker: KafkaBroker,
    folder: Path,
    name: str,
    reviews: Sequence[Review],
    given: Any,
    findings: Findings,
) -> dict[str, Any]:
    """What is asked for over one file's reviews; what the history was."""
    vectors = HashedVectors(FACETS_DIMENSION if given.facets else DIMENSION)
    settings = {**SETTINGS, "COVERSUMM_DIMENSION": str(vectors.dimension)}
    events = list(Stream(reviews, vectors, seed=given.seed))
    options: dict[str, Any] = {
        "partitions": PARTITIONS,
        "settings": settings | FACETS if given.facets else settings,
        "input_config": HISTORY,
    }
    with pipeline(broker, name, folder / name, **options) as site:
        write_history(site, events, late=LATE)
        site.start(1)
        site.wait_caught_up(WAIT_SECONDS)
        history = History(site, events, findings, random.Random(given.seed))
        history.prove(given.only, given.kills, Stream(reviews, vectors, seed=given.seed + 1))
        site.stop()
    return {"history": name, "reviews": len(reviews), "events": len(events)}


def foretell_texts(
    broker: KafkaBroker, folder: Path, name: str, reviews: Sequence[Review], findings: Findings
) -> None:
    """The time of a replay that has to embed every text."""
    settings = {**SETTINGS, "COVERSUMM_EMBEDDER": "onnx", "COVERSUMM_DIMENSION": "384"}
    options: dict[str, Any] = {"settings": settings, "input_config": HISTORY}
    with pipeline(broker, f"{name}-texts", folder / f"{name}-texts", **options) as site:
        write_history(site, Stream(reviews, NoVectors()))
        foretold = timed(site, f"of {len(reviews):,} reviews without embeddings", "--name", "texts")
        findings.foresaw(foretold._replace(history=name))


def named(path: Path) -> str:
    """What a file's history is called."""
    return path.name.split(".")[0].replace("_", "-")


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument(
        "--data", type=Path, action="append", help="a file of reviews; the bundled ones"
    )
    parser.add_argument("--facets", action="store_true", help="with facets, on their topic too")
    parser.add_argument("--reviews", type=int, help="at most so many of each file; all")
    parser.add_argument("--texts", type=int, default=4000, help="so many of each file are embedded")
    parser.add_argument(
        "--only", nargs="+", choices=PROOFS, default=PROOFS, help="of all proofs these"
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    files: list[Path] = given.data or [SAMPLE]
    record, findings = began("tests.harness.replay_proof"), Findings()
    # names of files, not where they are
    record["command"] = re.sub(r" --out \S+|[^ ]*/", "", record["command"])
    load_before = record["machine"]["load_before"]
    histories = []
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        for path in files:
            reviews = read_reviews(path, limit=given.reviews, seed=given.seed)
            name = f"{named(path)}-facets" if given.facets else named(path)
            made = prove(broker, Path(scratch), name, reviews, given, findings)
            if "texts" in given.only:
                texts = read_reviews(path, limit=given.texts, seed=given.seed)
                foretell_texts(broker, Path(scratch), name, texts, findings)
            of_run = {
                "date": record["date"],
                "command": record["command"],
                "load_before": load_before,
            }
            histories.append({**made, **of_run})
    found = {
        "histories": histories,
        "proofs": [proof._asdict() for proof in findings.proofs],
        "foretold": [finding._asdict() for finding in findings.foretold],
    }
    return finish(given.out, record | with_others(given.out, found), findings.faults)


def with_others(
    path: Path, found: dict[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """What was found, in the place of the same of an earlier record, beside what else that has."""
    if not path.exists():
        return found
    before, merged = json.loads(path.read_text()), {}
    for rows, names in SAME.items():
        by_name = {tuple(row[name] for name in names): row for row in [*before[rows], *found[rows]]}
        merged[rows] = list(by_name.values())
    return merged


SAME = {
    "histories": ("history", "command"),
    "proofs": ("history", "proof"),
    "foretold": ("history", "replay"),
}
"""What rows of a record replace each other by."""


if __name__ == "__main__":
    sys.exit(main())
