"""A bridge's rules, on a group and a log in memory: each record once, after a failure between any
two steps (on a real broker: tests/real_kafka/test_bridge.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition

from tests.harness.debezium import deletions
from tests.harness.fake_admin import SETTINGS, FakeAdmin
from tests.harness.fake_clients import FakeClients, fake_message
from tests.harness.fake_producer import FakeProducer
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from worker import bridge as module
from worker.bridge import Bridge, Bridges, bridge_settings, settings_of_sources
from worker.cli.bridge import serve
from worker.errors import Crash, Fenced, SetupError
from worker.kafka.topics import partition_of
from worker.telemetry.metrics import Metrics

SOURCE = "shop"


def fetched(partition: int, offset: int, error: KafkaError | None = None) -> Any:
    """A record as librdkafka hands it out, or an error."""
    row = {"product": "B00X", "id": f"{partition}:{offset}"}
    value = json.dumps(row | ({"name": "\ud83d"} if partition else {})).encode()
    return fake_message(
        topic=SOURCE, partition=partition, offset=offset, timestamp=(1, 0), key=b"row",
        value=value, error=error, headers=None,
    )  # fmt: skip


class Group:
    """A source topic with its group, and the consumer of one member. `during` has what happens
    inside the next calls of `consume`, after the records were fetched.
    """

    def __init__(self, ends: Mapping[int, int]) -> None:
        self.ends = dict(ends)
        self.starts = dict.fromkeys(ends, 0)
        self.offsets: dict[int, int] = {}
        self.notes: dict[int, str] = {}
        self.positions: dict[int, int] = {}
        self.generation = 0
        self.during: list[Callable[[], Iterable[Any] | None]] = []
        self.closed = False
        self._on_assign: Any = None
        self._on_revoke: Any = None

    def join(self) -> None:
        """All partitions are given to the member."""
        self.generation += 1
        self._on_assign(self, [TopicPartition(SOURCE, partition) for partition in self.ends])

    def lose(self) -> None:
        """They are taken from it."""
        self._on_revoke(self, [TopicPartition(SOURCE, partition) for partition in self.positions])
        self.positions = {}

    def subscribe(self, _topics: list[str], on_assign: Any, on_revoke: Any) -> None:
        self._on_assign, self._on_revoke = on_assign, on_revoke

    def consume(self, _number: int, _seconds: float) -> list[Any]:
        found = []
        for partition, position in self.positions.items():
            end = min(position + 2, self.ends[partition])
            found += [fetched(partition, offset) for offset in range(position, end)]
            self.positions[partition] = end
        if self.during:
            found += self.during.pop(0)() or ()
        return found

    def assign(self, places: list[TopicPartition]) -> None:
        self.positions = {place.partition: place.offset for place in places}

    def committed(self, places: list[TopicPartition], _seconds: float) -> list[TopicPartition]:
        found = []
        for partition in places:
            note, offset = (
                self.notes.get(partition.partition, ""),
                self.offsets.get(partition.partition),
            )
            offset = OFFSET_INVALID if offset is None else offset
            found.append(TopicPartition(SOURCE, partition.partition, offset, metadata=note))
        return found

    def get_watermark_offsets(
        self, place: TopicPartition, _seconds: float = 0, cached: bool = False
    ) -> tuple[int, int]:
        return self.starts[place.partition], self.ends[place.partition]

    def consumer_group_metadata(self) -> int:
        return self.generation

    def list_topics(self, _topic: str, timeout: float) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Target(FakeProducer):
    """A producer whose transactions become visible with the group's offsets, or not at all."""

    def __init__(self, config: Mapping[str, Any], group: Group) -> None:
        super().__init__(config)
        self._group = group
        self.visible: list[tuple[Any, ...]] = []
        self.next_failures: list[dict[str, KafkaError]] = []

    def begin_transaction(self) -> None:
        super().begin_transaction()
        self.produced = []
        self.failures = self.next_failures.pop(0) if self.next_failures else {}

    def commit_transaction(self, timeout: float) -> None:
        super().commit_transaction(timeout)
        assert self.metadata == self._group.generation
        self.visible += self.produced
        self._group.offsets |= {partition: offset for _, partition, offset in self.offsets}
        self._group.notes |= self.notes


