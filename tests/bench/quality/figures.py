"""The figures of `make quality`, drawn from its record."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.canvas import Canvas

COLOURS = {
    "ours": "#b2182b",
    "coversumm-random": "#4393c3",
    "coversumm-decay": "#2166ac",
    "SumBasic": "#1b7837",
    "LexRank": "#5aae61",
    "TextRank": "#a6761d",
    "LSA": "#e6ab02",
    "Centroid-OPT": "#762a83",
    "Centroid-OPT as published": "#c2a5cf",
    "random": "#7f7f7f",
    "ours, short view": "#ef8a62",
    "oracle": "#222222",
}
NAMES = {"coversumm-random": "CoverSumm (random)", "coversumm-decay": "CoverSumm (decay)"}
GROUPS = ("#b2182b", "#ef8a62", "#4393c3", "#1b7837")


class Figures(Canvas):
    """Draws into `folder`, file names beginning with `prefix`; without matplotlib it
    draws nothing.
    """

    def draw(self, record: Mapping[str, Any]) -> None:
        """All of them."""
        if not self.able:
            return
        self._rouge(record["curves"])
        self._followed(record["courses"])
        self._staleness(record["staleness"])

    def _rouge(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """R1 as sentences come: what is only a way to the same sets is drawn once."""
        figure, (axes,) = self._figure(1)
        for row in rows:
            if row["method"] in COLOURS and row["method"] != "oracle":
                axes.plot(*zip(*row["r1"], strict=True), **self._style(row["method"]))
        self._label(axes, "sentences so far", "ROUGE-1, mean of three references")
        self._legend_below(figure, axes)
        self._save(
            figure, "rouge", "How like the human summaries: SPACE's hotels as their sentences come"
        )

    def _followed(self, courses: Sequence[Mapping[str, Any]]) -> None:
        """Polarity of two hotels, and the aspects of one."""
        parts = dict.fromkeys(
            (course["what"], course["entity"]) for course in courses if course["what"] != "rating"
        )
        ordered = sorted(parts, key=lambda part: part[0] != "polarity")
        figure, axes = self._figure(len(ordered))
        for panel, (what, entity) in zip(axes, ordered, strict=True):
            self._course(
                panel,
                [
                    course
                    for course in courses
                    if (course["what"], course["entity"]) == (what, entity)
                ],
            )
            unit = "sentences of an aspect so far" if what == "aspects" else "reviews so far"
            panel.set_title(
                f"{'aspects' if what == 'aspects' else 'polarity'}, {entity}", fontsize=9
            )
            self._label(panel, unit, "aspects" if what == "aspects" else "VADER's compound score")
        self._legend_below(figure, axes[0])
        self._save(figure, "followed", "Polarity and aspects of all sentences and of the summary's")

    def _staleness(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Changes and what is out of date against m; R1 lost."""
        figure, (left, right) = self._figure(2)
        for colour, group in zip(
            GROUPS, dict.fromkeys(row["entities"] for row in rows), strict=False
        ):
            of = [row for row in rows if row["entities"] == group]
            m = [row["m"] for row in of]
            left.plot(
                m,
                [100 * row["changes"] / of[0]["changes"] for row in of],
                "o-",
                color=colour,
                label=group,
                markersize=3.5,
            )
            right.plot(
                m, [100 * row["out_of_date"] for row in of], "o-", color=colour, markersize=3.5
            )
        left.set_yscale("log")
        left.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        self._label(left, "m: sentences that must differ", "changes published (% of m = 1)")
        self._label(right, "m: sentences that must differ", "of the set out of date, mean (%)")
        for panel in (left, right):
            panel.set_xticks([1, 5, 10, 15, 20])
        self._legend_below(figure, left)
        self._save(figure, "staleness", "Fewer changes, older sets")

    def _course(self, axes: Any, courses: Sequence[Mapping[str, Any]]) -> None:
        """All reviews as one line, and what each method's summary says."""
        at, all_, _ = zip(*courses[0]["points"], strict=True)
        axes.plot(at, all_, color="black", linewidth=2.0, label="all so far", zorder=4)
        for course in sorted(courses, key=lambda course: course["method"] == "ours"):
            if course["method"] == "random":
                continue
            at, _, summary = zip(*course["points"], strict=True)
            axes.plot(at, summary, **self._style(course["method"]), alpha=0.9)
        if "human" in courses[0]:
            axes.axhline(
                courses[0]["human"],
                color="#555555",
                linestyle="--",
                linewidth=1.3,
                label="human summaries",
            )

    @staticmethod
    def _legend_below(figure: Any, axes: Any) -> None:
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=5,
            fontsize=8,
            frameon=False,
        )

    @staticmethod
    def _style(method: str) -> dict[str, Any]:
        ours = method == "ours"
        return {
            "color": COLOURS[method],
            "linewidth": 2.2 if ours else 1.3,
            "label": NAMES.get(method, method),
            "zorder": 5 if ours else 3,
        }
