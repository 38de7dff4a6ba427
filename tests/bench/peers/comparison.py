"""Turns of the contenders over entities of different sizes, what they make together, and one
`kill -9` each.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from tests.bench.peers.contenders import (
    BRUTE,
    BYTEWAX_BRUTE,
    OURS,
    PYTHON,
    QUIX_BRUTE,
    TITLES,
    TRIVIAL,
    Contender,
)
from tests.bench.peers.load import (
    DONE,
    MOST_WARM,
    READY,
    Stream,
    Workload,
    id_of,
    is_nearest,
    stream,
    warm,
)
from tests.bench.worker.measure import Progress, cpu_seconds, remove_topics
from tests.bench.worker.throughput import in_turns
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.record import Row
from tests.harness.topics import Message, bounds, consumer, partitions_of, read_topic
from tests.harness.workers import Pipeline, WorkerProcess

KILLED = warm(100)
"""The entities in the turns with a `kill -9`."""
PATIENCE_SECONDS, STALLED_SECONDS = 1800, 600
"""The most for a history or a load, and without a published message in it."""
QUIET_SECONDS = 2.0
"""Seconds without a further published message before the output is looked through."""
SETTLE_SECONDS, SETTLE_TIMES, BUSY = 3.0, 20, 0.2
"""Seconds between history and load: a snapshot of the history is not part of the load. So many
times more of them while it takes that share of a core: databases still merge the history.
"""
LAST = 5000
"""Offsets at a partition's end among which the marks of the history are looked for."""
ONCE = 100_000
"""Entities from which on there is one round."""
LOST_SECONDS = 120.0
"""Seconds of quiet after which what a killed contender has not published counts as lost. A broker
takes 45 s to drop a killed member of a group, and 60 s to abort its transaction.
"""
FIGURES = ("events_per_s", "events_per_cpu_s", "peak_mib")


class Output:
    """What a contender publishes, watched by one client."""

    def __init__(self, site: Pipeline, worker: WorkerProcess, entities: int):
        self._site, self._worker, self._entities = site, worker, entities
        servers = site.broker.bootstrap_servers
        self._committed = consumer(servers)
        self._all = consumer(servers, **{"isolation.level": "read_uncommitted"})
        self._partitions = partitions_of(self._all, site.output_topic)

    def count(self, *, committed: bool = True) -> int:
        """Records in the topic, those of open transactions too unless only `committed` ones
        count.
        """
        client = self._committed if committed else self._all
        topic = self._site.output_topic
        return sum(
            bounds(client, TopicPartition(topic, partition))[1] for partition in self._partitions
        )

    def ends(self) -> dict[int, int]:
        """Partition -> where a committed reader ends now."""
        topic = self._site.output_topic
        return {
            partition: bounds(self._committed, TopicPartition(topic, partition))[1]
            for partition in self._partitions
        }

    def wait_for(self, mark: str, quiet_s: float = PATIENCE_SECONDS) -> tuple[float, float]:
        """Wait until all entities' marks are published, or nothing was for `quiet_s`; when the last
        one was, in ms of the broker's clock, and the processor time until then.

        Raises TimeoutError where it takes too long, or the contender stalled or ended.
        """
        started_s = grown_s = looked_s = time.monotonic()
        count, cpu_s = 0, 0.0
        while time.monotonic() - grown_s < quiet_s:
            now_s = time.monotonic()
            has_time = now_s - started_s < PATIENCE_SECONDS and now_s - grown_s < STALLED_SECONDS
            if not self._worker.alive or not has_time:
                raise TimeoutError(f"{count} messages, no mark {mark}\n{self._site.logs()}")
            now = self.count()
            if now != count:
                count, grown_s = now, time.monotonic()
                cpu_s = cpu_seconds(self._worker) or 0.0
            elif count and time.monotonic() - max(grown_s, looked_s) > QUIET_SECONDS:
                looked_s = time.monotonic()
                at_ms = self._marked(mark)
                # What came while it was read is not in the processor time yet.
                if len(at_ms) == self._entities and self.count() == count:
                    return max(at_ms.values()), cpu_s
            time.sleep(0.05)
        return 0.0, cpu_s

    def _marked(self, mark: str) -> dict[bytes, float]:
        """When each entity's mark was published first."""
        at_ms: dict[bytes, float] = {}
        for message in self.messages(
            {partition: end - LAST for partition, end in self.ends().items()}
        ):
            if f"mark-{mark}".encode() in (message.value or b""):
                at_ms.setdefault(message.key or b"", message.timestamp_ms)
        return at_ms

    def messages(self, starts: Mapping[int, int] | None = None) -> list[Message]:
        """What a committed reader finds, by partition from an offset on; complete once no
        transaction is open any more.
        """
        return read_topic(self._site.broker.bootstrap_servers, self._site.output_topic, starts)

    def wait_settled(self) -> None:
        """Wait until no transaction is open: that of a killed process is aborted when its time is
        over.
        """
        give_up_s = time.monotonic() + LOST_SECONDS
        while self.count() < self.count(committed=False):
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"a transaction stays open in {self._site.output_topic}")
            time.sleep(0.5)

    def close(self) -> None:
        """Close the clients."""
        self._committed.close()
        self._all.close()


