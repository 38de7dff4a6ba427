"""Recent changes: the last few, and for a subscriber those since the last look."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from worker.events import Message
from worker.stream.surroundings import Threads

RECENT_CHANGES = 10  # changes of any entity that are buffered; older ones are only counted
RECENT_PER_ENTITY = 3  # changes of a watched entity that are buffered


Watched = dict[bytes, tuple[int, list[Message]]]
"""By key of a watched entity that changed: how many messages, and the latest."""


class RecentChanges(NamedTuple):
    """The changes since the last call of `ChangeFeed.take`."""

    changes: int  # how many there were of facets, else of summaries; `last` has the latest
    last: list[Message]
    watched: Watched
    facets: Watched  # the messages of facets likewise


class _Buffer:
    """The latest messages since the last look, at most `most`, and how many there were."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._latest: deque[Message] = deque(maxlen=most)

    def add(self, message: Message) -> None:
        self.count += 1
        self._latest.append(message)

    def take(self) -> tuple[int, list[Message]]:
        """Return and forget them."""
        taken = self.count, list(self._latest)
        self.count = 0
        self._latest.clear()
        return taken


@dataclass(eq=False)
class ChangeFeed:
    """A bounded buffer between the thread that commits and the page."""

    topic: str  # of summaries; messages of topics other than these two are no changes
    facets_topic: str
    threads: Threads
    as_json: Callable[[bytes], bytes] | None = None  # of values, unless they are JSON
    has_facets: bool = False

    def __post_init__(self) -> None:
        self._lock = self.threads.lock()
        self._shown = self.facets_topic if self.has_facets else self.topic  # of any entity
        self._latest: deque[Message] = deque(maxlen=RECENT_CHANGES)
        self._is_open = False
        self._changes = _Buffer(RECENT_CHANGES)
        self._watched: dict[tuple[str, bytes], _Buffer] = {}  # by topic and key

    def committed(self, messages: Sequence[Message]) -> None:
        """Buffer the changes among these committed messages."""
        with self._lock:
            for message in messages:
                if message.topic == self._shown:
                    self._latest.append(message)
                    if self._is_open:
                        self._changes.add(message)
                if watched := self._watched.get((message.topic, message.key or b"")):
                    watched.add(message)

    def latest(self) -> list[Message]:
        """The last changes of facets, else of summaries, whether they were taken or not."""
        with self._lock:
            latest = list(self._latest)
        return self._in_json(latest)

    def subscribe(self, keys: Iterable[bytes] | None) -> None:
        """Buffer changes, those of entities with these keys apart; None ends the subscription."""
        wanted = [(topic, key) for topic in (self.topic, self.facets_topic) for key in keys or ()]
        with self._lock:
            before = self._watched
            self._watched = {
                entity: before.get(entity) or _Buffer(RECENT_PER_ENTITY) for entity in wanted
            }
            self._is_open = keys is not None
            if keys is None:
                self._changes.take()

    def take(self) -> RecentChanges:
        """Return and forget the changes since the last call."""
        with self._lock:
            count, last = self._changes.take()
            taken = {name: buffer.take() for name, buffer in self._watched.items() if buffer.count}
        by_topic: dict[str, Watched] = {self.topic: {}, self.facets_topic: {}}
        for (topic, key), (number, messages) in taken.items():
            by_topic[topic][key] = number, self._in_json(messages)
        return RecentChanges(
            count, self._in_json(last), by_topic[self.topic], by_topic[self.facets_topic]
        )

    def _in_json(self, messages: list[Message]) -> list[Message]:
        """Only those that somebody looks at are turned into JSON."""
        as_json = self.as_json
        if as_json is None:
            return messages
        return [
            message if message.value is None else message._replace(value=as_json(message.value))
            for message in messages
        ]
