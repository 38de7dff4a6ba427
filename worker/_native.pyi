"""The usual micro-batch in machine code, from `worker/native/` (Rust); see `Pool`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from worker.events import Limits, Record
from worker.facets.plain import PlainFacets
from worker.facets.words import Meaning

SOURCES: Final[str | None]
"""A digest of its sources (`worker.native_sources`): a module of others is not used."""

@final
class Processed:
    """What `Pool.process` did with the held events."""

    outcomes: dict[tuple[str, str], int]
    """By (event type, `applied` | `ignored:reason`) the number of records, as `Stats.outcomes`."""
    messages: list[tuple[int, tuple[str, int, bytes, bytes, list[tuple[str, bytes]]]]]
    """By ascending index of its record each message: the fields of `worker.events.Message`."""
    rows: dict[int, dict[bytes, bytes | None]]
    """By partition the changed rows of entities, None for removed ones."""
    touched: list[tuple[int, bytes]]
    """(partition, entity id) of the entities that events were about."""
    review_formats: dict[int, int]
    """By partition the newest format of the reviews among the rows, 0 without any."""
    created: int  # entities
    set_changes: int  # as `Stats.set_changes`
    future_dates: int  # as `Stats.future_dates`
    steps: int  # events that added or removed sentences
    message_bytes: int  # keys and values of the messages
    row_bytes: int  # keys and values of the rows

@final
class Pool:
    """Entities in memory, and the events that they take the usual way.

    A micro-batch is `read`, `load` for each of `absent`, `refused`, with facets `questions` and
    their `answer`, then `process`. If the pool does not take a record, the caller makes its entity
    `leave`, and processes all records of that entity. Rows and messages are those of the Python
    form, byte for byte. For one thread at a time; all others run beside it.
    """

    def __new__(
        cls,
        *,
        limits: Limits,
        most_sentences: int,
        k: int,
        distinct: bool,
        by_text: bool,
        emit: str,
        epoch: int,
        input_topic: str,
        output_topic: str,
        facets_topic: str,
        has_facets: bool,
    ) -> Pool:
        """`emit` is `every`, `coalesced` or `none`. `most_sentences`: the most live ones of an
        entity in the pool, if `limits` allow so many.
        """

    def define(self, partition: int, facets: PlainFacets) -> None:
        """Give a partition its facets. With `has_facets` no record of others is usual. Raises
        ValueError if they are not those of `plain_facets` for this dimension.
        """

    def read(self, records: Sequence[Record], indexes: Iterable[int]) -> list[int]:
        """Those of these indexes whose records are usual, ascending as given. Their events are held
        until `process`, or the next `read`, which forgets them.
        """

    def absent(self) -> list[tuple[int, bytes]]:
        """(partition, entity id) of the held events whose entity is not in the pool."""

    def load(self, partition: int, entity: bytes, rows: Iterable[tuple[bytes, bytes]]) -> bool:
        """Take in an entity from all rows under `header_key(entity)`, in key order; none: a new
        one. False: it is not one for the pool, so make it `leave`.
        """

    def refused(self) -> list[tuple[int, bytes]]:
        """The entities that might become too large: make them `leave`. Call it once all absent ones
        are loaded.
        """

    def sizes(self) -> list[tuple[int, int]]:
        """Of each held event the index of its record, and how many sentences it adds, replaces or
        removes if it is applied, as `BatchPlan.sentences`. Call it once all others left.
        """

    def leave(self, entities: Iterable[tuple[int, bytes]]) -> None:
        """Forget the held events of these entities, and drop those that are in the pool."""

    def questions(self) -> list[tuple[str, str | None, list[str]]]:
        """What is to be asked about texts next, once all others left: kind, language, texts. Of a
        review's text its `language`, given its tag; what each of `words` means in the language;
        which facets each of `texts` mentions. Empty once all is known, at once without facets.
        """

    def answer(self, answers: Sequence[Sequence[str | int | Meaning]]) -> None:
        """For each of these questions the language, or for each text or word the answer of
        `FacetCriteria.mentions` or `mentions_of_word`. Raises ValueError if one is missing.
        """

    def process(self, on_progress: Callable[[], object]) -> Processed:
        """Carry out all held events, in the order in which they were read, and call `on_progress`
        every 100 ms.

        The pool is ahead of the committed rows then: `drop` the touched entities if these are not
        used. Raises ValueError if an entity was neither loaded nor made to leave.
        """

    def drop(self, partition: int, entity: bytes) -> None:
        """Drop an entity, if it is in the pool: it is loaded again when it is needed."""

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop all entities of these partitions."""

    def evict(self, most_bytes: int) -> int:
        """Drop those that were not used for longest until at most so many bytes are left, and known
        words if they alone take more; returns how many it dropped.
        """

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes of the entities in memory, and of known words."""

    def __len__(self) -> int: ...
