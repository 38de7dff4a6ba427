"""The peers do what the comparison takes them for, and the comparison counts right."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from tests.bench.kafka_streams.application import INSTALL, missing_tools
from tests.bench.peers.comparison import Output
from tests.bench.peers.contenders import (
    BRUTE,
    BYTEWAX,
    BYTEWAX_BRUTE,
    FAUST,
    PATHWAY,
    QUIX,
    QUIX_BRUTE,
    TRIVIAL,
    Contender,
    classes,
)
from tests.bench.peers.load import (
    DONE,
    READY,
    marks,
)
from tests.bench.peers.ranking import Entity, K
from tests.bench.worker.events import reviews
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.topics import Message, read_topic

pytestmark = pytest.mark.long

MISSING = missing_tools()


def message(key: bytes | None, value: bytes | None) -> Message:
    """One that a contender published."""
    return Message("out", 0, 0, 0, key, value, ())


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
