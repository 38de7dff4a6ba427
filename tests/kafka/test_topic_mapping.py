"""The input topic's mapping, and records in the wrong partition."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.debezium import MOVING, TOPIC, change, key, row, written
from tests.harness.limits import event_limits
from worker.errors import FileErrors, SetupError
from worker.events import Record, Rejected, ReviewDeleted, ReviewUpserted, decode
from worker.kafka import topic_mapping
from worker.kafka.topics import partition_of
from worker.mapping import TopicMapping
from worker.parts import Parts
from worker.settings import Settings

PARTITIONS = 6


def settings(tmp_path: Path, topic: str = TOPIC) -> Settings:
    return Settings(
        input_topic=topic, mapping=written(tmp_path), data_dir=tmp_path, embedder="onnx"
    )


def mapping_of(settings: Settings, partitions: int) -> TopicMapping | None:
    """As a processor of an input with so many partitions has it."""
    return Parts(settings, mapping=topic_mapping.mapping_of(settings)).config(partitions).mapping


def test_only_the_partition_of_the_entity_is_accepted(tmp_path: Path) -> None:
    mapping = mapping_of(settings(tmp_path), PARTITIONS)
    assert mapping is not None
    review = row(5, 3)
    right = partition_of("3", PARTITIONS)
    for partition in range(PARTITIONS):
        record = Record(TOPIC, partition, 0, 0, key(review), change("c", review, 1))
        (found,) = decode([record], event_limits(), mapping=mapping)
        if partition == right:
            assert isinstance(found, ReviewUpserted)
            continue
        assert isinstance(found, Rejected)
        assert found.reason == "key_mismatch"
        assert f"'3' belongs to partition {right} and the record is in {partition}" in found.detail
        assert f"bridge --mapping {tmp_path}/mapping.toml --from {TOPIC}`" in found.detail
        assert found.detail.startswith("rule 'published': ")


def test_a_topic_that_the_file_does_not_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r'no \[topic."other"\].*only shop.public.reviews: add it'):
        topic_mapping.mapping_of(settings(tmp_path, "other"))


def test_all_entities_of_a_record_must_be_of_its_partition(tmp_path: Path) -> None:
    several = replace(settings(tmp_path), mapping=written(tmp_path, MOVING))
    before, after = row(5, 3, sentences=["Good."]), row(5, 4, sentences=["Good."])
    record = Record(TOPIC, 0, 0, 0, key(after), change("u", after, 2, before=before))
    alone = record._replace(partition=partition_of("3", PARTITIONS))
    assert partition_of("4", PARTITIONS) != alone.partition
    (found,) = decode([record], event_limits(), mapping=mapping_of(several, 1))
    assert isinstance(found, list)
    assert [type(event) for event in found] == [ReviewDeleted, ReviewUpserted]
    (refused,) = decode([alone], event_limits(), mapping=mapping_of(several, PARTITIONS))
    assert isinstance(refused, Rejected)
    assert refused.reason == "key_mismatch"
    assert refused.detail.startswith("rule 'moved': event 2 (entity_id '4'): entity_id '4' belongs")


def test_without_a_file_there_is_no_mapping(tmp_path: Path) -> None:
    assert topic_mapping.mapping_of(replace(settings(tmp_path), mapping=None)) is None
    with pytest.raises(FileErrors):
        topic_mapping.mapping_of(replace(settings(tmp_path), mapping=tmp_path / "none"))
