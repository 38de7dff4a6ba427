"""The parts of a worker that Faust calls, as `worker.app.assemble` puts them together."""

from dataclasses import dataclass

from worker.kafka.changelog import Logs
from worker.kafka.contact import Contact
from worker.kafka.producer import TransactionalProducer
from worker.settings import Settings
from worker.stream.assignment import Assignment
from worker.stream.delivery import Delivery, SchemaSource
from worker.stream.feed import ChangeFeed
from worker.stream.group_fingerprint import GroupFingerprint
from worker.stream.journal import DeadLetterLog
from worker.stream.queries import EntityLister, ViewReader
from worker.stream.run_bounds import ENDLESS, RunBounds
from worker.stream.surroundings import Surroundings
from worker.stream.takeover import Takeover


@dataclass(frozen=True)
class StreamWorker:
    """A worker without Faust."""

    settings: Settings
    partitions: int  # of the input
    surroundings: Surroundings
    contact: Contact
    logs: Logs
    assignment: Assignment
    summaries: ViewReader
    entities: EntityLister
    producer: TransactionalProducer
    dead_letters: DeadLetterLog
    feed: ChangeFeed
    group: GroupFingerprint
    takeover: Takeover
    delivery: Delivery
    why_python: str  # why Python takes all events; empty if native code takes the usual ones
    bounds: RunBounds = ENDLESS
    with_headers: bool = False  # its mapping reads the headers of records
    schemas: SchemaSource | None = None  # from a registry, for Avro and JSON Schema
