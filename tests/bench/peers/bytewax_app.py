"""A Bytewax dataflow, as its documentation has stateful ones, with recovery switched on.

Each review is the state of a key of its own; with `PEER_MODE=brute` an entity is one, with its
matrix, and is ranked at each event. Bytewax snapshots the state of keys that had events into
SQLite, together with the offsets. Its Kafka sink is at least once: after a failure it publishes
again what came after the last snapshot. `PEER_SECONDS` are those between snapshots.
"""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

from tests.bench.peers.ranking import Entity, kept


def keep(_: dict[str, Any] | None, review: dict[str, Any]) -> Any:
    """The review as state, and the event."""
    return review, [(review["entity_id"], kept(review))]


def rank(entity: Entity | None, review: dict[str, Any]) -> Any:
    """The entity with this review as state, and its summary where it changed."""
    entity = entity or Entity()
    entity.add(review)
    change = entity.change()
    return entity, [] if change is None else [(review["entity_id"], change)]


def message(keyed: tuple[str, tuple[str, dict[str, Any]]]) -> Any:
    """What goes to Kafka."""
    entity, event = keyed[1]
    return KafkaSinkMessage(key=entity.encode(), value=json.dumps(event).encode())


def dataflow(environment: dict[str, str]) -> Dataflow:
    """The dataflow, by the environment of a worker."""
    brokers = [environment["KAFKA_BOOTSTRAP_SERVERS"]]
    brute = environment["PEER_MODE"] == "brute"
    flow = Dataflow("reviews")
    records = kafka.input(
        "records", flow, brokers=brokers, topics=[environment["COVERSUMM_INPUT_TOPIC"]]
    )
    reviews = op.map("reviews", records.oks, lambda record: json.loads(record.value))
    keyed = op.key_on(
        "keyed",
        reviews,
        lambda review: (
            review["entity_id"] if brute else f"{review['entity_id']}/{review['review_id']}"
        ),
    )
    events = op.stateful_flat_map("state", keyed, rank if brute else keep)
    kafka.output(
        "events",
        op.map("messages", events, message),
        brokers=brokers,
        topic=environment["COVERSUMM_OUTPUT_TOPIC"],
    )
    return flow


if __name__ == "__main__":
    given = dict(os.environ)
    folder = Path(given["COVERSUMM_DATA_DIR"])
    if not folder.exists():
        folder.mkdir(parents=True)
        init_db_dir(folder, 1)
    cli_main(
        dataflow(given),
        epoch_interval=timedelta(seconds=float(given["PEER_SECONDS"])),
        recovery_config=RecoveryConfig(str(folder)),
    )
