"""The commit of a micro-batch against a real broker and a real group: all or nothing, and who is
refused.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.topics import committed_offsets, end_offsets, producer, read_topic
from worker.errors import Crash, InDoubt, Overtaken, SetupError
from worker.events import Message
from worker.kafka.clients import KafkaClients
from worker.kafka.group import Membership, check_group_metadata, group_metadata
from worker.kafka.offsets import InputLog, Start
from worker.kafka.producer import TransactionalProducer
from worker.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


def settings(broker: KafkaBroker, name: str, **more: Any) -> Settings:
    """A worker's in the group of that name."""
    return Settings(
        bootstrap_servers=broker.bootstrap_servers,
        app_id=name,
        commit_timeout_ms=20_000,
        max_message_bytes=900_000,
        **{"instance_id": "0", **more},
    )


class Site:
    """Topics and a group with one live member, as a worker has them."""

    def __init__(self, broker: KafkaBroker, name: str) -> None:
        self.name, self.broker, self.servers = name, broker, broker.bootstrap_servers
        self.config: dict[str, Any] = {"bootstrap.servers": self.servers, "log_level": 0}
        self.clients = KafkaClients(settings(broker, name))
        for topic in (self.input, self.output, self.changelog):
            broker.create_topic(topic, 2)
        self.member = Consumer({**self.config, "group.id": name, "auto.offset.reset": "earliest"})
        joined = threading.Event()
        self.member.subscribe([self.input], on_assign=lambda *_: joined.set())

        def is_member() -> bool:
            self.member.poll(0.1)
            return joined.is_set()

        eventually(is_member, lambda: "the group was not joined", every_s=0)

    input = property(lambda self: f"{self.name}.in")
    output = property(lambda self: f"{self.name}.out")
    changelog = property(lambda self: f"{self.name}.changelog")

    @property
    def membership(self) -> Membership:
        """The member's, as the broker knows it: a new group's first generation."""
        return Membership(1, self.member.memberid())

    def producer(
        self, transaction_timeout_ms: int = 10_000, instance: str = "0"
    ) -> TransactionalProducer:
        own = settings(
            self.broker,
            self.name,
            instance_id=instance,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        made = TransactionalProducer(own, self.clients)
        made.start()
        return made

    def commit(
        self,
        by: TransactionalProducer,
        offset: int,
        membership: Membership | None = None,
        value: bytes = b"v",
    ) -> dict[int, int]:
        messages = [
            Message(self.output, 0, b"k", value, [("h", b"%d" % offset)]),
            Message(self.output, 1, b"k2", None, []),
        ]
        rows = {0: {b"a": b"%d" % offset, b"b": None}, 1: {b"c": b"1"}}
        return by.commit(
            messages, self.changelog, rows, self.input, {0: offset}, membership or self.membership
        )

    def assert_nothing_is_visible(self) -> None:
        assert read_topic(self.servers, self.output) == []
        assert read_topic(self.servers, self.changelog) == []
        assert committed_offsets(self.servers, self.input, self.name)[0] < 0


@pytest.fixture
def site(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(kafka, "tx-" + "".join(c if c.isalnum() else "-" for c in request.node.name)[:100])
    yield made
    made.member.close()


def test_messages_rows_and_offsets_become_visible_together(site: Site) -> None:
    by = site.producer()
    last = site.commit(by, 7)
    written = [
        (m.partition, m.key, m.value, m.headers) for m in read_topic(site.servers, site.output)
    ]
    assert written == [(0, b"k", b"v", (("h", b"7"),)), (1, b"k2", None, ())]
    rows = read_topic(site.servers, site.changelog)
    assert [(m.partition, m.key, m.value) for m in rows] == [
        (0, b"a", b"7"),
        (0, b"b", None),
        (1, b"c", b"1"),
    ]
    assert last == {0: rows[1].offset, 1: rows[2].offset}
    assert committed_offsets(site.servers, site.input, site.name)[0] == 7
    assert site.commit(by, 8)[0] > last[0]  # the next one goes on in the same producer


@pytest.mark.parametrize("refused", one_of(["a message", "rows", "rows but the last"]))
def test_a_record_that_the_broker_refuses_fails_all(site: Site, refused: str) -> None:
    """Also where nobody asked for its delivery report: the client has failed the transaction,
    and says so at its next step.
    """
    small = f"{site.name}.small"
    site.broker.create_topic(small, 3, {"max.message.bytes": "2000"})
    large = random.Random(1).randbytes(5000)  # as large when it is compressed
    by = site.producer()
    message = Message(small if refused == "a message" else site.output, 0, b"k", large, [])
    rows: dict[int, dict[bytes, bytes | None]] = {
        "a message": {0: {b"a": b"1", b"b": b"2"}},
        "rows": {0: {b"a": large, b"b": large}},
        "rows but the last": {
            0: {b"a": b"1", b"b": b"2"},
            1: {b"c": large, b"d": b"1"},
            2: {b"e": b"1"},
        },
    }[refused]
    with pytest.raises(Crash, match="MSG_SIZE_TOO_LARGE"):
        by.commit(
            [message],
            site.changelog if refused == "a message" else small,
            rows,
            site.input,
            {0: 7},
            site.membership,
        )
    by.decide()
    site.assert_nothing_is_visible()
    assert read_topic(site.servers, small) == []
    assert site.commit(by, 8)


def test_the_group_metadata_of_a_joined_consumer_is_ours(site: Site) -> None:
    made = bytes(site.member.consumer_group_metadata())
    (generation,) = struct.unpack_from("<i", made, len(b"CGMDv2:"))
    assert generation >= 1
    assert made == group_metadata(site.name, Membership(generation, site.member.memberid()))
    check_group_metadata(site.clients, site.name, "0")


@pytest.mark.parametrize(
    "wrong", one_of(["generation before", "generation after", "another member"])
)
def test_a_zombies_commit_is_refused_and_nothing_of_it_is_visible(site: Site, wrong: str) -> None:
    """A worker that was paused past its session: its partitions are others', its generation is not
    current.
    """
    now = site.membership
    membership = {
        "generation before": Membership(now.generation - 1, now.member_id),
        "generation after": Membership(now.generation + 1, now.member_id),
        "another member": Membership(now.generation, "somebody-else"),
    }[wrong]
    zombie = site.producer()
    with pytest.raises(Overtaken):
        site.commit(zombie, 7, membership)
    zombie.decide()
    site.assert_nothing_is_visible()


def test_a_second_worker_with_the_same_transactional_id_leaves_the_first_in_doubt(
    site: Site,
) -> None:
    """Which of the two has to go is for the group to say."""
    first = site.producer()
    site.commit(first, 7)
    second = site.producer()
    with pytest.raises(InDoubt):
        site.commit(first, 8)
    site.commit(second, 9)
    assert committed_offsets(site.servers, site.input, site.name)[0] == 9
    assert [m.value for m in read_topic(site.servers, site.changelog) if m.key == b"a"] == [
        b"7",
        b"9",
    ]


def test_workers_with_ids_of_their_own_do_not_fence_each_other(site: Site) -> None:
    first, second = site.producer(), site.producer(instance="1")
    site.commit(first, 7)
    site.commit(second, 8)
    site.commit(first, 9)


class Slow:
    """A producer whose process is paused between flush and offsets."""

    def __init__(self, inner: Producer, seconds: float) -> None:
        self._inner, self._seconds = inner, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def flush(self, timeout: float) -> int:
        left = self._inner.flush(timeout)
        time.sleep(self._seconds)
        return left


def test_a_transaction_that_the_broker_gave_up_on_is_in_doubt_and_no_fencing(site: Site) -> None:
    """Exit code 4 would say that another worker has the id."""
    by = site.producer(transaction_timeout_ms=1000)
    by._transactions._producer = Slow(by._transactions._producer, 4.0)  # type: ignore[assignment]
    with pytest.raises(InDoubt):
        site.commit(by, 7)
    by.decide()
    site.assert_nothing_is_visible()
    site.commit(by, 7)


class Unheard:
    """A producer that never hears the answer to one step of a commit, which was sent or was not."""

    def __init__(self, inner: Producer, step: str, sent: bool) -> None:
        self._inner, self._step, self._sent = inner, step, sent

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        return partial(self._unheard, call) if name == self._step else call

    def _unheard(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._sent:
            call(*arguments)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.mark.parametrize(
    ("step", "sent", "happened"),
    one_of(
        [
            ("commit_transaction", True, True),
            ("commit_transaction", False, False),
            ("send_offsets_to_transaction", False, False),
            ("send_offsets_to_transaction", True, False),
        ]
    ),
)
def test_what_a_lost_answer_left_open_is_decided(
    site: Site, step: str, sent: bool, happened: bool
) -> None:
    by = site.producer()
    by._transactions._producer = Unheard(by._transactions._producer, step, sent)  # type: ignore[assignment]
    with pytest.raises(InDoubt):
        site.commit(by, 7)
    by.decide()
    if happened:
        assert committed_offsets(site.servers, site.input, site.name)[0] == 7
        assert len(read_topic(site.servers, site.changelog)) == 3
    else:
        site.assert_nothing_is_visible()
    site.commit(by, 8)
    assert committed_offsets(site.servers, site.input, site.name)[0] == 8


@pytest.mark.parametrize("step", one_of(["commit_transaction", "send_offsets_to_transaction"]))
def test_a_call_that_comes_late_does_nothing(site: Site, step: str) -> None:
    """It hung while a new client took over the id; the broker refuses it."""
    by = site.producer()
    hung = Late(by._transactions._producer, step)
    by._transactions._producer = hung  # type: ignore[assignment]
    with pytest.raises(InDoubt, match="takes longer"):
        site.commit(by, 7)
    by.decide()
    with pytest.raises(KafkaException):
        hung.go_on()
    site.assert_nothing_is_visible()
    site.commit(by, 8)
    assert committed_offsets(site.servers, site.input, site.name)[0] == 8


class Late:
    """A producer of which one step hangs until a test lets it go on."""

    def __init__(self, inner: Producer, step: str) -> None:
        self._inner, self._step = inner, step
        self._released = threading.Event()
        self._ended: Future[None] = Future()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        return partial(self._hang, call) if name == self._step else call

    def _hang(self, call: Callable[..., None], *arguments: Any) -> None:
        self._released.wait(PATIENCE_SECONDS)
        try:
            self._ended.set_result(call(*arguments))
        except KafkaException as refused:
            self._ended.set_exception(refused)

    def go_on(self) -> None:
        """Do at last what it was asked for; raises what that raises."""
        self._released.set()
        self._ended.result(PATIENCE_SECONDS)


def test_a_message_beyond_the_limit_ends_the_commit_and_nothing_is_visible(site: Site) -> None:
    with pytest.raises(Crash, match="MSG_SIZE_TOO_LARGE"):
        site.commit(site.producer(), 7, value=b"x" * 950_000)
    site.producer()
    site.assert_nothing_is_visible()


# -- the offsets a takeover begins with ------------------------------------------------------------


def starts(site: Site) -> dict[int, Start]:
    """What a successor would fetch."""
    return InputLog(site.clients, site.input, site.name).starts([0, 1])


def fill(site: Site, records: int) -> None:
    writer = producer(site.servers)
    for i in range(records):
        writer.produce(site.input, b"%d" % i, b"k", 0)
    assert writer.flush(PATIENCE_SECONDS) == 0


def test_a_takeover_waits_until_the_predecessors_transaction_is_decided(site: Site) -> None:
    """Offsets from before its commit, with rows from after it, would apply records twice."""
    fill(site, 20)
    predecessor = Producer({**site.config, "transactional.id": f"{site.name}-open"})
    predecessor.init_transactions(PATIENCE_SECONDS)
    predecessor.begin_transaction()
    predecessor.send_offsets_to_transaction(
        [TopicPartition(site.input, 0, 7)],
        group_metadata(site.name, site.membership),
        PATIENCE_SECONDS,
    )
    found: list[dict[int, Start]] = []
    takeover = threading.Thread(target=lambda: found.append(starts(site)), daemon=True)
    takeover.start()
    takeover.join(1.5)
    assert takeover.is_alive(), f"it did not wait: {found}"
    predecessor.commit_transaction(PATIENCE_SECONDS)
    takeover.join(PATIENCE_SECONDS)
    assert found == [{0: Start(7, True, 20), 1: Start(0, False, 0)}]


def test_an_offset_outside_the_log_is_refused(site: Site, kafka: KafkaBroker) -> None:
    fill(site, 20)
    site.commit(site.producer(), 21)
    with pytest.raises(SetupError, match=r"offset 21 of .* outside the log \[0, 20\]"):
        starts(site)
    site.commit(site.producer(), 5)
    admin = kafka.admin()
    for future in admin.delete_records([TopicPartition(site.input, 0, 6)]).values():
        future.result(PATIENCE_SECONDS)
    with pytest.raises(SetupError, match=r"offset 5 of .* outside the log \[6, 20\]"):
        starts(site)
    assert end_offsets(site.servers, site.input)[0] == 20
