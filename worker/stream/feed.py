"""Recent changes: the last few of summaries, and while someone subscribes those since the last
look, also of facets.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from worker.events import Message
from worker.stream.surroundings import Threads

RECENT_CHANGES = 10
"""Changes of any entity that are buffered; older ones are only counted."""
RECENT_PER_ENTITY = 3
"""Changes of a watched entity that are buffered."""


Watched = dict[bytes, tuple[int, list[Message]]]
"""By key of a watched entity that changed: how many messages, and the latest."""


class RecentChanges(NamedTuple):
    """The changes since the last call of `ChangeFeed.take`."""

    changes: int
    """How many there were of summaries; `last` has the latest."""
    last: list[Message]
    watched: Watched
    facets: Watched
    """The messages of facets likewise."""


@dataclass(eq=False)
class ChangeFeed:
    """A bounded buffer between the thread that commits and the page.

    `topic` is the output topic, `facets_topic` that of facets: other messages are no changes.
    `as_json` turns their values into JSON; None: they are JSON.
    """

    topic: str
    facets_topic: str
    threads: Threads
    as_json: Callable[[bytes], bytes] | None = None

    def __post_init__(self) -> None:
        self._summaries, self._facets = _Entities(), _Entities()
        self._lock = self.threads.lock()
        self._is_open = False
        self._count = 0
        self._last: deque[Message] = deque(maxlen=RECENT_CHANGES)
        self._latest: deque[Message] = deque(maxlen=RECENT_CHANGES)

    def committed(self, messages: Sequence[Message]) -> None:
        """Buffer the changes among these committed messages."""
        changes = [message for message in messages if message.topic == self.topic]
        of_facets = [message for message in messages if message.topic == self.facets_topic]
        with self._lock:
            self._latest.extend(changes)
            if not self._is_open:
                return
            self._count += len(changes)
            self._last.extend(changes)
            self._summaries.add(changes)
            self._facets.add(of_facets)

    def latest(self) -> list[Message]:
        """The last changes of summaries, whether they were taken or not."""
        with self._lock:
            latest = list(self._latest)
        return self._in_json(latest)

    def subscribe(self, keys: Iterable[bytes] | None) -> None:
        """Buffer changes, those of entities with these keys apart; None ends the subscription."""
        with self._lock:
            self._is_open = keys is not None
            wanted = set(keys or ())
            self._summaries.choose(wanted)
            self._facets.choose(wanted)
            if keys is None:
                self._count = 0
                self._last.clear()

    def take(self) -> RecentChanges:
        """Return and forget the changes since the last call."""
        with self._lock:
            watched, facets = self._summaries.take(), self._facets.take()
            count, last = self._count, list(self._last)
            self._count = 0
            self._last.clear()
        return RecentChanges(
            count, self._in_json(last), self._all_in_json(watched), self._all_in_json(facets)
        )

    def _all_in_json(self, watched: Watched) -> Watched:
        return {key: (count, self._in_json(some)) for key, (count, some) in watched.items()}

    def _in_json(self, messages: list[Message]) -> list[Message]:
        """Only those that somebody looks at are turned into JSON."""
        as_json = self.as_json
        if as_json is None:
            return messages
        return [
            one if one.value is None else one._replace(value=as_json(one.value)) for one in messages
        ]


class _Entities:
    """The latest messages of some entities on one topic, by key, and how many there were."""

    def __init__(self) -> None:
        self.latest: dict[bytes, deque[Message]] = {}
        self._counts: Counter[bytes] = Counter()

    def choose(self, keys: set[bytes]) -> None:
        """Buffer those of these entities alone."""
        self.latest = {key: self.latest.get(key, deque(maxlen=RECENT_PER_ENTITY)) for key in keys}
        self._counts = Counter({key: self._counts[key] for key in keys & self._counts.keys()})

    def add(self, messages: Iterable[Message]) -> None:
        """Buffer those of chosen entities."""
        for message in messages:
            if message.key in self.latest:
                self.latest[message.key].append(message)
                self._counts[message.key] += 1

    def take(self) -> Watched:
        """Return and forget them."""
        found = {key: (count, list(self.latest[key])) for key, count in self._counts.items()}
        self._counts.clear()
        for messages in self.latest.values():
            messages.clear()
        return found
