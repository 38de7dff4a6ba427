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
from tests.bench.peers.comparison import Output, differences, measured, rows, wrong
from tests.bench.peers.contenders import (
    BRUTE,
    BYTEWAX,
    BYTEWAX_BRUTE,
    FAUST,
    PARTITIONS,
    PATHWAY,
    QUIX,
    QUIX_BRUTE,
    TRIVIAL,
    Contender,
    classes,
)
from tests.bench.peers.load import (
    COLD_MARKS,
    COLD_SENTENCES,
    DONE,
    READY,
    SIZES,
    cold,
    history,
    load,
    marks,
    stream,
    warm,
)
from tests.bench.peers.ranking import Entity, K
from tests.bench.peers.table import cold_peers_table, peers_table
from tests.bench.worker.events import reviews
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.topics import Message, read_topic
from worker.kafka.topics import partition_of

pytestmark = pytest.mark.long

MISSING = missing_tools()
HEAD = {"machine": machine(), "date": "2026-11-22T00:00:00+00:00", "command": "python -m x"}


def test_every_entity_has_so_many_sentences_before_the_load() -> None:
    for size in SIZES:
        counts: Counter[bytes | None] = Counter()
        for event in history(warm(size)):
            counts[event.key] += len(json.loads(event.value or b"")["sentences"])
        assert set(counts.values()) == {size}
        assert len(counts) == warm(size).entities
        assert {event.key for event in load(warm(size), 50)} <= counts.keys()


def test_cold_entities_have_their_sentences_and_most_are_drawn_seldom() -> None:
    sent, counts = stream(cold(500), 3000), Counter[bytes | None]()
    for event in list(sent.before())[:-COLD_MARKS]:
        counts[event.key] += len(json.loads(event.value or b"")["sentences"])
    assert set(counts.values()) == {COLD_SENTENCES}
    assert len(counts) == 500
    drawn = Counter(event.key for event in sent.measured)
    assert len(sent.measured) == 3000
    assert drawn.keys() <= counts.keys()
    assert drawn.most_common(1)[0][1] > 300  # about 1 of 7
    assert len([key for key, count in drawn.items() if count < 5]) > 250
    evenly = Counter(event.key for event in stream(cold(500, 0.0), 3000).measured)
    assert evenly.most_common(1)[0][1] < 30


def test_marks_of_cold_entities_are_the_last_of_every_partition() -> None:
    sent = stream(cold(500), 3000)
    for part, name in ((list(sent.before()), READY), (sent.measured, DONE)):
        marked = part[-COLD_MARKS:]
        assert {json.loads(event.value or b"")["review_id"] for event in marked} == {f"mark-{name}"}
        assert {partition_of(event.key or b"", PARTITIONS) for event in marked} == {0, 1, 2, 3}


def test_a_wrong_output_is_noticed() -> None:
    sent = stream(cold(200), 1000)
    kept = [message(event.key, event.value) for event in sent.measured]
    assert [wrong(QUIX, sent, found) for found in (kept, kept[1:], [*kept, kept[5]])] == [0, 1, 1]
    ranked: dict[bytes | None, Entity] = {}
    found = []
    for event in [*sent.before(), *sent.measured]:
        entity = ranked.setdefault(event.key, Entity())
        entity.add(json.loads(event.value or b""))
        if (change := entity.change()) is not None:
            found.append(message(event.key, json.dumps(change).encode()))
    assert wrong(QUIX_BRUTE, sent, found) == 0
    assert wrong(QUIX_BRUTE, sent, found[:-1]) == 1
    assert wrong(QUIX_BRUTE, sent, []) == COLD_MARKS


def message(key: bytes | None, value: bytes | None) -> Message:
    """One that a contender published."""
    return Message("out", 0, 0, 0, key, value, ())


def test_every_contender_publishes_a_mark() -> None:
    sent, entities = stream(warm(10), 3000), warm(10).entities
    before = list(sent.before())
    assert [len(before), len(sent.measured)] == [2 * entities, 3000]
    for part, name in ((before, READY), (sent.measured, DONE)):
        marked = part[-entities:]
        assert len({event.key for event in marked}) == entities
        assert {json.loads(event.value or b"")["review_id"] for event in marked} == {f"mark-{name}"}
    ranked: dict[bytes | None, Entity] = {}
    for event in [*before, *sent.measured]:
        body = json.loads(event.value or b"")
        entity = ranked.setdefault(event.key, Entity())
        entity.add(body)
        change = entity.change()
        if body["review_id"].startswith("mark-"):
            assert change is not None
            nearest_two = [one["sentence_id"] for one in change["sentences"][:2]]
            assert f"{body['review_id']}#0" in nearest_two  # the other may be the mark before


def test_differences_are_by_review() -> None:
    sent = stream(warm(10_000), 30)
    everything = [message(*event) for event in (*sent.before(), *sent.measured)]
    assert differences(sent.ids(), everything) == (0, 0)
    assert differences(sent.ids(), [*everything[3:], *everything[10:15]]) == (3, 5)


