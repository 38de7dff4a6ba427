"""Each change in words: when, why, and the sentences that came and left."""

from collections.abc import Iterator, Sequence

from worker.events import SummarySentence
from worker.published.history import HistoryStep, PublishedChange
from worker.view.board import EntityNames, ShownChange
from worker.view.reasons import headline, why_come, why_gone
from worker.view.timeline.markup import Html, element, foreign, text

_NAMES = EntityNames()
_UNKNOWN = "its text is not known here"


def details(steps: Sequence[HistoryStep]) -> Html:
    """All steps as a list, the oldest first."""
    return element("ol", *(_item(number, step) for number, step in enumerate(steps, start=1)))


def _item(number: int, step: HistoryStep) -> Html:
    return element(
        "li",
        element("h3", element("span", text(f"{number:,}"), class_="number"), _headline(step)),
        element("p", *_about(step), class_="about"),
        element("ul", *_sentences(step)),
        id_=f"change-{number}",
    )


def _headline(step: HistoryStep) -> Html:
    change = _change(step)
    words = "The entity is forgotten: a tombstone" if change is None else headline(change, _NAMES)
    facet = step.publication.facet
    return foreign(words[:1].upper() + words[1:] if facet is None else f"{facet}: {words}")


def _change(step: HistoryStep) -> ShownChange | None:
    """None for a tombstone."""
    body, facet = step.publication.body, step.publication.facet
    return None if body is None else ShownChange.of(body, step.known_before, facet)


def _about(step: HistoryStep) -> Iterator[Html]:
    """Times, cause and place."""
    change = PublishedChange.of(step)
    for name, moment in (("happened", change.occurred_at), ("published", change.published_at)):
        if moment is not None:
            yield element("span", text(f"{name} "), element("time", text(moment), datetime=moment))
    if change.cause is not None:
        cause = change.cause
        yield element("span", text(cause["type"]))
        yield element(
            "span", foreign(f"{cause['topic']} [{cause['partition']}] {cause['offset']:,}")
        )
    if change.sequence is not None:
        yield element("span", text(f"sequence {change.sequence:,}"))
    if step.incomplete:
        yield element("span", text("changes before it are not here"), class_="gap")


def _sentences(step: HistoryStep) -> Iterator[Html]:
    change = _change(step)
    if change is None:
        for one in step.before.sentences if step.before is not None else ():
            yield _line("left", one, one.sentence_id, "forgotten")
        return
    for one in change.added:
        yield _line("came", one, one.sentence_id, why_come(change, one))
    known = {one.sentence_id: one for one in change.removed}
    for identifier in change.removed_ids:
        yield _line("left", known.get(identifier), identifier, why_gone(change, identifier))


def _line(kind: str, sentence: SummarySentence | None, identifier: str, why: str) -> Html:
    words = (
        element("em", text(_UNKNOWN)) if sentence is None else element("q", foreign(sentence.text))
    )
    rating = None if sentence is None or sentence.rating is None else f"{sentence.rating:g}"
    sign = "came: " if kind == "came" else "left: "
    return element(
        "li",
        element("span", text(sign), class_="hidden"),
        words,
        Html("") if rating is None else element("b", text(rating), class_="rating"),
        element("small", foreign(identifier)),
        element("small", text(why), class_="why"),
        class_=kind,
    )
