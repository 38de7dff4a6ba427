"""The copies of partitions in a data directory: how old they are, and what they know of an entity.

A database stays on a worker when its partition moves to another one, and nothing in it says so. It
has the input offset that its rows end at; only a broker knows what the group has committed. If the
group has committed more for longer than a commit takes to reach the database, another worker did
it. Without a broker's answer the age of a copy is unknown.
"""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException, TopicCollection

from worker.errors import SetupError
from worker.kafka.clients import KafkaClients
from worker.kafka.offsets import committed_offsets
from worker.kafka.topics import changelog_topic, partition_of
from worker.settings import Settings
from worker.state.keys import header_key, review_of
from worker.state.snapshot import read_snapshots
from worker.storage.lock import is_running
from worker.storage.snapshot import StoredPartition, some_databases, stored_partition
from worker.stream.gate import CHANGELOG_ID_KEY

CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 5.0  # for each answer of a broker: a data directory must be readable without one
ARRIVES_SECONDS = 5.0  # seconds until a running worker, or a standby, has stored a commit
POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Copy:
    """A partition's rows in a data directory."""

    partition: int
    next_offset: int  # input offset that the rows end at; 0 without rows
    committed_offset: int | None  # of the group when the copy was read; None if no broker answered
    is_partial: bool = False  # whether a restore has not ended, so that rows may be missing

    @property
    def is_current(self) -> bool | None:
        """True if it is the group's state; None if that is unknown."""
        if self.is_partial:
            return False
        return None if self.committed_offset is None else self.committed_offset <= self.next_offset

    @property
    def words(self) -> str:
        """The age of the copy, for people."""
        as_of = f"as of offset {self.next_offset:,}"
        if self.is_partial:
            return f"{as_of}, a partial copy: its restore from the changelog has not ended"
        if self.is_current is None:
            return f"{as_of}; no broker answered, so the group may be further"
        if self.is_current:
            return f"{as_of}, all that the group has committed"
        group = f"the group is at {self.committed_offset:,}, another worker owns it now"
        return f"{as_of}, an old copy: {group}"


class GroupOffsets:
    """The committed offsets of the settings' group as of now; none if no broker answers."""

    def __init__(self, settings: Settings, partitions: list[int]) -> None:
        self._topic = settings.input_topic
        self._changelog_id = ""
        self._committed: dict[int, int] = {}
        if _is_reachable(settings.bootstrap_servers):
            with suppress(KafkaException, TimeoutError):  # no such group, or no answer in time
                self._fetch(settings, partitions)

    def _fetch(self, settings: Settings, partitions: list[int]) -> None:
        clients = KafkaClients(settings)
        changelog = changelog_topic(settings)
        admin = clients.admin()  # its answers fail once it is collected
        asked = admin.describe_topics(TopicCollection([changelog]), request_timeout=ANSWER_SECONDS)
        self._changelog_id = str(asked[changelog].result(ANSWER_SECONDS + 1).topic_id)
        with closing(clients.standalone_consumer(settings.app_id, "read_committed")) as consumer:
            found = committed_offsets(consumer, self._topic, partitions, ANSWER_SECONDS)
        self._committed = {partition: committed.offset for partition, committed in found.items()}

    def _offset(self, part: StoredPartition) -> int | None:
        """The group's offset; None if it is unknown, or the rows are of another changelog."""
        stored = part.rows.get(CHANGELOG_ID_KEY)
        if part.topic != self._topic or stored is None or stored.decode() != self._changelog_id:
            return None
        return self._committed.get(part.number)

    def copy_of(self, part: StoredPartition, path: Path) -> Copy:
        """The age of a partition's rows. Waits a little for a worker that stores a commit."""
        committed = self._offset(part)
        is_behind = committed is not None and part.next_offset < committed
        give_up = time.monotonic() + ARRIVES_SECONDS
        while is_behind and is_running(path.parents[2]) and time.monotonic() < give_up:
            time.sleep(POLL_SECONDS)
            with stored_partition(part.number, path) as later:
                if later is not None and committed is not None and later.next_offset >= committed:
                    # the copy was current when it was read
                    return Copy(part.number, part.next_offset, part.next_offset, part.is_partial)
        return Copy(part.number, part.next_offset, committed, part.is_partial)


def _is_reachable(servers: str) -> bool:
    """True if a broker accepts connections; librdkafka would wait for its whole timeout."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError):
            continue
        return True
    return False


def look_up(entity: str, settings: Settings) -> Iterator[tuple[Copy, list[StoredReview]]]:
    """The reviews of an entity by partition: one, unless producers mixed up its keys.

    Raises SetupError if no partition has rows, or if the entity is unknown here and may be known
    to another worker. Raises StateError for damaged rows.
    """
    data_dir = settings.data_dir
    databases = some_databases(data_dir)
    group = GroupOffsets(settings, list(databases))
    copies, count, is_found = [], 0, False
    for number, path in databases.items():
        with stored_partition(number, path) as part:
            if part is not None:
                count = part.partitions
                copies.append(group.copy_of(part, path))
                if found := stored_reviews(part, entity):
                    is_found = True
                    yield copies[-1], found
    if not copies:
        raise SetupError(
            f"the databases in {data_dir} (COVERSUMM_DATA_DIR) have no rows: their worker has "
            f"processed no event yet (partitions here: {_listed(databases)})"
        )
    if not is_found:
        _refuse_unknown(entity, data_dir, partition_of(entity, count), copies)


def _refuse_unknown(entity: str, data_dir: Path, number: int, copies: list[Copy]) -> None:
    """Raise SetupError unless there is a current copy of the entity's partition."""
    own = next((copy for copy in copies if copy.partition == number), None)
    if own is None:
        here = _listed(partition_copy.partition for partition_copy in copies)
        raise SetupError(
            f"partition {number}, where {entity!r} belongs, is not here (here: {here}): name "
            f"another worker's directory than {data_dir} (COVERSUMM_DATA_DIR)"
        )
    if own.is_current is False:
        raise SetupError(
            f"there is no entity {entity!r} in partition {number} {own.words}: name its owner's "
            "directory (COVERSUMM_DATA_DIR)"
        )


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, partitions))


@dataclass(frozen=True, slots=True)
class StoredReview:
    """A review's version and live sentences by id. A deleted review keeps its version only."""

    partition: int
    review_id: str
    version: int
    deleted: bool
    rating: float | None
    sentences: dict[str, str]


def stored_reviews(part: StoredPartition, entity_id: str) -> list[StoredReview]:
    """The reviews of an entity, by id; empty if it is unknown."""
    for snapshot in read_snapshots(part.rows, part.dimension, header_key(entity_id.encode())):
        if snapshot.header is None:
            continue
        texts: dict[bytes, dict[str, str]] = defaultdict(dict)
        for identifier, text in snapshot.texts.items():
            texts[review_of(identifier)][identifier.decode()] = text
        return [
            StoredReview(
                part.number,
                review_id.decode(),
                review.version,
                review.deleted,
                review.details.rating,
                texts[review_id],
            )
            for review_id, review in sorted(snapshot.reviews.items())
        ]
    return []