def test_a_row_has_medians_and_the_record_is_shown(tmp_path: Path) -> None:
    done = [
        {
            "round": number,
            "sentences": 10,
            "entities": 1000,
            "contender": name,
            "events_per_s": rate,
            "events_per_cpu_s": 100.0,
            "peak_mib": 1300,
        }
        for number, name, rate in (
            (0, "worker", 50.0),
            (1, "worker", 70.0),
            (2, "worker", 60.0),
            (0, "brute", 30.0),
            (0, "quix", 90.0),
        )
    ]
    found = rows(done)
    assert found[0]["worker"]["events_per_s"] == 60.0
    assert found[0]["worker_over_brute"] == {"events_per_s": 2.0, "events_per_cpu_s": 1.0}
    assert "worker_over_trivial" not in found[0]
    record = tmp_path / "record.json"
    assert "make bench-peers" in peers_table(record)
    kills = {"quix": {"events": 5000, "lost": 1, "repeated": 2000, "resumed_s": 50.4}}
    told = {"rounds": 3, "rows": found, "kills": kills, "stalled": []}
    record.write_text(json.dumps(HEAD | told))
    lines = peers_table(record).splitlines()
    assert lines[:3] == ["| sentences an entity | 10 |", "|---|---|", "| the worker | 60 (100) |"]
    assert (
        "| Quix Streams, reviews kept | exactly once | 1 s | 1 lost, 2,000 repeated of 5,000; "
        "resumed after 50 s | 1,300 |"
    ) in lines
    assert lines[-1].endswith("; turns: 3 of 10 sentences.")


def test_a_contender_that_stalls_is_shown_and_the_others_go_on(tmp_path, monkeypatch):
    def take(one, _, workload, *_rest):
        if one is QUIX and workload.sentences == 100:
            raise TimeoutError("no mark")
        return {"events_per_s": 50.0, "events_per_cpu_s": 100.0, "peak_mib": 1300}

    monkeypatch.setattr("tests.bench.peers.comparison.take", take)
    sizes = [warm(10), warm(100)]
    *_, found = measured([QUIX, TRIVIAL], sizes, 1, 1, None, tmp_path, "")
    found["stalled"].append({"sentences": 10, "contender": "quix"})  # in another round
    record = tmp_path / "record.json"
    record.write_text(json.dumps(HEAD | found | {"kills": {}}))
    lines = peers_table(record).splitlines()
    assert lines[2] == "| Kafka Streams, reviews kept | 50 (100) | 50 (100) |"
    assert lines[3] == "| Quix Streams, reviews kept | 50 (100); 1 stalled | stalled |"
    assert lines[-3].endswith(" | - | 1,300 / - |")


def test_cold_entities_have_a_table_of_their_own(tmp_path: Path) -> None:
    figures = {"events_per_s": 1500.0, "events_per_cpu_s": 1400, "peak_mib": 1300, "load": 2.04}
    done = [
        {"round": 0, "sentences": 20, "entities": entities, "contender": name, **figures}
        for entities, name in ((10_000, "worker"), (200_000, "worker"), (10_000, "bytewax"))
    ]
    record = tmp_path / "record.json"
    assert "make bench-peers ONLY=cold" in cold_peers_table(record)
    again = {"entities": 200_000, "command": "python -m x --entities 200000"}
    told = {"rounds": 1, "rows": rows(done), "turns": done, "again": again}
    record.write_text(json.dumps(HEAD | told))
    lines = cold_peers_table(record).splitlines()
    assert lines[0] == (
        "| | 10,000 entities | peak memory, MiB | 200,000 entities | peak memory, MiB | "
        "bounds of memory |"
    )
    assert lines[2].startswith("| the worker | 1,500 (1,400) | 1,300 | 1,500 (1,400) | 1,300 | ")
    assert lines[3] == (
        "| Bytewax, reviews kept | 1,500 (1,400) | 1,300 | - | - | none: all state is in memory |"
    )
    assert "10,000 entities: 1, 200,000 entities: 1. Load before the turns: 2.0" in lines[-1]
    assert lines[-1].endswith("of 200,000 entities come from `python -m x --entities 200000`.")


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


def published_of(messages: list[Message]) -> dict[bytes | None, set[str]]:
    """By entity the ids of the sentences in its last message."""
    return {
        message.key: {one["sentence_id"] for one in json.loads(message.value or b"")["sentences"]}
        for message in messages
    }


def test_ranking_finds_the_nearest_whenever_it_publishes() -> None:
    events, entity = list(reviews(60, 1, 2)), Entity()
    for number, event in enumerate(events):
        entity.add(json.loads(event.value or b""))
        change = entity.change()
        (wanted,) = nearest(events[: number + 1]).values()
        if change is not None:
            last = [one["sentence_id"] for one in change["sentences"]]
            distances = [one["distance"] for one in change["sentences"]]
            assert distances == sorted(distances)
        assert set(last) == wanted


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
                check(one, events, read_topic(kafka.bootstrap_servers, site.output_topic))


@pytest.mark.kafka
@pytest.mark.peers
def test_peers_in_python_do_so_too_also_after_a_restart(tmp_path: Path) -> None:
    events = list(reviews(120, 3, 2))
    first, second = [*events[:60], *marks(events[:60], READY)], events[60:]
    second += marks([*first, *second], DONE)
    with KafkaBroker(tmp_path / "broker") as kafka:
        for one in (QUIX, QUIX_BRUTE, BYTEWAX, BYTEWAX_BRUTE, PATHWAY):
            with one.open(kafka, one.name, tmp_path / one.name, "") as site:
                worker = site.worker()
                for part, mark in ((first, READY), (second, DONE)):
                    send(kafka.bootstrap_servers, site.input_topic, part)
                    worker.start()
                    output = Output(site, worker, 3)
                    output.wait_for(mark)
                    worker.interrupt()
                    worker.wait()
                    found = output.messages()
                    output.close()
                check(one, [*first, *second], found)


def check(one: Contender, events: list[Sent], found: list[Message]) -> None:
    """What a contender has published of these events."""
    if one.keeps:
        ids = {(message.key, json.loads(message.value or b"")["review_id"]) for message in found}
        assert ids == {(event.key, json.loads(event.value or b"")["review_id"]) for event in events}
        assert len(found) == len(ids)
    else:
        assert published_of(found) == nearest(events)
        assert 30 < len(found) < len(events)
