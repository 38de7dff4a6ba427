"""Suggested facets on hotels that they were not made of: the overview of facets as `facets suggest`
writes them, from six other hotels. Nothing about the method was chosen by these figures.
"""

from collections.abc import Iterable, Sequence

from tests.bench.quality.data import MAX_CHARS, Embed, TextReview
from tests.bench.quality.facets import central, groups_of, in_turn
from tests.bench.quality.hotels import Hotel
from tests.bench.quality.rouge import Rouge, scored
from tests.bench.quality.walk import text_of, walk
from worker.coversumm import SCALE
from worker.facets.definitions import parse_definitions
from worker.facets.membership import FacetCriteria
from worker.facets.suggest import ReviewTexts, definitions_file, suggest
from worker.text.splitting import split_sentences

COUNTS = (6, 9, 12, 15)
"""Facets asked for; 12 is the default."""


def reviews_of(reviews: Iterable[TextReview]) -> list[ReviewTexts]:
    """These reviews, without ratings."""
    return [
        ReviewTexts(review.entity_id, None, split_sentences(review.text or "", MAX_CHARS))
        for review in reviews
    ]


def suggestions(reviews: Sequence[ReviewTexts], count: int, embed: Embed) -> FacetCriteria:
    """The facets of the file that is suggested, unedited."""
    found = suggest(reviews, lambda texts: embed(texts) / SCALE, count)
    definitions = parse_definitions(definitions_file(found, "other hotels"), "suggested")
    return FacetCriteria(
        definitions,
        embed([phrase for facet in definitions.facets for phrase in facet.phrases or ()]),
    )


def overview(hotel: Hotel, facets: FacetCriteria, k: int) -> list[int]:
    """The rows of 75 words of the facets that are not hidden, read in turn."""
    entity = hotel.entity
    groups = groups_of(entity, facets)
    visible = [groups[number] for number in facets.definitions.visible]
    ranked = [central(entity, rows, k) for rows in visible]
    return walk(in_turn(visible, ranked), entity.sentences, hotel.tfidf)


def score(hotel: Hotel, rows: Sequence[int]) -> dict[str, Rouge]:
    """ROUGE of these sentences, by protocol."""
    return scored(text_of(rows, hotel.entity.sentences), hotel.references)
