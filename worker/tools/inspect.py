"""What the partitions in a data directory are copies of, and whether the group has gone on
elsewhere since.

A database stays where it is when its partition moves to another worker, and nothing in it says so.
What it says is the offset up to which it has the input; what the group has committed only a broker
knows. Where that is more than the copy has, for longer than a commit takes to arrive here, somebody
else did it. Without a broker's answer that stays unknown.
"""

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
from worker.state.view import Snapshot, read_snapshots
from worker.storage.lock import is_running
from worker.storage.snapshot import StoredPartition, some_databases, stored_partition
from worker.stream.gate import CHANGELOG_ID_KEY

CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 5.0
"""For each answer of a broker: looking into a data directory must not depend on one."""
ARRIVES_SECONDS = 5.0
"""In which a running worker's commit is in its database, too; a standby follows in as long."""
PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Copy:
    """A partition's rows in a data directory; `next_offset` is the source offset that they end at,
    0 where there are none.
    """

    partition: int
    next_offset: int
    committed_offset: int | None
    """Where the group was when the copy was looked at; None where no broker told."""
    is_partial: bool = False
    """Whether a restore of it has not ended, so that rows may be missing."""

    @property
    def is_current(self) -> bool | None:
        """Whether it is the group's state; None where that is not known."""
        if self.is_partial:
            return False
        return None if self.committed_offset is None else self.committed_offset <= self.next_offset

    @property
    def words(self) -> str:
        """As of when, and what that means."""
        if self.is_partial:
            return f"as of offset {self.next_offset:,}, a partial copy: its restore from the changelog has not ended"
        if self.is_current is None:
            return f"as of offset {self.next_offset:,}; no broker told whether the group is further"
        if self.is_current:
            return f"as of offset {self.next_offset:,}, where the group is"
        return f"as of offset {self.next_offset:,}, an old copy: the group is at {self.committed_offset:,}, owned elsewhere now"


class GroupOffsets:
    """What the settings' worker group has committed, asked once, at construction; nothing where no
    broker answers in time.
    """

    def __init__(self, settings: Settings, partitions: list[int]) -> None:
        self._topic = settings.input_topic
        self._changelog_id = ""
        self._committed: dict[int, int] = {}
        if _answers(settings.bootstrap_servers):
            # A broker without such a group, or one that does not answer in time, is as good as
            # none.
            with suppress(KafkaException, TimeoutError):
                self._ask(settings, partitions)

    def _ask(self, settings: Settings, partitions: list[int]) -> None:
        clients = KafkaClients(settings)
        changelog = changelog_topic(settings)
        admin = clients.admin()  # its answers fail once it is collected
        asked = admin.describe_topics(TopicCollection([changelog]), request_timeout=ANSWER_SECONDS)
        self._changelog_id = str(asked[changelog].result(ANSWER_SECONDS + 1).topic_id)
        with closing(clients.standalone_consumer(settings.app_id, "read_committed")) as consumer:
            found = committed_offsets(consumer, self._topic, partitions, ANSWER_SECONDS)
        self._committed = {partition: one.offset for partition, one in found.items()}

    def committed(self, part: StoredPartition) -> int | None:
        """How far it is in the partition; None where that is not known, or the rows are not from
        its changelog.
        """
        stored = part.rows.get(CHANGELOG_ID_KEY)
        if part.topic != self._topic or stored is None or stored.decode() != self._changelog_id:
            return None
        return self._committed.get(part.number)


def copy_of(part: StoredPartition, path: Path, group: GroupOffsets) -> Copy:
    """As of when the partition's rows are. Waits a little where a running worker may just be about
    to store a commit.
    """
    committed = group.committed(part)
    behind = committed is not None and part.next_offset < committed
    give_up = time.monotonic() + ARRIVES_SECONDS
    while behind and is_running(path.parents[2]) and time.monotonic() < give_up:
        time.sleep(PAUSE_SECONDS)
        with stored_partition(part.number, path) as later:
            if later is not None and committed is not None and later.next_offset >= committed:
                # it was, a moment before the look
                return Copy(part.number, part.next_offset, part.next_offset, part.is_partial)
    return Copy(part.number, part.next_offset, committed, part.is_partial)


def stored_copies(settings: Settings, data_dir: Path) -> Iterator[tuple[StoredPartition, Copy]]:
    """Each partition of a data directory that has rows. Raises SetupError where none has,
    StateError as they are read.
    """
    databases = some_databases(data_dir)
    group = GroupOffsets(settings, list(databases))
    has_rows = False
    for number, path in databases.items():
        with stored_partition(number, path) as part:
            if part is not None:
                has_rows = True
                yield part, copy_of(part, path, group)
    if not has_rows:
        raise SetupError(
            f"the databases in {data_dir} (COVERSUMM_DATA_DIR) have no rows: their worker has processed no event yet "
            f"(partitions here: {_listed(databases)})"
        )


def refuse_elsewhere(entity: str, data_dir: Path, partitions: int, copies: list[Copy]) -> None:
    """Raise SetupError where an entity that was not found may well be in a partition that is
    not here, or is further.

    `partitions` is the input topic's count, `copies` what was looked at.
    """
    number = partition_of(entity, partitions)
    own = next((copy for copy in copies if copy.partition == number), None)
    if own is None:
        raise SetupError(
            f"partition {number}, where {entity!r} belongs, is not here (here: {_listed(one.partition for one in copies)}): name "
            f"another worker's directory than {data_dir} (--data-dir, COVERSUMM_DATA_DIR), or ask a running worker (--url)"
        )
    if own.is_current is False:
        raise SetupError(
            f"there is no entity {entity!r} in partition {number} {own.words}: name its owner's directory (--data-dir, "
            "COVERSUMM_DATA_DIR), or ask a running worker (--url)"
        )


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, partitions))


def _answers(servers: str) -> bool:
    """Whether anybody listens there: librdkafka would wait for its whole timeout where
    nobody does.
    """
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError):
            continue
        return True
    return False


@dataclass(frozen=True, slots=True)
class StoredReview:
    """A review's version and live sentences by id; a deleted one has none, its version is still
    what edits must beat.
    """

    partition: int
    review_id: str
    version: int
    deleted: bool
    rating: float | None
    sentences: dict[str, str]


def stored_reviews(part: StoredPartition, entity_id: str) -> list[StoredReview]:
    """All that are known of the entity, by id; empty where it is unknown."""
    for snapshot in read_snapshots(part.rows, part.dimension, header_key(entity_id.encode())):
        if snapshot.header is not None:
            return _reviews(part.number, snapshot)
    return []


def _reviews(partition: int, snapshot: Snapshot) -> list[StoredReview]:
    texts: dict[bytes, dict[str, str]] = defaultdict(dict)
    for identifier, text in snapshot.texts.items():
        texts[review_of(identifier)][identifier.decode()] = text
    return [
        StoredReview(
            partition,
            review_id.decode(),
            review.version,
            review.deleted,
            review.rating,
            texts[review_id],
        )
        for review_id, review in sorted(snapshot.reviews.items())
    ]
