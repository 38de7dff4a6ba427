"""The application is what the comparison takes it for: exactly once, with its state, also after
`kill -9`.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.bench.kafka_streams.application import (
    INSTALL,
    POM,
    Verdict,
    compiled,
    judge,
    missing_tools,
    streams_pipeline,
)
from tests.harness import node
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.topics import Message, read_topic

pytestmark = pytest.mark.long

MISSING = missing_tools()
SESSION = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "1000"}


def count(entity: bytes, number: int) -> Message:
    return Message("counts", 0, 0, 0, entity, struct.pack(">q", number), ())


def test_counts_that_are_missing_again_or_out_of_order_are_told() -> None:
    sent = [Message("events", 0, 0, 0, entity, b"{}", ()) for entity in (b"a", b"a", b"a", b"b")]
    right = [count(b"a", 1), count(b"b", 1), count(b"a", 2), count(b"a", 3)]
    assert judge(sent, right) == Verdict(0, 0, 0)
    assert judge(sent, right[:-1]) == Verdict(1, 0, 0)
    assert judge(sent, [*right, right[-1]]) == Verdict(0, 1, 0)
    assert judge(sent, [right[2], *right[:2], right[3]]) == Verdict(0, 0, 1)
    assert judge(sent, [*right, count(b"a", 4)]) == Verdict(0, 0, 1)


def test_it_is_of_the_version_of_the_brokers() -> None:
    def version(pom: Path, artifact: str) -> str:
        found = re.search(
            rf"<artifactId>{artifact}</artifactId>\s*<version>([\d.]+)</version>", pom.read_text()
        )
        assert found is not None
        return found[1]

    assert version(POM, "kafka-streams") == version(node.POM, r"kafka_[\d.]+")
    assert version(POM, "slf4j-simple") == version(node.POM, "slf4j-simple")


@pytest.mark.kafka
@pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: {INSTALL}")
def test_each_event_is_counted_once_after_a_kill(tmp_path: Path) -> None:
    events = [Sent(f"entity-{number % 10}".encode(), b"{}") for number in range(500)]
    with (
        KafkaBroker(tmp_path / "broker") as kafka,
        streams_pipeline(
            kafka,
            "counted",
            tmp_path / "app",
            compiled(tmp_path / "classes"),
            SESSION,
            partitions=2,
        ) as site,
    ):
        killed, other = site.start(2)
        send(kafka.bootstrap_servers, site.input_topic, events)
        site.wait_caught_up()
        killed.kill()
        send(kafka.bootstrap_servers, site.input_topic, events)
        site.restart(killed)
        site.wait_caught_up()
        site.stop()
        assert [killed.exit_code, other.exit_code] == [0, 0]
        sent, published = (
            read_topic(kafka.bootstrap_servers, topic)
            for topic in (site.input_topic, site.output_topic)
        )
    assert len(sent) == 2 * len(events)
    assert judge(sent, published) == Verdict(0, 0, 0)
