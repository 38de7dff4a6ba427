"""Summaries and entities, asked for over HTTP: always there, always the last committed ones,
whatever the worker does.
"""

from __future__ import annotations

import json
import threading
import urllib.error
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness import throttled
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import Sent, send
from tests.harness.patience import TEST_SECONDS
from tests.harness.small_load import SETTINGS, check, events, feed
from tests.harness.workers import WorkerProcess, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


def summary(worker: WorkerProcess, entity_id: str, timeout_s: float = 5) -> Any:
    """What a worker says of an entity."""
    with worker.get(f"/entities/{quote(entity_id, safe='')}/summary", timeout_s) as answer:
        return json.load(answer)


def entities(worker: WorkerProcess) -> Any:
    """What a worker says of the entities that it has."""
    with worker.get("/entities") as answer:
        return json.load(answer)["entities"]


def review(number: int, text: str) -> Sent:
    """A review of one sentence, of the one entity."""
    body = {
        "type": "review.upserted",
        "entity_id": "hotel",
        "review_id": f"r{number}",
        "text": text,
    }
    return Sent(b"hotel", json.dumps(body).encode())


def test_it_is_there_while_a_micro_batch_is_under_way(kafka: KafkaBroker, tmp_path: Path) -> None:
    """The engine embeds the second review once the gate is open: until then a micro-batch is under
    way, provably.
    """
    gate = tmp_path / "gate"
    environment = {"COVERSUMM_EMBEDDER": "onnx", throttled.GATE: str(gate)}
    with pipeline(
        kafka,
        "under-way",
        tmp_path,
        partitions=1,
        settings=environment,
        launcher=throttled.__name__,
    ) as site:
        send(kafka.bootstrap_servers, site.input_topic, [review(0, "The room was clean.")])
        (worker,) = site.start()
        site.wait_caught_up()
        before, listed = summary(worker, "hotel"), entities(worker)
        send(kafka.bootstrap_servers, site.input_topic, [review(1, "We had to wait an hour.")])
        eventually(throttled.waiting_path(gate).exists, worker.log_end)
        for _ in range(50):
            assert summary(worker, "hotel") == before
            assert entities(worker) == listed
        with worker.get("/healthz") as answer:
            assert "a micro-batch is being processed" in json.load(answer)["waiting_for"]
        gate.touch()
        site.wait_caught_up()
        after = summary(worker, "hotel")
        assert [sentence["text"] for sentence in before["sentences"]] == ["The room was clean."]
        assert {sentence["review_id"] for sentence in after["sentences"]} == {"r0", "r1"}
        assert after["next_offset"] > before["next_offset"]
        assert [
            (entity["entity_id"], entity["reviews"]) for entity in (*listed, *entities(worker))
        ] == [
            ("hotel", 1),
            ("hotel", 2),
        ]
        site.stop()


@pytest.mark.long
def test_asking_all_the_time_while_partitions_come_and_go(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """A query is answered, redirected, or refused for the moment; a database closes under no one,
    and opens again.
    """
    with pipeline(kafka, "asking", tmp_path, settings=SETTINGS) as site:
        load = events(150)
        ids = sorted(
            {record.key.decode() for record in load if record.key and record.key.isascii()}
        )[:40]
        paths = [f"/entities/{quote(entity_id, safe='')}/summary" for entity_id in ids] + [
            "/entities"
        ] * 4
        feed(site, load)
        site.start(1)
        over, statuses = threading.Event(), Counter[int]()

        def ask(part: int) -> None:
            while not over.wait(0.1):
                for path in paths[part::4]:
                    for worker in list(site.workers):
                        try:
                            with worker.get(path, timeout_s=30) as answer:
                                statuses[answer.status] += 1
                        except urllib.error.HTTPError as refusal:
                            statuses[refusal.code] += 1
                        except OSError:
                            statuses[0] += 1  # it is starting, or has ended

        asking = [threading.Thread(target=ask, args=(part,)) for part in range(4)]
        for thread in asking:
            thread.start()
        try:
            for _ in range(3):
                (second,) = site.start(1)
                feed(site, load)
                assert second.terminate() == 0
                site.workers.remove(second)
            site.wait_caught_up()
        finally:
            over.set()
            for thread in asking:
                thread.join()
        assert statuses[200] > 100
        assert not statuses[500], statuses
        assert site.workers[0].alive, site.logs()
        check(site)
