"""The peers do what the comparison takes them for, and the comparison counts right."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.bench.kafka_streams.application import INSTALL, missing_tools
from tests.bench.machine import machine
from tests.bench.peers.comparison import SIZES, entities_of, history, load, rate_between, rows
from tests.bench.peers.contenders import BRUTE, CONTENDERS, FAUST, TRIVIAL, classes
from tests.bench.peers.table import peers_table
from tests.bench.worker.events import reviews
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.topics import read_topic

pytestmark = pytest.mark.long

MISSING = missing_tools()
K = 20


def test_every_entity_has_so_many_sentences_before_the_load() -> None:
    for size in SIZES:
        counts: Counter[bytes | None] = Counter()
        for event in history(size):
            counts[event.key] += len(json.loads(event.value or b"")["sentences"])
        assert set(counts.values()) == {size}
        assert len(counts) == entities_of(size)
        assert {event.key for event in load(size, 50)} <= counts.keys()


def test_a_rate_is_from_the_first_commit_of_the_load_to_its_last() -> None:
    commits = [
        (0, 0, 10),
        (500, 1, 10),
        (1000, 0, 40),
        (2000, 1, 60),
        (3000, 0, 100),
        (9000, 0, 100),
    ]
    assert rate_between(commits, 20, 160) == 55.0
    with pytest.raises(SystemExit, match="more events"):
        rate_between([*commits[:2], (1000, 0, 150)], 20, 160)


def test_a_row_has_medians_and_the_record_is_shown(tmp_path: Path) -> None:
    done = [
        {"sentences": 10, "contender": name, "events_per_s": rate, "events_per_cpu_s": 100.0}
        for name, rate in (("worker", 50.0), ("worker", 70.0), ("worker", 60.0), ("brute", 30.0))
    ]
    found = rows(done)
    assert found[0]["worker"]["events_per_s"] == 60.0
    assert found[0]["over_brute"] == 2.0
    assert "over_trivial" not in found[0]
    record = tmp_path / "record.json"
    assert "make bench-peers" in peers_table(record)
    head = {"machine": machine(), "date": "2026-11-22T00:00:00+00:00", "command": "python -m x"}
    record.write_text(json.dumps(head | {"rows": found}))
    assert peers_table(record).splitlines()[2] == "| 10 | 60 (100) | 30 (100) |"
    assert set(CONTENDERS) == {"worker", "trivial", "brute", "faust"}


def nearest(events: list[Sent]) -> dict[bytes | None, set[str]]:
    """By entity the ids of the k sentences nearest to the centroid, in straight-line code."""
    ids: dict[bytes | None, list[str]] = {}
    vectors: dict[bytes | None, list[np.ndarray]] = {}
    for event in events:
        body = json.loads(event.value or b"")
        for place, sentence in enumerate(body["sentences"]):
            vector = np.frombuffer(base64.b64decode(sentence["embedding"]), "<f4").astype(float)
            ids.setdefault(event.key, []).append(f"{body['review_id']}#{place}")
            vectors.setdefault(event.key, []).append(vector / np.linalg.norm(vector))
    found = {}
    for entity, of in vectors.items():
        matrix = np.array(of)
        order = np.argsort(np.linalg.norm(matrix - matrix.mean(axis=0), axis=1), kind="stable")
        found[entity] = {ids[entity][at] for at in order[:K]}
    return found


@pytest.mark.kafka
@pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: {INSTALL}")
def test_peers_keep_every_review_and_brute_force_finds_the_nearest(tmp_path: Path) -> None:
    events = list(reviews(120, 3, 2))
    classpath = classes(tmp_path / "classes")
    with KafkaBroker(tmp_path / "broker") as kafka:
        for one in (TRIVIAL, BRUTE, FAUST):
            with one.open(kafka, one.name, tmp_path / one.name, classpath) as site:
                send(kafka.bootstrap_servers, site.input_topic, events)
                worker = site.worker().start()
                site.wait_caught_up()
                worker.discard()
                found = read_topic(kafka.bootstrap_servers, site.output_topic)
            if one is BRUTE:
                last = {
                    message.key: {
                        sentence["sentence_id"]
                        for sentence in json.loads(message.value or b"")["sentences"]
                    }
                    for message in found
                }
                assert last == nearest(events)
                assert 30 < len(found) < len(events)
            else:
                ids = Counter(json.loads(message.value or b"")["review_id"] for message in found)
                assert ids == Counter(
                    json.loads(event.value or b"")["review_id"] for event in events
                )
