"""A tree in place of the flat index, on a real Kafka: over a data directory that the other one
left, and killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.load import HashedVectors, Stream, read_reviews, send
from tests.harness.patience import TEST_SECONDS
from tests.harness.workers import pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

SETTINGS = {"COVERSUMM_DIMENSION": "16", "COVERSUMM_K": "5", "COVERSUMM_CACHE_BYTES": "200KiB"}


@pytest.mark.long
def test_another_index_takes_over(kafka: KafkaBroker, tmp_path: Path) -> None:
    """flat, then sgtree on its data, then flat again; the verifier recomputes every summary by
    brute force.
    """
    load = list(Stream(read_reviews(limit=450, seed=3), HashedVectors(16), seed=3))
    third = len(load) // 3
    with pipeline(kafka, "indexes", tmp_path, partitions=2, settings=SETTINGS) as site:
        (worker,) = site.start(1)
        for index, at in (("flat", 0), ("sgtree", third), ("flat", 2 * third)):
            if worker.environment.get("COVERSUMM_INDEX", "flat") != index:
                worker.terminate()
                worker.environment["COVERSUMM_INDEX"] = index
                worker.start().wait_ready()
            part = load[at : at + third] if at < 2 * third else load[at:]
            send(site.broker.bootstrap_servers, site.input_topic, part)
            if index == "sgtree":
                worker.kill()
                worker.start().wait_ready()
            site.wait_caught_up()
        site.stop()
        report = site.verify()
        site.verify_state()
        assert report["records"] == len(load)
        assert report["changes"] > 100
