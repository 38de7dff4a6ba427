"""What a topic is besides its records: above all its id, which tells it from a later one of the
same name.

Offsets alone do not: a topic that was deleted and created again may have grown past every offset
that was stored of the old one. Ids are never used again, so two equal answers prove that the topic
was the same all the time between them.

Kafka tells ids from 2.8 on. A broker that tells none (an older one, the embedded one) leaves the id
"", and offsets alone decide.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
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
from worker.kafka.errors import PASSING, passes, retry, unanswered
from worker.kafka.reader import TIMEOUT_SECONDS, broker_errors
from worker.state.errors import PartitionsChanged

log = logging.getLogger(__name__)

# What brokers older than ids answer: sixteen zero bytes.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
# A commit waits for this answer, which usually takes milliseconds; one that got lost on the way is
# asked for again.
QUESTION_SECONDS = 3.0
# A broker that has just started may not know of all topics for a moment.
MISSING_SECONDS = 3.0


class _Asked(NamedTuple):
    """A question on its way; its client is kept until it has answered."""

    admin: Any
    futures: Mapping[str, Any]


class TopicIds:
    """Asks a broker for the ids of some topics.

    Attributes:
        topics: their names.

    Args:
        clients: make the client that asks.
        topics: their names.
        partitions: of topics whose partition count must stay as it is.
        timeout_seconds: for an answer, however often that takes a question.
        clock: limits how long a broker that does not answer is asked again.
        on_error: gets the errors of the client that asks.
        planned: ids that topics must have, as the plan of a replay has them; empty where the plan
            knows none.
    """

    def __init__(
        self,
        clients: Clients,
        topics: tuple[str, ...],
        partitions: Mapping[str, int],
        timeout_seconds: float,
        clock: Clock = time,
        on_error: OnError | None = None,
        planned: Mapping[str, str] = {},
    ) -> None:
        self._planned = planned
        self._clients = clients
        self._on_error = on_error
        self._admin = clients.admin(on_error)
        self._clock = clock
        self.topics = topics
        self._partitions = partitions
        self._timeout_seconds = timeout_seconds
        self._question_seconds = min(QUESTION_SECONDS, timeout_seconds)
        self._has_controller = (
            False  # which answers what is asked here; it may still have to be elected
        )
        self._known: dict[str, str] = {}

    def read(self) -> None:
        """Learn the ids, for `known` and `ask_ahead`.

        Raises Crash where a topic is gone or is another one, Unanswered where no broker tells, and
        SetupError as `ask_ahead`.
        """
        if self._known:
            self.ask_ahead(self.topics)()
        else:
            self._known = self._ask(self.topics)

    def known(self, topic: str) -> str:
        """The topic's id at the first `read`; empty where the broker tells none."""
        return self._known[topic]

    def ask_ahead(self, topics: Iterable[str]) -> Callable[[], None]:
        """Ask for the ids of these topics; what is returned waits for the answer and checks it.

        It raises Crash unless they are those of the first `read`, SetupError where one is
        not the planned one, PartitionsChanged where partitions were added, and Unanswered. Keys
        move as soon as there are more partitions: to ones that this worker has, too. What was read
        before this call was read from the topics of the answer.
        """
        names = tuple(topics)
        asked: list[_Asked] = []
        with suppress(KafkaException):  # asked again when the answer is wanted
            asked += [self._begin(names)] if self._has_controller else []
        return lambda: self._compare(self._ask(names, asked))

    def _compare(self, ids: Mapping[str, str]) -> None:
        for topic, found in ids.items():
            if self._known[topic] and found and found != self._known[topic]:
                raise Crash(
                    f"the topic {topic} was deleted and created again while the worker used it"
                )

    def ask(self, timeout_seconds: float) -> None:
        """Ask any broker for a topic over this client's own connections. Raises KafkaException
        where none answers.
        """
        admin = self._admin
        try:
            admin.list_topics(self.topics[-1], timeout=timeout_seconds)
        finally:
            admin.poll(0)  # calls the error callback, and lets the client log

    def suspect(self) -> None:
        """It has heard of no broker for long: what comes next goes over new connections (see
        `Transactions.suspect`).
        """
        self._admin = self._clients.admin(self._on_error)

    def tombstone_life_ms(self, topic: str) -> int | None:
        """The topic's delete.retention.ms; None where the broker does not tell it (to
        this client).
        """
        if not self._has_controller:
            return None
        admin = self._admin  # one that is replaced meanwhile is kept until it has answered
        asked = admin.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, topic)],
            request_timeout=self._question_seconds,
        )
        try:
            (config,) = [future.result(self._question_seconds + 1) for future in asked.values()]
            return int(config["delete.retention.ms"].value)
        except (KafkaException, TimeoutError) as cause:
            log.warning("the broker does not tell delete.retention.ms of %s: %r", topic, cause)
            return None

    def _ask(self, topics: tuple[str, ...], asked: Sequence[_Asked] = ()) -> dict[str, str]:
        """The ids, `asked` for already or not; asked again where a topic is not known yet or the
        broker is just away.
        """
        patience = dict.fromkeys(PASSING, self._timeout_seconds)
        patience[KafkaError.UNKNOWN_TOPIC_OR_PART] = min(MISSING_SECONDS, self._timeout_seconds)
        waiting = list(asked)
        try:
            return retry(lambda: self._ask_anew(topics, waiting), patience, self._clock)
        except TimeoutError as cause:
            raise Unanswered(f"the broker does not tell the ids of {self._names}") from cause
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise Crash(f"a topic is gone: one of {self._names}") from cause
            if error.code() in PASSING:
                raise unanswered(
                    f"the broker does not tell the ids of {self._names}", error
                ) from cause
            raise Crash(
                f"the broker does not tell the ids of {self._names} ({error.str()})"
            ) from cause

    def _ask_anew(self, topics: tuple[str, ...], asked: list[_Asked]) -> dict[str, str]:
        """Ask once; where no answer comes, the next question goes over new connections."""
        try:
            return self._ask_once(topics, asked.pop() if asked else None)
        except (KafkaException, TimeoutError) as cause:
            if isinstance(cause, TimeoutError) or passes(cause):
                self.suspect()
            raise

    def _ask_once(self, topics: tuple[str, ...], asked: _Asked | None) -> dict[str, str]:
        if not self._has_controller:
            metadata = self._admin.list_topics(timeout=self._question_seconds)
            # Such requests go to the controller; the embedded broker has none, and they would wait
            # for it in vain.
            self._has_controller = metadata.controller_id in metadata.brokers
        if not self._has_controller:
            return dict.fromkeys(topics, "")
        asked = asked or self._begin(topics)
        answers = {
            topic: future.result(self._question_seconds + 1)
            for topic, future in asked.futures.items()
        }
        for topic, stored in self._partitions.items():
            if topic in answers and (found := len(answers[topic].partitions)) > stored:
                raise PartitionsChanged(topic, stored, found)
        ids = {topic: str(answer.topic_id) for topic, answer in answers.items()}
        ids = {topic: "" if known == NO_ID else known for topic, known in ids.items()}
        self._refuse_unplanned(ids)
        return ids

    def _refuse_unplanned(self, ids: Mapping[str, str]) -> None:
        for topic, planned in self._planned.items():
            found = ids.get(topic)
            if planned and found and found != planned:
                raise SetupError(
                    f"the topic {topic} has the id {found}, and the plan of the replay is for the id {planned}: the topic "
                    "was deleted and created again, and its offsets mean other records; start over with `coversumm-worker reset`"
                )

    def _begin(self, topics: tuple[str, ...]) -> _Asked:
        admin = self._admin
        admin.poll(0)  # lets the client log
        futures = admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=self._question_seconds
        )
        return _Asked(admin, futures)

    @property
    def _names(self) -> str:
        return ", ".join(self.topics)