def measured(
    who: Sequence[Contender],
    workloads: Sequence[Workload],
    rounds: int,
    events: int,
    kafka: KafkaBroker,
    folder: Path,
    classpath: str,
) -> Iterator[dict[str, Any]]:
    """After each workload all turns so far, and what they make together; the large ones once, at
    the end. A contender that stalled or ended is noted, and the others go on.
    """
    done: list[dict[str, Any]] = []
    stalled: list[dict[str, Any]] = []
    small = [workload for workload in workloads if workload.entities < ONCE]
    turns = [(number, workload) for number in range(rounds) for workload in small]
    for number, workload in turns + [
        (0, workload) for workload in workloads if workload not in small
    ]:
        for contender in in_turns(
            [contender for contender in who if contender.entities >= workload.entities], number
        ):
            turn = {"round": number, **workload._asdict(), "contender": contender.name}
            try:
                done.append(
                    turn | take(contender, number, workload, events, kafka, folder, classpath)
                )
                print(done[-1], flush=True)
            except TimeoutError as cause:
                stalled.append(turn)
                print(f"{turn}: {cause}", file=sys.stderr, flush=True)
        yield {"rounds": number + 1, "rows": rows(done), "turns": done, "stalled": stalled}


def take(
    contender: Contender,
    number: int,
    workload: Workload,
    events: int,
    kafka: KafkaBroker,
    folder: Path,
    classpath: str,
) -> dict[str, Any]:
    """One turn: the history first, then the load at once, from its beginning to the last mark; and
    how much of what it published then is wrong.
    """
    size, entities, _ = workload
    count = max(min(events, contender.events.get(size, events)), 2 * min(entities, MOST_WARM))
    name, load = f"peers-{contender.name}-{size}-{entities}-{number}", os.getloadavg()[0]
    sent = stream(workload, count)
    with contender.open(kafka, name, folder / name, classpath) as site:
        send(kafka.bootstrap_servers, site.input_topic, sent.before(), chunk=500)
        worker = site.worker().start()
        output = Output(site, worker, sent.marks)
        output.wait_for(READY)
        settle(worker)
        before = output.ends()
        cpu_s = cpu_seconds(worker) or 0.0
        began_ms = release(site, worker, sent.measured)
        ended_ms, ended_cpu_s = output.wait_for(DONE)
        found, peak = output.messages(before), peak_mib(worker)
        output.close()
        worker.discard()
        worker.wipe()
        remove_topics(kafka, *(topic for topic in topics_of(kafka) if topic.startswith(name)))
    return {
        "events": count,
        "touched": len({event.key for event in sent.measured}),
        "load": round(load, 2),
        "events_per_s": round(1000 * count / (ended_ms - began_ms), 1),
        "events_per_cpu_s": round(count / max(0.01, ended_cpu_s - cpu_s)),
        "peak_mib": peak,
        "published": len(found),
        "wrong": wrong(contender, sent, found),
    }


def settle(worker: WorkerProcess) -> None:
    """Return once it does next to nothing."""
    used_s = cpu_seconds(worker) or 0.0
    for _ in range(SETTLE_TIMES):
        time.sleep(SETTLE_SECONDS)
        before_s, used_s = used_s, cpu_seconds(worker) or 0.0
        if used_s - before_s < BUSY * SETTLE_SECONDS:
            return


