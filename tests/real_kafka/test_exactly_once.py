"""Every change exactly once on a real Kafka, whatever happens to the workers meanwhile. The
verifier has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.damage import all_rows
from tests.harness.faults import Fault
from tests.harness.load import (
    CODECS,
    NoVectors,
    Sent,
    Stream,
    read_reviews,
    send,
)
from tests.harness.patience import TEST_SECONDS
from tests.harness.poison import poisons
from tests.harness.record import Recorder
from tests.harness.scenario import under_faults
from tests.harness.small_load import (
    DIMENSION,
    FACETS,
    LARGE_MESSAGES,
    SETTINGS,
    check,
    events,
    feed,
    good_review,
)
from tests.harness.topics import read_topic
from tests.harness.workers import Pipeline, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline of the test's own name, with facets."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")
    settings = SETTINGS | FACETS
    with pipeline(kafka, name, tmp_path, settings=settings, input_config=LARGE_MESSAGES) as made:
        yield made


def test_two_workers_and_every_fault(site: Pipeline) -> None:
    """Two kill -9, a pause longer than the session, a SIGTERM; all codecs in the input; summaries
    and facets.
    """
    load = events(800)
    faults = [
        Fault("worker killed", 0, 0.15, worker="one"),
        Fault("worker frozen", 9, 0.35, worker="two"),
        Fault("worker killed", 2, 0.60, worker="two"),
        Fault("worker stopped", 0, 0.80, worker="one"),
    ]
    options = {"rate": 60, "how": send, "chunk": 50, "codecs": CODECS}
    with Recorder().row("every fault") as row:
        under_faults(site, row, load, len(load), faults, **options)
    assert row.events == len(load)
    assert row.faults == len(faults)


def test_poison_is_one_dead_letter_each_and_the_partition_continues(site: Pipeline) -> None:
    bad = poisons(DIMENSION)
    load: list[Sent] = []
    for i, poison in enumerate(bad):
        load += [Sent(poison.key, poison.value), good_review(i)]
    site.start(1)
    feed(site, load)
    site.wait_caught_up()
    report = check(site)
    assert report["outcomes"]["applied"] == len(bad)
    assert report["changes"] >= 5
    letters = read_topic(site.broker.bootstrap_servers, site.dlq_topic)
    reasons = {
        (letter.key, letter.value): dict(letter.headers)["dlq.reason"].decode()
        for letter in letters
    }
    kept = {poison.name: poison.value for poison in bad if len(poison.value) < 1_000_000}
    for poison in bad:
        if poison.name in kept:
            assert (poison.name, reasons.get((poison.key, poison.value))) == (
                poison.name,
                poison.reason,
            )
    cut = [letter for letter in letters if "dlq.truncated_bytes" in dict(letter.headers)]
    assert len(cut) == len(bad) - len(kept)
    assert all(len(letter.value or b"") == 64 << 10 for letter in cut)


@pytest.mark.long
def test_other_settings(kafka: KafkaBroker, tmp_path: Path) -> None:
    """`make faults` has more of them, under faults."""
    more = {"COVERSUMM_EMIT": "coalesced", "COVERSUMM_WEIGH": "texts"}
    settings = SETTINGS | more | {"COVERSUMM_CACHE_BYTES": "20000"}
    with pipeline(kafka, "other-settings", tmp_path, partitions=2, settings=settings) as site:
        load = events(150)
        feed(site, load)
        site.start(1)
        site.wait_caught_up()
        report = check(site)
        assert report["records"] == len(load)
        assert report["published"] < report["changes"] + report["tombstones"]


@pytest.mark.long
def test_text_is_split_and_embedded_by_the_default_engine(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """The verifier embeds the same texts by itself, one by one: other batches, same bits."""
    settings = {**SETTINGS, "COVERSUMM_EMBEDDER": "onnx", "COVERSUMM_DIMENSION": ""}
    with pipeline(kafka, "text", tmp_path, partitions=2, settings=settings) as site:
        load = list(Stream(read_reviews(limit=80), NoVectors()))
        site.start(1)
        feed(site, load, codecs=["zstd"])
        site.wait_caught_up()
        assert check(site)["changes"] > 30


@pytest.mark.long
def test_a_standby_takes_over_without_a_restore(site: Pipeline) -> None:
    """Its copy is warm: after the takeover hardly a row comes from the changelog."""
    site.settings = {**SETTINGS, "COVERSUMM_STANDBY_REPLICAS": "1"}
    site.start(2)
    load = events(800)
    feed(site, load[:600], chunk=50, events_per_s=200)
    site.wait_caught_up()
    lost, left = site.workers
    lost.kill()
    feed(site, load[600:])
    site.wait_caught_up()
    left.wait_ready()
    assert left.restored_rows()[-1] < 100
    lost.start()
    assert check(site)["records"] == len(load)
    assert len(all_rows(left)) > 500
