"""The long ones: `make faults`. Real vectors, larger loads, random faults by seed, a broker that dies; minutes each.

`--data FILE` (`make faults DATA=FILE`) takes the reviews of another file than the bundled sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.broker import KafkaBroker
from tests.kafka.chaos import Chaos, Fault, random_faults
from tests.kafka.load import (
    CODECS,
    SAMPLE,
    EngineVectors,
    HashedVectors,
    NoVectors,
    Review,
    Stream,
    Vectors,
    read_reviews,
    send,
    send_in_transactions,
)
from tests.kafka.soak import settings_for
from tests.kafka.workers import Pipeline, pipeline

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

EVERY_FAULT = [
    Fault(0.15, "kill", 0, seconds=1),
    Fault(0.35, "pause", 1, seconds=15),
    Fault(0.60, "kill", 1, seconds=2),
    Fault(0.80, "terminate", 0),
]


@pytest.fixture
def reviews(request: pytest.FixtureRequest) -> list[Review]:
    """All of the file's reviews."""
    return read_reviews(Path(request.config.getoption("--data") or SAMPLE))


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that may be killed."""
    with KafkaBroker(tmp_path / "broker") as broker:
        yield broker


def run(site: Pipeline, stream: Stream, faults: list[Fault], rate: float) -> Chaos:
    """Send the whole stream under faults to two workers, and check everything."""
    events = list(stream)
    site.start(2)
    chaos = Chaos(site, len(events), faults)
    send(
        site.broker.bootstrap_servers,
        site.input_topic,
        events,
        codecs=CODECS,
        chunk=50,
        events_per_s=rate,
        tick=chaos.tick,
    )
    settle(site, chaos, len(events))
    return chaos


def settle(site: Pipeline, chaos: Chaos, events: int) -> None:
    """After the load: everything is up, caught up, stopped in order, and right."""
    chaos.finish()
    site.wait_caught_up(300, restart=True)
    site.stop()
    assert site.verify()["records"] == events
    site.verify_state()
    assert sum(chaos.struck.values()) >= 3


def test_the_whole_file_with_real_vectors_and_every_fault(
    kafka: KafkaBroker, tmp_path: Path, reviews: list[Review]
) -> None:
    vectors = EngineVectors(reviews)
    with pipeline(kafka, "faults-vectors", tmp_path, settings=settings_for(vectors)) as site:
        run(site, Stream(reviews, vectors), EVERY_FAULT, rate=100)


def test_the_whole_file_as_text_and_every_fault(
    kafka: KafkaBroker, tmp_path: Path, reviews: list[Review]
) -> None:
    """The workers split and embed; the verifier embeds the same texts by itself."""
    vectors: Vectors = NoVectors()
    with pipeline(kafka, "faults-text", tmp_path, settings=settings_for(vectors)) as site:
        run(site, Stream(reviews[:2000], vectors), EVERY_FAULT, rate=30)


def test_transactional_input_with_aborts_and_every_fault(
    kafka: KafkaBroker, tmp_path: Path, reviews: list[Review]
) -> None:
    vectors = HashedVectors()
    with pipeline(kafka, "faults-transactions", tmp_path, settings=settings_for(vectors)) as site:
        events = list(Stream(reviews, vectors))
        site.start(2)
        chaos = Chaos(site, len(events), EVERY_FAULT)
        send_in_transactions(
            kafka.bootstrap_servers, site.input_topic, events, chunk=20, events_per_s=120, tick=chaos.tick
        )
        settle(site, chaos, len(events))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_faults(kafka: KafkaBroker, tmp_path: Path, reviews: list[Review], seed: int) -> None:
    """Also with standbys, and coalesced, by seed."""
    vectors = HashedVectors()
    settings = settings_for(vectors) | {
        "COVERSUMM_STANDBY_REPLICAS": str(seed % 2),
        "COVERSUMM_DISTINCT": str(seed == 2).lower(),
        "COVERSUMM_EMIT": "coalesced" if seed == 3 else "every",
    }
    with pipeline(kafka, f"faults-random-{seed}", tmp_path, partitions=8, settings=settings) as site:
        run(site, Stream(reviews, vectors, seed=seed), random_faults(8, 2, seed), rate=60)


@pytest.mark.parametrize("seconds", [5.0, 120.0])
def test_a_broker_killed_and_back(
    own_broker: KafkaBroker, tmp_path: Path, reviews: list[Review], seconds: float
) -> None:
    """Workers may crash and come back; nothing is lost or repeated."""
    vectors = HashedVectors()
    with pipeline(own_broker, "faults-broker", tmp_path, settings=settings_for(vectors)) as site:
        events = list(Stream(reviews[:2000], vectors))
        half = len(events) // 2
        site.start(2)
        send(own_broker.bootstrap_servers, site.input_topic, events[:half])
        own_broker.kill()
        site.restarted_codes.add(2)  # what a worker says that starts while there is no broker
        chaos = Chaos(site, 1, [])
        site.wait_while(seconds, chaos.tick)
        own_broker.start()
        send(own_broker.bootstrap_servers, site.input_topic, events[half:], tick=chaos.tick)
        site.wait_caught_up(300, restart=True)
        site.stop()
        assert site.verify()["records"] == len(events)
        site.verify_state()


def test_a_worker_added_and_removed_every_few_seconds(
    kafka: KafkaBroker, tmp_path: Path, reviews: list[Review]
) -> None:
    """Rebalance upon rebalance: one worker stays, the other comes and goes in order."""
    vectors = HashedVectors()
    with pipeline(kafka, "faults-rebalances", tmp_path, settings=settings_for(vectors)) as site:
        faults = [Fault(at / 12, "terminate", 1, seconds=2) for at in range(1, 11)]
        chaos = run(site, Stream(reviews, vectors), faults, rate=80)
        assert chaos.struck["terminate"] >= 8