def wrong(contender: Contender, sent: Stream, found: Sequence[Message]) -> int:
    """Reviews of the load that were lost or came again; of one that ranks, entities with marks
    whose last summary is not the sentences nearest to their centroid.
    """
    if contender.keeps:
        return sum(differences((id_of(*event) for event in sent.measured), found))
    last = {message.key: json.loads(message.value or b"{}") for message in found}
    ids = {
        key: [sentence["sentence_id"] for sentence in last.get(key, {}).get("sentences", [])]
        for key in sent.distances
    }
    return sum(not is_nearest(ids[key], of) for key, of in sent.distances.items())


def release(site: Pipeline, worker: WorkerProcess, events: Sequence[Sent]) -> float:
    """Send the load while the contender is stopped, since sending takes both cores; when it was let
    go on, in ms.
    """
    worker.pause()
    send(site.broker.bootstrap_servers, site.input_topic, events, chunk=5000)
    worker.resume()
    return 1000 * time.time()


def kill(
    contender: Contender, events: int, kafka: KafkaBroker, folder: Path, classpath: str
) -> dict[str, Any]:
    """`kill -9` after half of the load, and a start at once: what is lost and repeated of
    everything sent, and the seconds until the next event is published for a committed reader.
    """
    name = f"peers-{contender.name}-killed"
    sent = stream(KILLED, events)
    before = list(sent.before())
    half = len(before) + len(sent.measured) // 2
    with contender.open(kafka, name, folder / name, classpath) as site:
        send(kafka.bootstrap_servers, site.input_topic, before, chunk=500)
        worker = site.worker().start()
        output = Output(site, worker, sent.marks)
        output.wait_for(READY)
        release(site, worker, sent.measured)
        progress = Progress(site)  # events that publish nothing are seen in the commits alone
        while (output.count(committed=False) if contender.keeps else progress.committed()) < half:
            time.sleep(0.01)
        worker.kill()
        killed_ms = 1000 * time.time()
        worker.start()
        output.wait_for(DONE, LOST_SECONDS)
        output.wait_settled()
        found = output.messages()
        if contender.keeps:
            lost, repeated = differences(sent.ids(), found)
            worker.discard()
        else:
            site.wait_caught_up()
            worker.terminate()
            row = Row(contender.name)
            row.judge(site.report())
            lost, repeated = row.lost + row.wrong, row.repeated
        output.close()
        worker.wipe()
        remove_topics(kafka, *(topic for topic in topics_of(kafka) if topic.startswith(name)))
    again = [found_at for m in found if (found_at := m.timestamp_ms) > killed_ms]
    resumed_s = round((min(again) - killed_ms) / 1000, 1) if again else None
    return {"events": events, "lost": lost, "repeated": repeated, "resumed_s": resumed_s}


def differences(sent: Iterable[tuple[str, str]], found: Sequence[Message]) -> tuple[int, int]:
    """How many of the reviews sent were not published, and how many messages are one review's
    again.
    """
    ids = Counter(id_of(message.key, message.value) for message in found)
    return len(set(sent) - ids.keys()), sum(ids.values()) - len(ids)


def peak_mib(worker: WorkerProcess) -> int:
    """The largest resident memory of its process so far, in MiB."""
    lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024)


def topics_of(kafka: KafkaBroker) -> list[str]:
    """All there are."""
    admin = kafka.admin()
    return list(admin.list_topics(timeout=30).topics)


def rows(done: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each workload the medians of every contender that took part, and ours over theirs."""
    found = []
    for size, entities in dict.fromkeys((turn["sentences"], turn["entities"]) for turn in done):
        here = [turn for turn in done if (turn["sentences"], turn["entities"]) == (size, entities)]
        row: dict[str, Any] = {"sentences": size, "entities": entities}
        row["rounds"] = len({turn["round"] for turn in here})
        for name in TITLES:
            if mine := [turn for turn in here if turn["contender"] == name]:
                row[name] = {
                    figure: statistics.median(turn[figure] for turn in mine) for figure in FIGURES
                }
        for other in (PYTHON, TRIVIAL, BRUTE, QUIX_BRUTE, BYTEWAX_BRUTE):
            if OURS.name in row and other.name in row:
                row[f"{OURS.name}_over_{other.name}"] = {
                    figure: round(row[OURS.name][figure] / row[other.name][figure], 2)
                    for figure in FIGURES[:2]
                }
        found.append(row)
    return found