class Site:
    """A bridge over a group of two partitions with three records each."""

    def __init__(self, folder: Path, ends: Mapping[int, int]) -> None:
        (folder / "mapping.toml").write_text(deletions(SOURCE))
        self.group = Group(ends)
        self.admin = FakeAdmin(shop=2, reviews=5)
        self._folder = folder
        self._start()

    def _start(self) -> None:
        settings = replace(SETTINGS, data_dir=self._folder)
        self.targets: list[Target] = []
        self.clients = FakeClients(
            consumer=lambda: self.group, producer=self._producer, admin=lambda: self.admin
        )
        self.metrics = Metrics()
        own = bridge_settings(settings, SOURCE, self._folder / "mapping.toml")
        self.bridge = Bridge(own, self.clients, self.metrics)
        self.target = self.targets[-1]
        self.group.during = [self.group.join]

    def _producer(self, config: Mapping[str, Any]) -> Target:
        self.targets.append(Target(config, self.group))
        return self.targets[-1]

    def restarted(self) -> Site:
        """The same group and topics with another process."""
        self._start()
        return self

    def run(self) -> None:
        """Until all is read, or for 50 rounds."""
        rounds = iter(range(50))
        self.bridge.run(lambda: self.group.offsets == self.group.ends or next(rounds, None) is None)

    def seen(self) -> dict[int, list[int]]:
        """By source partition the offsets of the visible events, in order."""
        found: dict[int, list[int]] = {partition: [] for partition in self.group.ends}
        for topic, partition, key, value, _ in self.target.visible:
            assert (topic, partition, key) == ("reviews", partition_of("B00X", 5), b"B00X")
            source, _, offset = json.loads(value)["review_id"].partition(":")
            found[int(source)].append(int(offset))
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, {0: 5, 1: 3})


ALL = {0: [0, 1, 2, 3, 4], 1: [0, 1, 2]}


def error(code: int) -> KafkaError:
    return KafkaError(code)


def test_each_record_once_in_order(site: Site) -> None:
    site.run()
    assert site.seen() == ALL
    assert site.group.offsets == site.group.ends
    assert site.target.calls[0] == "init"
    assert site.group.closed
    assert site.admin.partitions["shop.dlq"] == 2
    assert site.target.config["transactional.id"].startswith("app-bridge-shop-")
    page = site.metrics.page(site.bridge)
    assert b'coversumm_events_total{outcome="applied",type="review.deleted"} 8.0' in page
    assert b"coversumm_lone_surrogates_total 3.0" in page


def test_it_reads_what_is_committed_and_resets_no_offset(site: Site) -> None:
    (asked,) = site.clients.asked
    assert (asked.group, asked.isolation) == ("app-bridge-shop", "read_committed")
    assert asked.options["auto.offset.reset"] == "error"


def test_a_takeover_begins_at_the_committed_offsets_else_at_the_logs_start(site: Site) -> None:
    site.group.offsets, site.group.starts[1] = {0: 2}, 1
    site.run()
    assert site.seen() == {0: [2, 3, 4], 1: [1, 2]}


def test_what_was_fetched_during_a_rebalance_is_read_again(site: Site) -> None:
    """An operator set the offset back: behind it, nothing of before the rebalance may count."""

    def rebalance() -> None:
        site.group.lose()
        site.group.offsets[0] = 1
        site.group.join()

    site.group.during = [site.group.join, lambda: None, rebalance]
    site.run()
    assert site.seen() == {0: [0, 1, 1, 2, 3, 4], 1: [0, 1, 2]}


def test_a_record_that_arrives_twice_counts_once(site: Site) -> None:
    again = [fetched(0, 1), fetched(1, 0)]
    site.group.during = [site.group.join, lambda: None, lambda: again]
    site.run()
    assert site.seen() == ALL


def test_records_of_a_partition_that_was_taken_away_do_not_count(site: Site) -> None:
    site.group.during = [site.group.join, site.group.lose, lambda: [fetched(0, 0)]]
    site.run()
    assert site.seen() == {0: [], 1: []}
    assert site.bridge.ready() == (False, "waiting for the group")


@pytest.mark.parametrize("step", ["offsets", "commit"])
def test_a_batch_that_the_group_refused_is_read_again(site: Site, step: str) -> None:
    """Also without a rebalance that this member sees."""
    site.target.next_failures = [{}, {step: error(KafkaError.ILLEGAL_GENERATION)}]
    site.run()
    assert "abort" in site.target.calls
    assert site.seen() == ALL


def test_a_commit_names_the_membership_of_its_assignment(site: Site) -> None:
    """The group goes on to a generation that this member does not know yet."""

    def overtaken() -> None:
        site.group.generation += 1

    site.group.during = [site.group.join, overtaken]
    with pytest.raises(AssertionError):  # the broker's: of another generation
        site.run()
    assert site.target.metadata == 1
    assert site.seen() == {0: [], 1: []}


