"""An entity's short view as people see it, by its rows: how far it goes, and what comes of
`worker.coversumm.short_view`.

With a number of words the walk goes down to `MOST_SENTENCES`, and of the sentences that it chose,
in order, each is taken that still fits. One that does not is passed over: to stop there would leave
much of the room unused.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.coversumm.short_view import StandsFor, choose, kept, stands_for
from worker.state import Rows
from worker.state.entity import EntityRows, read_header
from worker.state.keys import review_of

SENTENCES, MOST_SENTENCES = 10, 100
MOST_WORDS = 10_000
THRESHOLD = 0.8
"""Of MiniLM's sentences: a cosine above it is the same thing said again."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a short view goes.

    Attributes:
        sentences: at most so many; None: as many as the words allow, and `SENTENCES` where these
            say nothing either.
        words: together at most so many, a word being what blanks part; None: any number.
        threshold: a sentence whose cosine to one before it is above this is passed over.

    Raises ValueError, for the one who asks, where one of them is out of range.
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
        """Of how many sentences the walk goes on."""
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
    """Sentences, itself included, to which none of the view is nearer, with a cosine above the
    threshold.
    """
    stands_for_reviews: int
    """The reviews these are of."""


@dataclass(frozen=True, slots=True)
class ShortView:
    """An entity's short view, and the counts of all there is."""

    entity_id: str
    incarnation: int
    """Source offset of the event that created it."""
    review_count: int
    sentence_count: int
    threshold: float
    sentences: tuple[ShortSentence, ...]
    partition: int | None = None
    next_offset: int | None = None
    """Of the input partition: everything below is in this view."""


def read_short_view(rows: Rows, entity_id: str, dimension: int, extent: Extent) -> ShortView | None:
    """The entity's short view, None where it is unknown.

    Reads the entity's vectors once where they are few enough to be kept for a moment, else a few
    times. Raises CorruptRow.
    """
    header = read_header(rows, entity_id.encode())
    if header is None:
        return None
    entity = EntityRows(rows, entity_id.encode(), header.incarnation, dimension)
    scan = kept(entity.blocks)
    chosen = choose(scan, dimension, extent.threshold, extent.count)
    facts = [entity.text_and_rating(identifier) for identifier in chosen.ids]
    taken = (
        range(len(facts))
        if extent.words is None
        else fitting([text for text, _ in facts], extent.words)
    )
    counts = stands_for(scan, chosen.vectors[taken], extent.threshold, review_of)
    return ShortView(
        entity_id,
        header.incarnation,
        header.reviews,
        header.sentences,
        extent.threshold,
        tuple(
            _sentence(rank, chosen.ids[at], *facts[at], chosen.distances[at], count)
            for rank, (at, count) in enumerate(zip(taken, counts, strict=True))
        ),
    )


def fitting(texts: Sequence[str], words: int) -> list[int]:
    """Which of the texts, in order, fit into so many words.

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
    rank: int, identifier: bytes, text: str, rating: float | None, distance: float, count: StandsFor
) -> ShortSentence:
    name, review = identifier.decode(), review_of(identifier).decode()
    return ShortSentence(rank, name, review, text, rating, distance, count.sentences, count.groups)
