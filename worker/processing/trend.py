"""What rises: the reviews that mention each facet, by month or quarter, from an entity's rows.

The counts are exact, and those of a facet add up to its mentions. One sentence more is said where
it is deserved: complaints *rose* if the last 90 days have more of them than the 365 before would
by chance. A complaint is a review that mentions the facet and has a rating of at most 2. The test
is Fisher's exact one, one-sided, in whole numbers, with Holm's correction over the facets. Days
are those of the entity's own dates, so the answer depends on its reviews alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Final, NamedTuple

from worker.events import Ratings
from worker.events.dates import is_future, milliseconds
from worker.events.ratings import NO_REVIEWS, ReviewCounts
from worker.facets.membership import FacetCriteria
from worker.processing.entity_view import EntityView, NoFacets, Source
from worker.state.facet_members import FacetMembers
from worker.state.partition import read_criteria
from worker.state.rows import date_of

PERIODS: Final = {"month": 1, "quarter": 3}  # in months
RECENT_DAYS, BEFORE_DAYS = 90, 365
FEWEST_RECENT, FEWEST_BEFORE = 15, 40
"""Reviews of the last days, and of those before, from which on a change can be seen."""
FEWEST_COMPLAINTS: Final = 5
LOW: Final = 2.0  # the highest rating of a complaint
ROSE, MAY_HAVE_RISEN = Fraction(1, 100), Fraction(1, 20)
_DAY_MS: Final = 86_400_000
_FIRST_MS: Final = milliseconds("0001-01-01T00:00:00Z")  # Python has no earlier year


@dataclass(frozen=True, slots=True)
class Period:
    """The reviews of a month or quarter, `2026-11` or `2026-Q4`, that mention a facet."""

    period: str
    review_count: int
    ratings: Ratings


@dataclass(frozen=True, slots=True)
class Complaints:
    """Reviews of the last 90 days of the entity, and of the 365 before, that complain."""

    recent: int
    before: int
    rose: bool | None  # None: there are too few reviews to tell
    may_have_risen: bool | None  # likewise, at one chance in twenty instead of in a hundred


@dataclass(frozen=True, slots=True)
class FacetTrend:
    """A facet: its mentions by period, and the reviews without a date among them."""

    name: str
    language: str | None
    periods: tuple[Period, ...]
    undated: int
    complaints: Complaints


@dataclass(frozen=True, slots=True)
class TrendView(EntityView):
    """The facets that have words, in the order of their mentions, and all reviews beside them."""

    by: str
    recent_reviews: int  # rated, of the last 90 days of the entity's own dates
    before_reviews: int  # of the 365 days before
    low: Complaints  # the same of all low ratings
    facets: tuple[FacetTrend, ...]
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this view


class _Review(NamedTuple):
    """The part of a live review that a trend reads."""

    mentions: int  # facets, a bit for each
    at_ms: int | None  # of its date, in milliseconds since 1970
    period: str | None  # of its date, in UTC
    rating: float | None


@dataclass(frozen=True, slots=True)
class Trend:
    """Reads the trends of an entity `by` month or quarter."""

    by: str = "month"

    def __post_init__(self) -> None:
        if self.by not in PERIODS:
            raise ValueError("by is month or quarter")

    def read(self, source: Source) -> TrendView:
        """The view. Raises NoFacets, CorruptRow."""
        criteria: FacetCriteria | None = read_criteria(source.entity.rows)
        if criteria is None:
            raise NoFacets
        reviews = list(self._reviews(source, criteria))
        known = [
            (number, criteria.definitions.summaries[number])
            for number in criteria.definitions.visible
            if criteria.definitions.facets[number].words is not None
        ]
        recent, before = _spans(reviews)
        changes = _changes([number for number, _ in known], recent, before)
        counted = Counter(
            number for review in reviews for number, _ in known if review.mentions >> number & 1
        )
        facets = sorted(known, key=lambda facet: (-counted[facet[0]], facet[1].label))
        return TrendView(
            *source.counts,
            self.by,
            len(recent),
            len(before),
            changes[None],
            tuple(
                FacetTrend(
                    facet.name,
                    facet.language or None,
                    *_periods([of for of in reviews if of.mentions >> number & 1]),
                    changes[number],
                )
                for number, facet in facets
            ),
        )

    def _reviews(self, source: Source, criteria: FacetCriteria) -> Iterator[_Review]:
        """The live reviews. Many have one date: each date is parsed once."""
        facts = dict(source.entity.review_facts())
        mentions = FacetMembers(criteria, facts.items()).mentions()
        placed = lru_cache(maxsize=2**14)(self._placed)
        for name, row in facts.items():
            if not row.deleted:
                place = placed(date_of(row.details, row.is_future))
                yield _Review(mentions.get(name, 0), *place, row.details.rating)

    def _placed(self, date: str | None) -> tuple[int | None, str | None]:
        """The instant of a date, and the name of its period."""
        if date is None or is_future(date, -1):
            return None, None
        at_ms = max(milliseconds(date), _FIRST_MS)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
        if self.by == "month":
            return at_ms, f"{moment.year:04d}-{moment.month:02d}"
        return at_ms, f"{moment.year:04d}-Q{(moment.month + 2) // 3}"


def _periods(reviews: Sequence[_Review]) -> tuple[tuple[Period, ...], int]:
    """The reviews by period, and how many have no date."""
    found: dict[str, ReviewCounts] = {}
    undated = 0
    for (name, rating), count in Counter((of.period, of.rating) for of in reviews).items():
        if name is None:
            undated += count
        else:
            found[name] = found.get(name, NO_REVIEWS).plus(rating, count)
    periods = (
        Period(name, counts.reviews, counts.ratings.ratings())
        for name, counts in sorted(found.items())
    )
    return tuple(periods), undated


def _spans(reviews: Sequence[_Review]) -> tuple[list[_Review], list[_Review]]:
    """The rated reviews of the last days of these, and of the days before."""
    dated = [(review.at_ms, review) for review in reviews if review.at_ms is not None]
    end = max((at_ms for at_ms, _ in dated), default=0)
    middle, start = end - RECENT_DAYS * _DAY_MS, end - (RECENT_DAYS + BEFORE_DAYS) * _DAY_MS
    rated = [(at_ms, review) for at_ms, review in dated if review.rating is not None]
    recent = [review for at_ms, review in rated if at_ms > middle]
    return recent, [review for at_ms, review in rated if start < at_ms <= middle]


def _complaints(reviews: Sequence[_Review], number: int | None) -> int:
    """Low ratings, of reviews that mention the facet; None: of all."""
    low = (review for review in reviews if review.rating is not None and review.rating <= LOW)
    return sum(number is None or bool(review.mentions >> number & 1) for review in low)


def fisher(recent: int, of_recent: int, before: int, of_before: int) -> Fraction:
    """Fisher's exact test, one-sided: the chance of `recent` or more marked among `of_recent`, of
    `recent + before` marked among all; exact. A term follows from the one before it.

    >>> fisher(3, 3, 0, 3)
    Fraction(1, 20)
    """
    marked, every = recent + before, of_recent + of_before
    term = comb(of_recent, recent) * comb(of_before, before)
    total = 0
    for found in range(recent, min(marked, of_recent) + 1):
        total += term
        left = marked - found
        term = term * (of_recent - found) * left // ((found + 1) * (of_before - left + 1))
    return Fraction(total, comb(every, marked))


def _changes(
    facets: Sequence[int], recent: Sequence[_Review], before: Sequence[_Review]
) -> Mapping[int | None, Complaints]:
    """The change of each facet, and under None that of all reviews. Holm: the j-th smallest chance
    of the facets is compared with alpha / (m - j), and after the first that fails none passes.
    """
    counts = {
        number: (_complaints(recent, number), _complaints(before, number))
        for number in (None, *facets)
    }
    chances = {
        number: fisher(now, len(recent), then, len(before))
        for number, (now, then) in counts.items()
    }
    highest = Fraction(0)
    for place, number in enumerate(sorted(facets, key=lambda facet: (chances[facet], facet))):
        highest = chances[number] = max(highest, chances[number] * (len(facets) - place))
    return {
        number: _told(now, then, len(recent), len(before), chances[number])
        for number, (now, then) in counts.items()
    }


def _told(now: int, then: int, of_now: int, of_then: int, chance: Fraction) -> Complaints:
    if of_now < FEWEST_RECENT or of_then < FEWEST_BEFORE:
        return Complaints(now, then, None, None)
    # at least half more, as a share of the reviews
    is_much = now >= FEWEST_COMPLAINTS and 2 * now * of_then >= 3 * then * of_now
    return Complaints(now, then, is_much and chance <= ROSE, is_much and chance <= MAY_HAVE_RISEN)
