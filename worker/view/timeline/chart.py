"""The timeline: a strip of what came and went, an axis, and a row for each sentence with a bar for
each of its lives.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from worker.published.history import HistoryStep
from worker.view.timeline.axis import Axis
from worker.view.timeline.lives import Life, SentenceLife
from worker.view.timeline.markup import Html, element, foreign, text

END: Final = 100.0
"""Where a bar ends whose sentence is still there."""
SHADES: Final = 5
"""Of ratings, from the lowest to the highest that there is."""


class Scale(NamedTuple):
    """Of ratings: five stars, or where one lies outside of these, from the lowest to the highest
    there is.
    """

    lowest: float
    highest: float

    @classmethod
    def of(cls, ratings: Sequence[float]) -> "Scale | None":
        """None where there is no rating."""
        if not ratings:
            return None
        if FIVE_STARS.lowest <= min(ratings) and max(ratings) <= FIVE_STARS.highest:
            return FIVE_STARS
        return cls(min(ratings), max(ratings))

    def shade(self, rating: float | None) -> str:
        """The class of a bar."""
        if rating is None:
            return "r-none"
        share = (
            1.0
            if self.highest == self.lowest
            else (rating - self.lowest) / (self.highest - self.lowest)
        )
        return f"r{round(share * (SHADES - 1))}"


FIVE_STARS: Final = Scale(1, 5)


class Axes(NamedTuple):
    """Both axes; each place has its position on either, the style sheet takes that of the axis that
    is chosen.
    """

    by_time: Axis
    by_step: Axis

    def span(self, first: int, last: int | None) -> str:
        """The style of what reaches from one step to another, or to the end."""
        time, step = self.by_time.at, self.by_step.at
        ends = (END, END) if last is None else (time[last], step[last])
        return f"--a:{time[first]};--b:{ends[0]};--sa:{step[first]};--sb:{ends[1]}"


def chart(
    steps: Sequence[HistoryStep],
    sentences: Sequence[SentenceLife],
    by_time: Axis,
    by_step: Axis,
    *,
    has_clock: bool,
) -> Html:
    """The whole of it."""
    axes = Axes(by_time, by_step)
    scale = Scale.of([one.latest.rating for one in sentences if one.latest.rating is not None])
    return element(
        "figure",
        element("figcaption", text("When each sentence was in the summary"), *_legend(scale)),
        element(
            "div",
            _head(steps, axes),
            element(
                "div", *(_row(one, axes, scale) for one in sentences), class_="rows", role="list"
            ),
            element(
                "div",
                element("i", class_="cursor"),
                *_lines(axes),
                class_="grid",
                aria_hidden="true",
            ),
            class_="plot",
            id_="plot",
            tabindex="0",
            role="group",
            aria_label="Timeline of sentences",
        ),
        class_="chart",
        id_="chart",
        data_axis="time" if has_clock else "steps",
    )


def _head(steps: Sequence[HistoryStep], axes: Axes) -> Html:
    most = max(1, *(max(_came(step), _left(step)) for step in steps))
    marks = (
        element(
            "i",
            class_=" ".join(filter(None, ("step", _kind(step), "gap" if step.incomplete else ""))),
            style=f"{axes.span(i, None)};--up:{_came(step) / most:.3f};--down:{_left(step) / most:.3f}",
        )
        for i, step in enumerate(steps)
    )
    ticks = (
        element("span", text(tick.label), class_=f"tick {name}", style=f"--at:{tick.at}")
        for name, axis in zip(("time", "steps"), axes, strict=True)
        for tick in axis.ticks
    )
    return element(
        "div",
        element("span", text("came"), element("b", text("left")), class_="label"),
        element("span", *marks, *ticks, class_="track"),
        class_="head",
        aria_hidden="true",
    )


def _lines(axes: Axes) -> Iterator[Html]:
    for name, axis in zip(("time", "steps"), axes, strict=True):
        for tick in axis.ticks:
            yield element("i", class_=f"line {name}", style=f"--at:{tick.at}")


def _row(sentence: SentenceLife, axes: Axes, scale: Scale | None) -> Html:
    one = sentence.latest
    bars = (
        _bar(life, axes, "r-none" if scale is None else scale.shade(one.rating))
        for life in sentence.lives
    )
    rating = (
        Html("") if one.rating is None else element("b", text(f"{one.rating:g}"), class_="rating")
    )
    label = element(
        "span",
        rating,
        element("q", foreign(one.text)),
        element("small", foreign(one.sentence_id)),
        element("span", text(f", {_spoken(sentence.lives)}"), class_="hidden"),
        class_="label",
    )
    return element(
        "div", label, element("span", *bars, class_="track"), class_="row", role="listitem"
    )


def _bar(life: Life, axes: Axes, shade: str) -> Html:
    kinds = (
        "bar",
        shade,
        "" if life.is_start_known else "from-before",
        "" if life.is_end_known else "gone-unseen",
        "still" if life.last is None else "",
    )
    return element(
        "i",
        class_=" ".join(filter(None, kinds)),
        style=axes.span(life.first, life.last),
        data_first=life.first + 1,
        data_last=None if life.last is None else life.last + 1,
    )


def _spoken(lives: Sequence[Life]) -> str:
    """For those who cannot see the bars."""
    return ", ".join(
        f"from change {one.first + 1} on"
        if one.last is None
        else f"from change {one.first + 1} to {one.last + 1}"
        for one in lives
    )


def _legend(scale: Scale | None) -> Iterator[Html]:
    if scale is None:
        return
    shades = (element("i", class_=f"r{number}") for number in range(SHADES))
    words = (text(f"rated {scale.lowest:g} "), *shades, text(f" {scale.highest:g}"))
    if scale.lowest == scale.highest:
        words = (element("i", class_=f"r{SHADES - 1}"), text(f" rated {scale.highest:g}"))
    yield element("span", *words, class_="legend")


def _came(step: HistoryStep) -> int:
    body = step.publication.body
    return 0 if body is None else len(body.added)


def _left(step: HistoryStep) -> int:
    body = step.publication.body
    if body is None:
        return 0 if step.before is None else len(step.before.sentences)
    return len(body.removed)


def _kind(step: HistoryStep) -> str:
    body = step.publication.body
    return "end" if body is None or not body.sentences else ""