@pytest.mark.parametrize("step", ["produce", "flush", "offsets", "commit"])
def test_a_commit_that_fails_ends_the_process(site: Site, step: str) -> None:
    site.target.next_failures = [{step: error(KafkaError.TOPIC_AUTHORIZATION_FAILED)}]
    with pytest.raises(Crash, match="a commit of shop failed"):
        site.run()
    assert site.seen() == {0: [], 1: []}
    assert site.group.closed


def test_a_commit_without_an_answer_ends_the_process(site: Site) -> None:
    """It may have happened: the next start decides it, and reads the offsets after that."""
    site.target.unsent = 1
    with pytest.raises(Crash, match="not answered in time"):
        site.run()


def test_of_two_with_one_instance_id_the_first_ends(site: Site) -> None:
    site.target.next_failures = [{"offsets": error(KafkaError.PRODUCER_FENCED)}]
    with pytest.raises(Fenced, match="COVERSUMM_INSTANCE_ID"):
        site.run()


def test_an_offset_outside_the_log_ends_it(site: Site) -> None:
    lost = fetched(0, -1, error(KafkaError._AUTO_OFFSET_RESET))
    away = fetched(0, -1, error(KafkaError._TRANSPORT))
    site.group.during = [site.group.join, lambda: [away], lambda: [lost]]
    with pytest.raises(SetupError, match=r"the offset 2 of shop \[0\].*is outside the log"):
        site.run()
    assert site.seen() == {0: [0, 1], 1: [0, 1]}


@pytest.mark.parametrize(
    ("path", "host", "status", "words"),
    [
        ("/healthz", "localhost", 200, '{"alive": true}'),
        ("/readyz", "[::1]:8080", 503, "waiting for the group"),
        ("/metrics", "bridge.example", 200, "coversumm_ready 0.0"),
        ("/entities", "localhost", 404, "there are /healthz"),
        ("/metrics", "evil.example", 421, "COVERSUMM_WEB_ALLOWED_HOSTS"),
    ],
)
def test_its_web_server_has_the_rules_of_the_workers(
    site: Site, path: str, host: str, status: int, words: str
) -> None:
    settings = replace(SETTINGS, web_port=free_port(), web_allowed_hosts="bridge.example")
    serve(settings, site.bridge, site.metrics)
    with pytest.raises(SetupError, match="COVERSUMM_WEB_PORT"):
        serve(settings, site.bridge, site.metrics)
    connection = HTTPConnection("127.0.0.1", settings.web_port, timeout=PATIENCE_SECONDS)
    with closing(connection):
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        assert (answer.status, words in answer.read().decode()) == (status, True)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, "the group app-bridge-shop has clients that are"),
        (KafkaError.INVALID_SESSION_TIMEOUT, "refuses COVERSUMM_SESSION_TIMEOUT_MS=10000"),
    ],
)
def test_a_group_that_refuses_it_says_what_to_do(site: Site, code: int, words: str) -> None:
    site.group.during = [lambda: [fetched(0, -1, error(code))]]
    with pytest.raises(SetupError, match=words):
        site.run()


def test_a_client_that_is_no_bridge_ends_it_at_the_assignment(site: Site) -> None:
    """Kafka gives it partitions as it does another bridge, which passes."""

    def joined(client: str) -> None:
        site.admin.members.append(client)
        site.group.lose()
        site.group.join()

    joining = [lambda: joined("app-bridge-shop-pod-1"), lambda: joined("rdkafka")]
    site.group.during = [site.group.join, joining[0], lambda: None, joining[1]]
    with pytest.raises(
        SetupError, match=r"app-bridge-shop has clients .*\(rdkafka at 10\.0\.0\.7\)"
    ):
        site.run()
    assert site.group.offsets == {0: 2, 1: 2}


def test_an_offset_that_no_bridge_committed_is_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.group.offsets, site.group.notes = {0: 2, 1: 1}, {0: "topics shop reviews reviews"}
    site.run()
    (line,) = [line.message for line in caplog.records if line.levelname == "WARNING"]
    assert line.startswith("no bridge has committed the offset 1 of shop [1]")


@pytest.mark.parametrize("others", [{}, {"shop_dlq": 9}])
@pytest.mark.parametrize("running", [False, True])
def test_dead_letters_follow_a_source_that_got_more_partitions(
    site: Site, running: bool, others: dict[str, int]
) -> None:
    def grown() -> None:
        site.group.ends[2] = site.admin.partitions["shop"] = 3
        site.group.starts[2] = 0
        site.admin.others = {name.replace("_", "."): count for name, count in others.items()}

    if running:
        site.group.during += [lambda: None, grown, site.group.lose, site.group.join]
    else:
        grown()
        site = site.restarted()
    site.run()
    assert site.seen() == {**ALL, 2: [0, 1, 2]}
    assert site.admin.partitions["shop.dlq"] == max([3, *others.values()])
    assert site.bridge.partitions() == (3, 3)


