"""Random facets of all kinds that native code takes, for the vectors and texts of `streams`."""

from tests.harness.drive import base64_vector
from tests.native.streams import LABELS, VECTORS
from worker.events.publishing import FACETS
from worker.facets.definitions import Definitions, Facet, Polarity, RatingRange
from worker.facets.membership import FacetCriteria, facet_criteria
from worker.state.keys import ENTITY, FACET_SETS, parse_entity_key
from worker.state.rows import decode_published

WORDS = ["good", "ba*", "o*", "fine thing", "日", "b", "x*", "room was", "cl*", "the"]
THRESHOLDS = [None, 0.0, 0.3, 0.6, 0.8, 1.0, 0.123456789, 0.577350269]
RANGES = [RatingRange(max=1), RatingRange(min=4), RatingRange(min=0.5, max=4.5)]


def _vectors(random, dimension):
    if dimension == 3:
        return [base64_vector(vector) for vector in random.sample(VECTORS, random.randint(1, 3))]
    drawn = [[random.gauss(0, 1) for _ in range(dimension)] for _ in range(random.randint(1, 3))]
    return [base64_vector(vector) for vector in drawn]


def _facet(random, number, dimension, *, has_words, languages, has_sides, has_newest):
    criteria = {}
    if random.random() < 0.6:
        criteria["vectors"] = tuple(_vectors(random, dimension))
        criteria["threshold"] = random.choice(THRESHOLDS)
    if random.random() < 0.25 or not criteria:
        criteria["labels"] = tuple(random.sample(LABELS[:4], random.randint(1, 3)))
    if random.random() < 0.25:
        criteria["rating"] = random.choice(RANGES)
    if random.random() < 0.15:
        criteria["verified"] = random.random() < 0.5
    if random.random() < 0.15:
        criteria["country"] = tuple(random.sample(["NL", "é" * 24, "DE"], 2))
    if random.random() < 0.1:
        criteria["author_id"] = ("u-1", "\0" * 21)
    if has_newest and random.random() < 0.5:
        name = random.choice(["newest", "newest", "within_days"])
        criteria[name] = random.choice([1, 2, 3, 36_500])
    if "newest" in criteria:
        criteria["newest"] = min(criteria["newest"], 10_000)
    if languages and random.random() < 0.3:
        criteria["language"] = tuple(random.sample(languages, random.randint(1, len(languages))))
    if has_words and random.random() < 0.7:
        words = tuple(random.sample(WORDS, random.randint(1, 4)))
        criteria["words"] = words if random.random() < 0.5 else {"en": words, "ja": WORDS[4:5]}
    is_hidden = number > 0 and random.random() < 0.2
    if "words" in criteria and not is_hidden and random.random() < 0.5:
        criteria["quotes"] = "words"
    return Facet(
        random.choice(["f", 'é"\\', "日", "\n"]) + str(number),
        k=random.choice([1, 2, 3, 5]),
        hidden=is_hidden,
        sides=has_sides and not is_hidden and random.choice([False, True, 1, 4]),
        **criteria,
    )


def random_facets(random, dimension=3) -> FacetCriteria:
    """Up to eight of them, with or without words, languages and sides."""
    has_words, has_sides, has_newest = (random.random() < share for share in (0.5, 0.4, 0.5))
    languages = random.choice([[], [], [], ["en", "ja"], ["en", "de", "fr"]])
    polarity = None
    if has_sides:
        polarity = Polarity(
            good_vectors=tuple(_vectors(random, dimension)),
            bad_vectors=tuple(_vectors(random, dimension)),
            margin=random.choice([0.0, 0.1, 0.25, 1.0]),
            middle=random.choice([3.0, 0.5, 4.5]),
        )
    facets = [
        _facet(
            random,
            number,
            dimension,
            has_words=has_words,
            languages=languages,
            has_sides=has_sides,
            has_newest=has_newest,
        )
        for number in range(random.randint(1, 8))
    ]
    everywhere = languages if random.random() < 0.5 else ()
    hide_names = any(facet.quotes_words for facet in facets) and random.random() < 0.5
    definitions = Definitions(facets, everywhere, polarity, hide_names=hide_names)
    return facet_criteria(definitions, dimension, None)


def of_facets(facets, **changes):
    """Settings with these facets."""
    limits = {"label_bits": facets.label_bits, **changes.pop("limits", {})}
    return {"facets": facets, "facets_topic": "facets", "limits": limits, **changes}


def in_any_order(rows):
    """Rows with the sentences of each facet in order of their ids: the order in which Python stores
    a facet whose set did not change depends on when the entity was read into memory.
    """
    found = dict(rows)
    for key, row in rows.items():
        if key[:1] == ENTITY and row is not None and parse_entity_key(key).kind == FACET_SETS:
            sequence, sets, mentions = decode_published(key, FACETS, row)
            found[key] = sequence, [sorted(members.items()) for members in sets], mentions, len(row)
    return found
