"""Why a summary or facet changed, in plain words, as far as a change and the set before prove it.

With `COVERSUMM_EMIT=coalesced`, or if a record has several events, a change is the sum of several,
and its cause is the last one. Then "pushed out" and "entered" may also be the effect of an earlier
one.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from worker.events import SummarySentence
from worker.view.board import EntityNames, ShownChange

_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905


def headline(change: ShownChange, names: EntityNames) -> str:
    """One sentence: what happened, and what it did to the summary or facet."""
    if not (change.added or change.removed_ids):
        return f"{change.cause.type}: what came and left is not known here"
    match change.cause.type:
        case "review.upserted":
            return _after_upsert(change, _review(change, names))
        case "review.deleted":
            return _after_deletion(change, _review(change, names))
        case "sentences.deleted":
            left = f"{len(change.removed_ids)} left the {_noun(change)}"
            return f"single sentences were taken down: {left}" + _entered(change)
        case "entity.deleted":
            return "entity deleted: nothing is left to summarize"
        case other:
            return f"{other} changed the {_noun(change)}"


def why_come(change: ShownChange, sentence: SummarySentence) -> str:
    """A word or two beside a sentence that came in by the change."""
    if sentence.sentence_id in change.removed_ids:
        return "edited"
    return "new" if _is_brought(change, sentence) else "entered"


def why_gone(change: ShownChange, sentence_id: str) -> str:
    """A word or two beside a sentence that left by the change."""
    match change.cause.type:
        case "review.upserted":
            return "edited away" if _is_of_cause(change, sentence_id) else "pushed out"
        case "review.deleted":
            return "taken down" if _is_of_cause(change, sentence_id) else "pushed out"
        case _:
            return "gone"


def _noun(change: ShownChange) -> str:
    return "summary" if change.name.facet is None else "facet"


def _after_upsert(change: ShownChange, review: str) -> str:
    of_cause = sum(_is_of_cause(change, one) for one in change.removed_ids)
    if of_cause:
        others = any(not _is_brought(change, one) for one in change.added)
        return f"{review} was edited: {_edited(change, of_cause)}" + (
            ", another sentence entered" if others else ""
        )
    if not change.added:  # the newest reviews: the oldest of them made room
        return f"{review} came in: {_sentences(len(change.removed_ids))} left the {_noun(change)}"
    if change.is_first:
        first = "summary" if change.name.facet is None else "sentences of the facet"
        return f"{review} came in: the first {first}"
    if not any(_is_brought(change, one) for one in change.added):
        return f"{review} came in and shifted the average: another sentence is closer to it now"
    if not change.removed_ids:
        return f"{review} came in: the {_noun(change)} still has room for what it says"
    return f"{review} came in: it is closer to what most say than what it pushes out"


def _edited(change: ShownChange, of_cause: int) -> str:
    """What an edit did to sentences of its review. They leave a facet in the same words too, with
    another rating, date or label.
    """
    added = {one.sentence_id for one in change.added}
    if change.name.facet is None or not added.isdisjoint(change.removed_ids):
        return "its old words are gone"
    return f"{_sentences(of_cause)} of it left the facet"


def _sentences(number: int) -> str:
    return "one sentence" if number == 1 else f"{number} sentences"


def _after_deletion(change: ShownChange, review: str) -> str:
    gone = sum(_is_of_cause(change, one) for one in change.removed_ids)
    if not gone and not change.added:
        left = f"{_sentences(len(change.removed_ids))} left the {_noun(change)}"
        return f"{review} was taken down: {left}"
    if not gone:
        then = "another sentence is closer to it now"
        return f"{review} was taken down, which shifted the average: {then}"
    what = "its sentence is gone" if gone == 1 else "its sentences are gone"
    return f"{review} was taken down: {what}" + _entered(change)


def _entered(change: ShownChange) -> str:
    entered = len(change.added)
    return (
        ""
        if not entered
        else ", this one entered"
        if entered == 1
        else f", {entered} others entered"
    )


def _is_brought(change: ShownChange, sentence: SummarySentence) -> bool:
    return change.cause.type == "review.upserted" and sentence.review_id == change.cause.review_id


def _is_of_cause(change: ShownChange, sentence_id: str) -> bool:
    """Whether the review of the cause had the sentence: ids are `review_id#number`."""
    return sentence_id.rpartition("#")[0] == change.cause.review_id


def _review(change: ShownChange, names: EntityNames) -> str:
    name = f"review {names.review(change.cause.review_id or '?')}"
    day = _day(change.occurred_at)
    return name if day is None else f"{name} ({day})"


def _day(occurred_at: str | None) -> str | None:
    try:
        day = date.fromisoformat((occurred_at or "")[:10])
    except ValueError:
        return None
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
