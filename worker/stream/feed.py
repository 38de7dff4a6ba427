"""What was published lately, for whoever looks on at this moment: told after commits, and nothing
kept while nobody looks on.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from worker.events import Message
from worker.stream.surroundings import Threads

RECENT_CHANGES = 10
"""Changes of any entity that are kept from one look to the next; of the others the number alone."""
RECENT_PER_ENTITY = 3
"""The same of an entity that is watched."""


class RecentChanges(NamedTuple):
    """What was published since the last look."""

    changes: int
    """How many, of which `last` are the last ones."""
    last: list[Message]
    watched: dict[bytes, tuple[int, list[Message]]]
    """By the key of a watched entity that changed, the same."""


class ChangeFeed:
    """From the thread that commits to the one that shows; bounded, and never waited for.

    Args:
        topic: where changes are published.
        threads: where its lock comes from.
    """

    def __init__(self, topic: str, threads: Threads) -> None:
        self._topic = topic
        self._lock = threads.lock()
        self._is_open = False
        self._count = 0
        self._last: deque[Message] = deque(maxlen=RECENT_CHANGES)
        self._watched: dict[bytes, deque[Message]] = {}
        self._counts: dict[bytes, int] = {}

    def committed(self, messages: Iterable[Message]) -> None:
        """These messages are committed."""
        if not self._is_open:
            return
        with self._lock:
            for message in messages:
                if message.topic == self._topic:
                    self._count += 1
                    self._last.append(message)
                    if message.key in self._watched:
                        self._watched[message.key].append(message)
                        self._counts[message.key] = self._counts.get(message.key, 0) + 1

    def look_on(self, keys: Iterable[bytes] | None) -> None:
        """Keep from now on what is published, and what is of the entities with these keys by
        itself; None: nobody looks on.
        """
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
        """What was published since the last call; then it is forgotten."""
        with self._lock:
            watched = {key: (self._counts[key], list(self._watched[key])) for key in self._counts}
            found = RecentChanges(self._count, list(self._last), watched)
            self._count = 0
            self._last.clear()
            self._counts.clear()
            for messages in self._watched.values():
                messages.clear()
            return found
