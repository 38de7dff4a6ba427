"""Recomputes every entity of a partition from its rows by brute force, and compares."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

from worker.coversumm import Ranking, brute_force
from worker.errors import many
from worker.events.outputs import SIDES
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic, is_due
from worker.events.ratings import NO_RATINGS, RatingCounts
from worker.facets.membership import FacetCriteria
from worker.state import rows as formats
from worker.state.facet_members import FacetMembers, rows_of
from worker.state.keys import garbage_key, parse_sentence_id, review_of
from worker.state.partition import read_criteria, read_min_changes
from worker.state.snapshot import Snapshot, read_snapshots
from worker.state.store import Rows


@dataclass(frozen=True, slots=True)
class EntityCheck:
    """The result for one entity; no `problems` if it is correct."""

    entity_id: str
    reviews: int
    sentences: int
    problems: tuple[str, ...]


def verify_partition(
    rows: Rows,
    *,
    dimension: int,
    k: int,
    distinct: bool,
    by_text: bool = False,
    min_changes: int = 1,
) -> Iterator[EntityCheck]:
    """One result for each entity, in key order; of facets too, if the partition has any.

    A published set may differ from the summary by fewer than `min_changes` sentences, or than the
    highest that the rows record. Raises CorruptRow.
    """
    facets = read_criteria(rows)
    min_changes = max(min_changes, read_min_changes(rows))
    rank = partial(brute_force, distinct=distinct, by_text=by_text)
    for snapshot in read_snapshots(rows, dimension):
        problems = [
            f"{many(count, 'rows')} of incarnation {incarnation}, "
            "which is neither live nor noted for removal"
            for incarnation, count in snapshot.others.items()
            if rows.get(garbage_key(snapshot.entity, incarnation)) is None
        ]
        if snapshot.header is not None:
            problems += _count_problems(snapshot)
            problems += [] if facets is None else _mention_problems(snapshot, facets)
            for tracked in _sets(snapshot, k, facets):
                problems += _set_problems(snapshot, tracked, rank, min_changes)
        elif not problems:
            continue  # a deleted entity whose rows wait for their removal
        yield EntityCheck(
            snapshot.entity.decode("utf-8", "backslashreplace"),
            snapshot.live_reviews,
            len(snapshot.ids),
            tuple(problems),
        )


def _count_problems(snapshot: Snapshot) -> list[str]:
    """Header, reviews, texts and vectors must have the same sentences."""
    assert snapshot.header is not None
    problems = []
    if snapshot.header.reviews != snapshot.live_reviews:
        problems.append(
            f"header counts {many(snapshot.header.reviews, 'reviews')}, "
            f"rows hold {snapshot.live_reviews:,}"
        )
    if snapshot.header.sentences != len(snapshot.ids):
        problems.append(
            f"header counts {many(snapshot.header.sentences, 'sentences')}, "
            f"rows hold {len(snapshot.ids):,}"
        )
    live = [review.details.rating for review in snapshot.reviews.values() if not review.deleted]
    held = reduce(RatingCounts.plus, live, NO_RATINGS)
    if snapshot.header.ratings != held:
        problems.append(
            f"header counts {_shown(snapshot.header.ratings, 'ratings ')}, rows hold {_shown(held)}"
        )
    if len(set(snapshot.ids)) != len(snapshot.ids):
        problems.append("a sentence has two vectors")
    if snapshot.texts.keys() != set(snapshot.ids):
        problems.append("texts and vectors are not of the same sentences")
    for review_id, review in snapshot.reviews.items():
        if review.deleted and (review.text_chunks or review.vector_chunks):
            problems.append(f"deleted review {review_id!r} has sentences")
    return problems


def _mention_problems(snapshot: Snapshot, facets: FacetCriteria) -> list[str]:
    """Each live review must have the mentions of its texts, and each sentence the facets that quote
    it.
    """
    mentions: dict[bytes, int] = {}
    problems = []
    for name, text in snapshot.texts.items():
        row, parsed = snapshot.reviews.get(review_of(name)), parse_sentence_id(name)
        if row is None or parsed is None:
            continue  # `_count_problems` tells that
        review_id, ordinal = parsed
        languages = row.language, row.details.language
        words, marks = facets.mentions((text,), *languages), row.label_bits.get(ordinal, 0)
        mentions[review_id] = mentions.get(review_id, 0) | words
        if marks != facets.marks(marks, words, text, *languages):
            problems.append(f"sentence {name!r} does not have the facets that quote it")
    for review_id, row in snapshot.reviews.items():
        if not row.deleted and mentions.get(review_id, 0) != row.mentions:
            problems.append(f"review {review_id!r} does not have the mentions of its sentences")
    return problems


def _shown(counts: RatingCounts, what: str = "") -> str:
    ratings = counts.ratings()
    return f"{ratings.count} {what}of mean {ratings.mean} ({ratings.histogram or 'no histogram'})"


class _Set(NamedTuple):
    """A set to verify: its size, the one last published as `{sentence id: text digest}`, and for a
    facet its name and the rows of its sentences.
    """

    k: int
    published: Mapping[bytes, bytes]
    facet: str | None = None
    rows: Sequence[int] | None = None


def _sets(snapshot: Snapshot, k: int, criteria: FacetCriteria | None) -> Iterator[_Set]:
    """The summary, and the visible facets if there are any."""
    (summary,) = _published(snapshot, SUMMARIES, 1)
    yield _Set(k, summary)
    if criteria is None:
        return
    members = FacetMembers(criteria, snapshot.reviews.items())
    places = [parse_sentence_id(identifier) or (b"", 0) for identifier in snapshot.ids]
    bits = members.bits(snapshot.vectors, places)
    signs = members.signs(snapshot.vectors, places)
    sets = criteria.definitions.sets
    published = _published(snapshot, FACETS, len(sets))
    for (number, sign), digests in zip(sets, published, strict=True):
        facet, label = (
            criteria.definitions.facets[number],
            criteria.definitions.summaries[number].label,
        )
        of = {sign: f", {side}" for side, sign in SIDES.items()}.get(sign, "")
        yield _Set(
            facet.size(sign), digests, f"{label}{of}", rows_of(bits, number, sign, signs).tolist()
        )


def _published(
    snapshot: Snapshot, topic: OutputTopic, count: int
) -> Sequence[Mapping[bytes, bytes]]:
    """The `count` sets published last."""
    published = snapshot.published.get(topic)
    return [{}] * count if published is None else published.sets


def _set_problems(
    snapshot: Snapshot, stored: _Set, rank: Callable[..., Ranking], min_changes: int
) -> list[str]:
    """The published set must be the brute-force one, or not due for publication."""
    ids, vectors, digests = snapshot.ids, snapshot.vectors, stored.published
    if stored.rows is not None:
        ids, vectors = [ids[row] for row in stored.rows], vectors[stored.rows]
    expected = set(rank(ids, vectors, stored.k).ids)
    now = {
        sentence: formats.text_digest(snapshot.texts[sentence])
        if sentence in snapshot.texts
        else digests.get(sentence, b"")
        for sentence in expected
    }
    if not is_due(digests, now, min_changes):
        return []
    problems = []
    if missing := sorted(expected - digests.keys()):
        problems.append(f"not published, but among the nearest: {_list(missing)}")
    if excess := sorted(digests.keys() - expected):
        problems.append(f"published, but not among the nearest: {_list(excess)}")
    stale = sorted(
        identifier
        for identifier in expected & digests.keys()
        if identifier in snapshot.texts
        and formats.text_digest(snapshot.texts[identifier]) != digests[identifier]
    )
    if stale:
        problems.append(f"published with another text: {_list(stale)}")
    return problems if stored.facet is None else [f"facet {stored.facet!r}: {p}" for p in problems]


def _list(identifiers: list[bytes]) -> str:
    shown = ", ".join(
        identifier.decode("utf-8", "backslashreplace") for identifier in identifiers[:3]
    )
    return shown if len(identifiers) <= 3 else f"{shown} and {len(identifiers) - 3} more"
