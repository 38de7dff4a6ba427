"""Topic ids, which tell a topic from a later one of the same name.

Offsets do not: a topic that was deleted and created again may have grown past every stored offset
of the old one. Kafka never uses an id again, so two equal answers prove that the topic was the same
between them.

Kafka has ids since 2.8. With a broker that has none (an older one, the embedded one) the id is "",
and offsets alone decide. Only an answer without an id says so: a cluster whose controller is not
elected yet is asked again.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ConfigSource,
)
from confluent_kafka.cimpl import NewTopic

from worker.clock import Clock
from worker.errors import Crash, SetupError, Unanswered
from worker.kafka.clients import Clients, OnError
from worker.kafka.errors import REFUSED, RETRIABLE, broker_errors, is_retriable, retry, unanswered
from worker.kafka.offsets import TIMEOUT_SECONDS
from worker.state.errors import PartitionsChanged

log = logging.getLogger(__name__)

EMBEDDED = "mockCluster"
"""Begins the cluster id of librdkafka's embedded broker, which does not answer these requests."""
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes: the answer of brokers older than ids
QUESTION_SECONDS = 3.0
"""Seconds until a lost request is repeated. A commit waits for the answer, usually milliseconds."""
MISSING_SECONDS = 3.0  # seconds for which a broker that has just started may not know all topics


class _Asked(NamedTuple):
    """A request in flight; its client is kept until it is answered."""

    admin: Any
    futures: Mapping[str, Any]


@dataclass(eq=False)
class TopicIds:
    """Fetches the ids of some topics."""

    clients: Clients
    topics: tuple[str, ...]  # their names
    partitions: Mapping[str, int]  # counts that must not change, by topic
    timeout_seconds: float  # for an answer, over all attempts
    clock: Clock = time
    on_error: OnError | None = None
    planned: Mapping[str, str] = field(default_factory=dict)
    """The ids of topics in the plan of a replay; empty for an unknown one."""

    def __post_init__(self) -> None:
        self._admin = self.clients.admin(self.on_error)
        self._question_seconds = min(QUESTION_SECONDS, self.timeout_seconds)
        self._has_ids = False  # until a broker answers that is not the embedded one
        self._known: dict[str, str] = {}

    def read(self) -> None:
        """Fetch the ids for `known` and `ask_ahead`; later calls compare them.

        Raises Crash if a topic is gone or was replaced, Unanswered if no broker answers, and
        SetupError as `ask_ahead` does.
        """
        if self._known:
            self.ask_ahead(self.topics)()
        else:
            self._known = self._ask(self.topics)

    def known(self, topic: str) -> str:
        """The topic's id in the first answer that had one; empty if the broker has none."""
        return self._known[topic]

    def ask_ahead(self, topics: Iterable[str]) -> Callable[[], None]:
        """Request the ids of topics; the result waits for the answer and checks it.

        The check raises Crash if an id differs from the first `read`, SetupError if it is not the
        planned one, PartitionsChanged if partitions were added (keys move at once, also between
        this worker's partitions), and Unanswered. Records that were read before this call were read
        from the topics of the answer.
        """
        names = tuple(topics)
        asked: list[_Asked] = []
        with suppress(KafkaException):  # the check asks again
            asked += [self._begin(names)] if self._has_ids else []
        return lambda: self._compare(self._ask(names, asked))

    def _compare(self, ids: Mapping[str, str]) -> None:
        for topic, found in ids.items():
            if self._known[topic] and found and found != self._known[topic]:
                raise Crash(
                    f"the topic {topic} was deleted and created again while the worker used it"
                )
        self._known |= {topic: found for topic, found in ids.items() if found}

    def ask(self, timeout_seconds: float, *, anew: bool = False) -> None:
        """Ask any broker, over this client's connections or `anew`, with the present credentials.

        Raises KafkaException without answer.
        """
        admin = self.clients.admin(self.on_error) if anew else self._admin
        try:
            admin.list_topics(self.topics[-1], timeout=timeout_seconds)
        finally:
            admin.poll(0)  # calls the error callback, and lets the client log

    def suspect(self) -> None:
        """After a long silence of the brokers: use new connections, see `Transactions.suspect`."""
        with suppress(KafkaException):  # there is no token for a new client
            self._admin = self.clients.admin(self.on_error)

    def tombstone_life_ms(self, topic: str) -> int | None:
        """The topic's delete.retention.ms; None if the broker does not let this client read it.

        Raises KafkaException and Unanswered if no broker answers.
        """
        if not self._has_ids:
            return sys.maxsize  # the embedded broker compacts nothing
        admin = self._admin  # keeps it until it has answered, even if it is replaced
        asked = admin.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, topic)],
            request_timeout=self._question_seconds,
        )
        try:
            (config,) = [future.result(self._question_seconds + 1) for future in asked.values()]
            return int(config["delete.retention.ms"].value)
        except TimeoutError as cause:
            raise Unanswered(f"could not fetch delete.retention.ms of {topic}") from cause
        except KafkaException as cause:
            if cause.args[0].code() in REFUSED:
                return None
            if cause.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise unanswered(f"a broker does not know {topic} yet", cause.args[0]) from cause
            raise

    def _ask(self, topics: tuple[str, ...], asked: Sequence[_Asked] = ()) -> dict[str, str]:
        """The ids, from the request `asked` if there is one; asks again while some are unknown."""
        patience = dict.fromkeys(RETRIABLE, self.timeout_seconds)
        patience[KafkaError.UNKNOWN_TOPIC_OR_PART] = min(MISSING_SECONDS, self.timeout_seconds)
        waiting = list(asked)
        what = f"could not fetch the ids of {', '.join(self.topics)}"
        try:
            return retry(lambda: self._attempt(topics, waiting), patience, self.clock)
        except TimeoutError as cause:
            raise Unanswered(what) from cause
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise Crash(f"the topic {', '.join(cause.args[1:])} is gone") from cause
            if error.code() in RETRIABLE:
                raise unanswered(what, error) from cause
            what = f"could not describe the topic {', '.join(cause.args[1:] or topics)}"
            raise Crash(f"{what} ({error.name()}: {error.str()})") from cause

    def _attempt(self, topics: tuple[str, ...], asked: list[_Asked]) -> dict[str, str]:
        """Ask once; without an answer the next attempt uses new connections."""
        try:
            return self._ask_once(topics, asked.pop() if asked else None)
        except (KafkaException, TimeoutError) as cause:
            if isinstance(cause, TimeoutError) or is_retriable(cause):
                self.suspect()
            raise

    def _ask_once(self, topics: tuple[str, ...], asked: _Asked | None) -> dict[str, str]:
        if not self._has_ids:
            metadata = self._admin.list_topics(timeout=self._question_seconds)
            if str(metadata.cluster_id).startswith(EMBEDDED):
                return dict.fromkeys(topics, "")
            self._has_ids = True
        asked = asked or self._begin(topics)
        answers = {}
        for topic, future in asked.futures.items():
            try:
                answers[topic] = future.result(self._question_seconds + 1)
            except KafkaException as cause:
                raise KafkaException(cause.args[0], topic) from cause
        for topic, stored in self.partitions.items():
            if topic in answers and (found := len(answers[topic].partitions)) > stored:
                raise PartitionsChanged(topic, stored, found)
        ids = {topic: str(answer.topic_id) for topic, answer in answers.items()}
        ids = {topic: "" if known == NO_ID else known for topic, known in ids.items()}
        self._refuse_unplanned(ids)
        return ids

    def _refuse_unplanned(self, ids: Mapping[str, str]) -> None:
        for topic, planned in self.planned.items():
            found = ids.get(topic)
            if planned and found and found != planned:
                raise SetupError(
                    f"the topic {topic} has the id {found}, and the plan of the replay is for the "
                    f"id {planned}: the topic was deleted and created again, and its offsets mean "
                    "other records; start over with `coversumm-worker reset`"
                )

    def _begin(self, topics: tuple[str, ...]) -> _Asked:
        admin = self._admin
        admin.poll(0)  # lets the client log
        futures = admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=self._question_seconds
        )
        return _Asked(admin, futures)


