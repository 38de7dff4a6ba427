"""Who is compared: the worker with its settings as they come, and Kafka Streams with its own and
with the worker's session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from tests.bench.peers.application import Verdict, judge, streams_pipeline
from tests.harness.broker import Kafka
from tests.harness.load import HashedVectors, Sent, read_reviews, rounds
from tests.harness.pauses import APPENDED
from tests.harness.record import Row
from tests.harness.scenario import QUIET
from tests.harness.topics import read_topic
from tests.harness.workers import Pipeline, pipeline

PARTITIONS = 6
ENTITIES = 50
"""For each of the reviews' few entities so many: every partition has events all the time."""


def many_entities() -> Iterator[Sent]:
    """The load of all contenders: the reviews' stream without an end, without poison, over many
    entities.
    """
    reviews = [
        review._replace(entity_id=f"{review.entity_id}/{number % ENTITIES}")
        for number, review in enumerate(read_reviews())
    ]
    return rounds(reviews, HashedVectors(), mix=QUIET)


class Contender(NamedTuple):
    """`config`: properties of Kafka Streams over its defaults; None for the worker. `static`:
    instances are static members.
    """

    name: str
    config: Mapping[str, str] | None = None
    static: bool = False

    def open(
        self, kafka: Kafka, group: str, directory: Path, classpath: str, standbys: int
    ) -> AbstractContextManager[Pipeline]:
        """Its pipeline, with topics and nothing started."""
        shape = {"partitions": PARTITIONS, "input_config": APPENDED}
        if self.config is None:
            settings = {
                "COVERSUMM_DIMENSION": str(HashedVectors().dimension),
                "COVERSUMM_STANDBY_REPLICAS": str(standbys),
            }
            return pipeline(kafka, group, directory, settings=settings, **shape)
        config = {**self.config, "num.standby.replicas": str(standbys)}
        return streams_pipeline(kafka, group, directory, classpath, config, **shape)

    def start(self, site: Pipeline, instances: int) -> None:
        """Start the instances together; return when all are ready."""
        for number in range(instances):
            name = f"{site.name}-{number}"
            site.worker(name, **({"instance_id": name} if self.static else {})).start()
        for instance in site.workers:
            instance.wait_ready()

    def judge(self, site: Pipeline) -> Verdict:
        """What was lost, repeated or wrong of everything that ended instances were given."""
        if self.config is None:
            row = Row(site.name)
            row.judge(site.report())
            return Verdict(row.lost, row.repeated, row.wrong)
        bootstrap = site.broker.bootstrap_servers
        return judge(
            read_topic(bootstrap, site.input_topic), read_topic(bootstrap, site.output_topic)
        )


REPLICATED = {"replication.factor": "3"}
WORKER = Contender("worker")
STREAMS = Contender("streams", {**REPLICATED, "session.timeout.ms": "10000"}, static=True)
DEFAULTS = Contender("streams-defaults", REPLICATED)
CONTENDERS = {contender.name: contender for contender in (WORKER, STREAMS, DEFAULTS)}
