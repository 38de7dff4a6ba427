"""An entity's short view from its rows, by `worker.coversumm.short_view`.

With a word limit the walk goes down to `MOST_SENTENCES`, takes each chosen sentence that still
fits, and skips the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.coversumm.short_view import StandsFor, choose, kept, stands_for
from worker.events import ReviewDetails
from worker.state import Rows
from worker.state.entity import EntityRows, read_header
from worker.state.keys import review_of

SENTENCES, MOST_SENTENCES = 10, 100
MOST_WORDS = 10_000
THRESHOLD = 0.8  # of MiniLM: sentences with a cosine above it mean the same


@dataclass(frozen=True, slots=True)
class Extent:
    """The limits of a short view. Raises ValueError, for the user, if one is out of range.

    Attributes:
        sentences: at most this many; by default as many as the words allow, or `SENTENCES`.
        words: at most this many in all, separated by blanks; by default any number.
        threshold: a sentence whose cosine to an earlier one is above this is skipped.
    """

    sentences: int | None = None
    words: int | None = None
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        if self.sentences is not None and not 1 <= self.sentences <= MOST_SENTENCES:
            raise ValueError(f"sentences is a number from 1 to {MOST_SENTENCES}")
        if self.words is not None and not 1 <= self.words <= MOST_WORDS:
            raise ValueError(f"words is a number from 1 to {MOST_WORDS}")
        if not 0 <= self.threshold < 1:
            raise ValueError("threshold is a number from 0 up to, but not including, 1")

    @property
    def count(self) -> int:
        """The number of sentences at which the walk ends."""
        return self.sentences or (SENTENCES if self.words is None else MOST_SENTENCES)


@dataclass(frozen=True, slots=True)
class ShortSentence:
    """A sentence of a short view."""

    rank: int
    sentence_id: str
    review_id: str
    text: str
    rating: float | None
    distance: float
    stands_for: int
    """Sentences, itself included, nearest to this one, with a cosine above the threshold."""
    stands_for_reviews: int  # the reviews of these


@dataclass(frozen=True, slots=True)
class ShortView:
    """An entity's short view and its counts."""

    entity_id: str
    incarnation: int  # source offset of the event that created it
    review_count: int
    sentence_count: int
    threshold: float
    sentences: tuple[ShortSentence, ...]
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this view


def read_short_view(rows: Rows, entity_id: str, dimension: int, extent: Extent) -> ShortView | None:
    """The entity's short view, or None if it is unknown. Raises CorruptRow.

    Reads the entity's vectors once if they are few enough to be kept, otherwise a few times.
    """
    header = read_header(rows, entity_id.encode())
    if header is None:
        return None
    entity = EntityRows(rows, entity_id.encode(), header.incarnation, dimension)
    scan = kept(entity.blocks)
    chosen = choose(scan, dimension, extent.threshold, extent.count)
    facts = [entity.text_and_details(identifier) for identifier in chosen.ids]
    taken: Sequence[int] = range(len(facts))
    if extent.words is not None:
        taken = fitting([text for text, _ in facts], extent.words)
    counts = stands_for(scan, chosen.vectors[taken], extent.threshold, review_of)
    return ShortView(
        entity_id,
        header.incarnation,
        header.reviews,
        header.sentences,
        extent.threshold,
        tuple(
            _sentence(rank, chosen.ids[at], facts[at], chosen.distances[at], count)
            for rank, (at, count) in enumerate(zip(taken, counts, strict=True))
        ),
    )


def fitting(texts: Sequence[str], words: int) -> list[int]:
    """Which of the texts, in order, fit into this many words.

    >>> fitting(["so very quiet", "a host who is kind", "quiet"], 4)
    [0, 2]
    """
    taken = []
    for at, text in enumerate(texts):
        if (count := len(text.split())) <= words:
            taken.append(at)
            words -= count
    return taken


def _sentence(
    rank: int,
    identifier: bytes,
    fact: tuple[str, ReviewDetails],
    distance: float,
    count: StandsFor,
) -> ShortSentence:
    (text, details) = fact
    name, review = identifier.decode(), review_of(identifier).decode()
    return ShortSentence(
        rank, name, review, text, details.rating, distance, count.sentences, count.groups
    )