def described(admin: Any, topic: str) -> Any:
    """The topic as a broker describes it; None if it answers that there is none of this name.

    The list of all topics lacks those that this client may not describe. Raises KafkaException.
    """

    def ask() -> Any:
        asked = TopicCollection([topic])
        return admin.describe_topics(asked, request_timeout=TIMEOUT_SECONDS)[topic].result()

    try:
        return retry(ask, dict.fromkeys(RETRIABLE, float(TIMEOUT_SECONDS)))
    except KafkaException as cause:
        if cause.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return None


TOPIC_SECONDS = 120  # seconds for the broker to delete a topic, and to create it
PAUSE_SECONDS = 0.2


class RecreatedTopic:
    """A topic that can be emptied; construction only reads. Raises SetupError."""

    def __init__(self, admin: AdminClient, name: str) -> None:
        self._admin = admin
        self._name = name
        self._new: NewTopic | None = None
        if (found := self._described()) is None:
            return
        with broker_errors(f"could not describe the topic {name}"):
            resource = ConfigResource(ConfigResource.Type.TOPIC, name)
            config = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
        partitions = found.partitions
        self._new = NewTopic(
            name,
            len(partitions),
            len(partitions[0].replicas),
            config={
                option: entry.value
                for option, entry in config.items()
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            },
        )

    @property
    def exists(self) -> bool:
        """True if the broker has the topic now."""
        return self._described() is not None

    def recreate(self) -> None:
        """Delete the topic and create it again, if it existed at construction.

        Raises SetupError if the broker refuses: the topic may be deleted by then.
        """
        if self._new is None:
            return
        before = self._described()
        with broker_errors(f"the broker does not delete the topic {self._name}"):
            self._admin.delete_topics([self._name], request_timeout=TIMEOUT_SECONDS)[
                self._name
            ].result()
        _wait(lambda: not self.exists, f"{self._name} is not gone")
        new = self._new
        with broker_errors(f"the broker does not create the topic {self._name} again"):
            _wait(lambda: self._created(new), f"{self._name} is not created again")
        _wait(lambda: self.exists, f"{self._name} is not there again")
        after = self._described()
        if before is not None and after is not None and before.topic_id == after.topic_id:
            raise SetupError(f"the broker did not delete {self._name}: reset it again")

    def _created(self, new: NewTopic) -> bool:
        try:
            self._admin.create_topics([new], request_timeout=TIMEOUT_SECONDS)[self._name].result()
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return self.exists  # else it is still being deleted
        return True

    def _described(self) -> Any:
        with broker_errors(f"could not describe the topic {self._name}"):
            return described(self._admin, self._name)


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    give_up = time.monotonic() + TOPIC_SECONDS
    while not condition():
        if time.monotonic() > give_up:
            raise SetupError(
                f"after {TOPIC_SECONDS} s {complaint}: check the brokers, then reset again"
            )
        time.sleep(PAUSE_SECONDS)
