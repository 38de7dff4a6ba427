"""The usual micro-batch in machine code, from `worker/native/` (Rust); see `Pool` and `Core`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, final

from worker.coversumm import Step
from worker.events import Record
from worker.facets.plain import PlainFacets
from worker.facets.words import Meaning
from worker.processing.config import ProcessorConfig
from worker.processing.known_texts import KnownReview

SOURCES: Final[str | None]
"""A digest of its sources (`worker.native_sources`): a module of others is not used."""

@final
class Core:
    """The k sentences nearest to the centroid of an entity's live ones, after every step: what
    `EntityCore` says, in native code. Also for vectors that are not normalised.
    """

    def __new__(cls, k: int, dimension: int, *, distinct: bool = False) -> Core:
        """An entity without sentences. Raises ValueError if k or dimension is below 1."""

    def apply(self, steps: Sequence[Step]) -> list[tuple[bytes, ...] | None]:
        """Apply steps in order; for each the ids of the summary, nearest first, if the set changed
        or a member was added, or None.

        Raises KeyError (an id to remove is not live), ValueError (an id to add is live, or vectors
        have another shape), BufferError (they are not int16) and OverflowError (keys would not
        fit). Discard the object then; a step with OverflowError changes nothing.
        """

    def ranking(self) -> list[tuple[bytes, float, int]]:
        """Id, distance in units of normalised vectors and support of the summary's sentences."""

    @property
    def searches(self) -> int:
        """Searches of all sentences so far."""

    @property
    def reservoir_size(self) -> int:
        """Number of distinct vectors in the reservoir."""

    def __contains__(self, id: bytes) -> bool: ...
    def __len__(self) -> int: ...

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
    refills: int  # searches of all sentences of an entity that these began
    message_bytes: int  # keys and values of the messages
    row_bytes: int  # keys and values of the rows

@final
class Pool:
    """Entities in memory, and the events that they take the usual way.

    A micro-batch is `take`, then `process`. Rows and messages are those of the Python form, byte
    for byte. For one thread at a time; all others run beside it.
    """

    def __new__(cls, config: ProcessorConfig, most_sentences: int) -> Pool:
        """`most_sentences`: the most live ones of an entity in the pool, if the limits of `config`
        allow so many.
        """

    def define(self, partition: int, facets: PlainFacets) -> None:
        """Give a partition its facets. With `has_facets` no record of others is usual. Raises
        ValueError if they are not those of `plain_facets` for this dimension.
        """

    def take(
        self,
        records: Sequence[Record],
        indexes: Iterable[int],
        known: Mapping[int, KnownReview],
        rows_of: Callable[[int, int, int], Iterable[tuple[bytes, bytes]] | None],
        mentions: Callable[[str, str | None, list[str]], Sequence[str | int | Meaning]],
    ) -> tuple[list[tuple[int, int]], list[tuple[int, bytes]], int]:
        """Hold the usual events among the records of these indexes until `process`, or the next
        call. Entities with another event leave. `known`, by index: reviews that bring no vectors.

        `rows_of` is called with the index of the first record of each entity that is not in the
        pool, bytes of those read before, and bytes of the pool. It gives all rows under
        `header_key`, in key order; none: a new entity; None: the entity leaves.

        `mentions` is called where facets depend on texts, with what is asked, a language and texts:
        of a review's text its `language`, given its tag; what each of `words` means in the
        language; which facets each of `texts` mentions.

        Returns of each held event the index of its record, and how many sentences it adds,
        replaces or removes if it is applied, as `BatchPlan.sentences`; the entities that left
        though their events are usual; bytes of those that were read. After an exception it holds
        no events.
        """

    def process(self, on_progress: Callable[[], object]) -> Processed:
        """Carry out all held events, in the order of their records, and call `on_progress` every
        100 ms.

        The pool is ahead of the committed rows then: `drop` the touched entities if these are not
        used.
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