TOPIC_SECONDS = 120
"""How long the broker may take to delete a topic, and to create it."""
PAUSE_SECONDS = 0.2


class RecreatedTopic:
    """A topic that can be emptied. Construction looks at it, and changes nothing.

    Raises SetupError where the broker does not answer.
    """

    def __init__(self, admin: AdminClient, name: str) -> None:
        self._admin = admin
        self._name = name
        self._new: NewTopic | None = None
        if not self.exists:
            return
        with broker_errors(f"the broker does not describe the topic {name}"):
            resource = ConfigResource(ConfigResource.Type.TOPIC, name)
            config = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
        partitions = self._topics()[name].partitions
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
        """Whether the broker has the topic now."""
        return self._name in self._topics()

    def recreate(self) -> None:
        """Delete the topic and create it again; do nothing where it was not there at construction.

        Raises SetupError where the broker does not: the topic may be deleted by then.
        """
        if self._new is None:
            return
        old_id = self._id()
        with broker_errors(f"the broker does not delete the topic {self._name}"):
            self._admin.delete_topics([self._name], request_timeout=TIMEOUT_SECONDS)[
                self._name
            ].result()
        _wait(lambda: not self.exists, f"{self._name} is not gone")
        new = self._new
        with broker_errors(f"the broker does not create the topic {self._name} again"):
            _wait(lambda: self._created(new), f"{self._name} is not created again")
        _wait(lambda: self.exists, f"{self._name} is not there again")
        if self._id() == old_id:
            raise SetupError(f"the broker did not delete {self._name}: reset it again")

    def _created(self, new: NewTopic) -> bool:
        try:
            self._admin.create_topics([new], request_timeout=TIMEOUT_SECONDS)[self._name].result()
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return self.exists  # else it is still being deleted
        return True

    def _topics(self) -> Any:
        """All topics: asked for one alone, a broker may create it."""
        with broker_errors("no answer from the broker"):
            return self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics

    def _id(self) -> str:
        described = self._admin.describe_topics(
            TopicCollection([self._name]), request_timeout=TIMEOUT_SECONDS
        )
        with broker_errors(f"the broker does not describe the topic {self._name}"):
            return str(described[self._name].result().topic_id)


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    give_up = time.monotonic() + TOPIC_SECONDS
    while not condition():
        if time.monotonic() > give_up:
            raise SetupError(
                f"after {TOPIC_SECONDS} s {complaint}: look at the brokers, then reset again"
            )
        time.sleep(PAUSE_SECONDS)
