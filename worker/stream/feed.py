"""Recent changes of summaries: the last few, and those since the last look while someone
subscribes.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from worker.events import Message
from worker.stream.surroundings import Threads

RECENT_CHANGES = 10
"""Changes of any entity that are buffered; older ones are only counted."""
RECENT_PER_ENTITY = 3
"""Changes of a watched entity that are buffered."""


class RecentChanges(NamedTuple):
    """The changes since the last call of `ChangeFeed.take`."""

    changes: int
    """How many there were; `last` has the latest."""
    last: list[Message]
    watched: dict[bytes, tuple[int, list[Message]]]
    """By key of a watched entity that changed: how many, and the latest."""


class ChangeFeed:
    """A bounded buffer between the thread that commits and the page.

    `topic` is the output topic: other messages are no changes.
    """

    def __init__(self, topic: str, threads: Threads) -> None:
        self._topic = topic
        self._lock = threads.lock()
        self._is_open = False
        self._count = 0
        self._last: deque[Message] = deque(maxlen=RECENT_CHANGES)
        self._latest: deque[Message] = deque(maxlen=RECENT_CHANGES)
        self._watched: dict[bytes, deque[Message]] = {}
        self._counts: dict[bytes, int] = {}

    def committed(self, messages: Iterable[Message]) -> None:
        """Buffer the changes among these committed messages."""
        changes = [message for message in messages if message.topic == self._topic]
        with self._lock:
            self._latest.extend(changes)
            if not self._is_open:
                return
            self._count += len(changes)
            self._last.extend(changes)
            for message in changes:
                if message.key in self._watched:
                    self._watched[message.key].append(message)
                    self._counts[message.key] = self._counts.get(message.key, 0) + 1

    def latest(self) -> list[Message]:
        """The last changes, whether they were taken or not."""
        with self._lock:
            return list(self._latest)

    def subscribe(self, keys: Iterable[bytes] | None) -> None:
        """Buffer changes, those of entities with these keys apart; None ends the subscription."""
        with self._lock:
            self._is_open = keys is not None
            wanted = set(keys or ())
            self._watched = {
                key: self._watched[key] if key in self._watched else deque(maxlen=RECENT_PER_ENTITY)
                for key in wanted
            }
            self._counts = {key: count for key, count in self._counts.items() if key in wanted}
            if keys is None:
                self._count = 0
                self._last.clear()

    def take(self) -> RecentChanges:
        """Return and forget the changes since the last call."""
        with self._lock:
            watched = {key: (self._counts[key], list(self._watched[key])) for key in self._counts}
            found = RecentChanges(self._count, list(self._last), watched)
            self._count = 0
            self._last.clear()
            self._counts.clear()
            for messages in self._watched.values():
                messages.clear()
            return found
