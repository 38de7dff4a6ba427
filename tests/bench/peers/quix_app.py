"""A Quix Streams application, as its documentation has stateful ones, with its exactly-once
processing guarantee.

It keeps each review as a row of its state: RocksDB, whose changes go to a changelog topic in the
same transaction. `PEER_MODE=brute` also ranks the entity's sentences at each event. Their matrix is
in memory only, `PEER_CACHE_MIB` of them: it is read from the state's rows at an event of an entity
that is not there. `PEER_SECONDS` are those between commits.
"""

import os
from collections import OrderedDict
from typing import Any

from quixstreams import Application, State

from tests.bench.peers.ranking import Entity, kept

_CACHE_BYTES = int(os.environ["PEER_CACHE_MIB"]) << 20


class Cache:
    """Entities in memory; the least recently used leave."""

    def __init__(self) -> None:
        self._entities: OrderedDict[str, Entity] = OrderedDict()
        self._bytes = 0

    def take(self, name: str) -> Entity | None:
        """The entity, no longer in the cache; None where it was not there."""
        entity = self._entities.pop(name, None)
        self._bytes -= entity.memory_bytes if entity is not None else 0
        return entity

    def put(self, name: str, entity: Entity) -> None:
        """Keep the entity, and as many others as there is room for."""
        self._entities[name] = entity
        self._bytes += entity.memory_bytes
        while self._bytes > _CACHE_BYTES:
            self._bytes -= self._entities.popitem(last=False)[1].memory_bytes


_cache = Cache()


def keep(review: dict[str, Any], state: State) -> dict[str, Any]:
    """Keep the review."""
    state.set(review["review_id"], review)
    return kept(review)


def rank(review: dict[str, Any], state: State) -> dict[str, Any] | None:
    """Keep the review; the entity's summary where it changed."""
    count: int = state.get("reviews", 0)
    entity = _cache.take(review["entity_id"])
    if entity is None or entity.reviews != count:  # not in memory, or from before a rebalance
        entity = restored(count, state)
    state.set(f"review {count}", review)
    state.set("reviews", count + 1)
    entity.add(review)
    change = entity.change()
    _cache.put(review["entity_id"], entity)
    if change is not None:
        state.set("published", entity.published)
    return change


def restored(count: int, state: State) -> Entity:
    """An entity from its rows."""
    entity = Entity(state.get("published"))
    for number in range(count):
        entity.add(state.get(f"review {number}"))
    return entity


def main(environment: dict[str, str]) -> None:
    """Run until the process is told to end."""
    app = Application(
        broker_address=environment["KAFKA_BOOTSTRAP_SERVERS"],
        consumer_group=environment["COVERSUMM_APP_ID"],
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=float(environment["PEER_SECONDS"]),
        state_dir=environment["COVERSUMM_DATA_DIR"],
        loglevel="WARNING",
    )
    source = app.topic(environment["COVERSUMM_INPUT_TOPIC"], value_deserializer="json")
    target = app.topic(environment["COVERSUMM_OUTPUT_TOPIC"], value_serializer="json")
    reviews = app.dataframe(source)
    if environment["PEER_MODE"] == "brute":
        changes = reviews.apply(rank, stateful=True)
        changes.filter(lambda change: change is not None).to_topic(target)
    else:
        reviews.apply(keep, stateful=True).to_topic(target)
    app.run()


if __name__ == "__main__":
    main(dict(os.environ))