def test_dead_letters_that_may_not_follow_are_named(site: Site) -> None:
    site.admin.partitions["shop"] = 3
    site.admin.refusal = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(SetupError, match=r"shop\.dlq has 2 partitions and needs 3"):
        site.restarted()


@pytest.mark.parametrize("topic", ["reviews", "shop.dlq"])
def test_a_topic_that_refuses_the_largest_message_is_refused(site: Site, topic: str) -> None:
    site.admin.largest[topic] = 999_999
    with pytest.raises(SetupError, match=f"{topic} has max.message.bytes=999999"):
        site.restarted()


@pytest.mark.parametrize("topic", ["shop", "reviews"])
def test_a_topic_that_was_created_again_is_refused(site: Site, topic: str) -> None:
    """At the next commit, and at the next start, until an operator has set the offsets."""
    again = f"{topic} was deleted and created again while the worker used it"

    def recreated() -> None:
        site.admin.ids[topic] = "another"

    site.group.during = [site.group.join, lambda: None, recreated]
    with pytest.raises(Crash, match=again):
        site.run()
    assert site.group.offsets == {0: 2, 1: 2}
    site = site.restarted()
    with pytest.raises(SetupError, match=f"to offset 2 when {topic} had the id {topic}, and now"):
        site.run()
    assert "begin" not in site.target.calls
    site = site.restarted()
    site.group.notes = {}
    site.run()
    assert site.group.offsets == site.group.ends


def test_another_target_is_the_operators_decision(site: Site) -> None:
    site.group.offsets, site.group.notes = {0: 2}, {0: "topics shop old other-reviews"}
    site.run()
    assert site.seen() == {0: [2, 3, 4], 1: [0, 1, 2]}
    assert site.group.notes[0] == "topics shop reviews reviews"


class LateSchemas:
    """A registry that has a record's schema at the third request."""

    def __init__(self) -> None:
        self.requests = 0

    @property
    def waiting(self) -> str:
        return "no answer" if self.requests < 3 else ""

    def missing(self, _records: object) -> set[int]:
        return {7} if self.requests < 3 else set()

    def fetch(self, ids: set[int]) -> None:
        assert ids == {7}
        self.requests += 1


def test_records_wait_for_their_schema(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCHEMA_PAUSE_SECONDS", 0.0)
    site.bridge._schemas = LateSchemas()  # type: ignore[assignment]
    site.run()
    assert site.seen() == ALL


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ("shop,", "--from shop,: '' is not the name of a topic"),
        ("shop, a b", "'a b' is not the name of a topic"),
        ("shop,other,shop", "shop and shop would share the group app-bridge-shop: name each"),
        (f"{'x' * 230},{'x' * 231}", "would share the group app-bridge-xxx"),
        ("shop,reviews", "--from reviews: it is COVERSUMM_INPUT_TOPIC"),
    ],
)
def test_a_list_of_topics_names_each_once(sources: str, words: str) -> None:
    with pytest.raises(SetupError) as refused:
        settings_of_sources(SETTINGS, sources, Path("mapping.toml"))
    assert words in str(refused.value)


def test_each_topic_of_a_list_has_the_group_and_dead_letters_that_it_has_alone() -> None:
    file = Path("mapping.toml")
    both = settings_of_sources(SETTINGS, "shop, other", file)
    assert both == [bridge_settings(SETTINGS, name, file) for name in ("shop", "other")]


def test_several_topics_are_ready_together_and_end_together(tmp_path: Path) -> None:
    sites = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        sites[name] = Site(tmp_path / name, {0: 5, 1: 3})
    both = Bridges({name: site.bridge for name, site in sites.items()})
    assert both.ready() == (False, "one: waiting for the group; two: waiting for the group")
    sites["two"].target.next_failures = [{"commit": error(KafkaError.TOPIC_AUTHORIZATION_FAILED)}]
    with pytest.raises(Crash, match="a commit of shop failed"):
        both.run(lambda: False)
    assert all(site.group.closed for site in sites.values())
    assert both.ready()[0] is True
    assert both.partitions() == (4, 4)
    assert both.is_alive
    assert set(both.lag()) == {f"{name}-{partition}" for name in sites for partition in (0, 1)}
    assert "two-1" in Metrics().page(both).decode()
