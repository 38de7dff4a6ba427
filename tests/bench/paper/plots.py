"""The figures, as PNG files of 800 x 450 pixels. matplotlib is imported when they are drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.canvas import Canvas

OURS = {
    "exact": "#b2182b",
    "exact, amortised": "#fdb863",
    "native": "#67001f",
    "native, amortised": "#d6604d",
}
THEIRS = (
    "#2166ac",
    "#4393c3",
    "#92c5de",
    "#1b7837",
    "#5aae61",
    "#762a83",
    "#9970ab",
    "#7f7f7f",
    "#bcbd22",
    "#8c510a",
)


class Plots(Canvas):
    """Draws into `folder`, file names beginning with `prefix`; without matplotlib it
    draws nothing.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        super().__init__(folder, prefix)
        self._colours: dict[str, str] = {}

    # ---- what is drawn

    def growth(self, rows: Sequence[Mapping[str, Any]]) -> None:
        figure, (axes,) = self._figure(1)
        self._times(axes, rows, "n")
        axes.set_xscale("log")
        axes.set_yscale("log")
        self._finish(
            figure,
            axes,
            "growth",
            "Time of an event when n sentences are there (uniform)",
            "n",
            "µs per event",
        )

    # ---- how

    def _times(self, axes: Any, rows: Sequence[Mapping[str, Any]], key: str) -> None:
        """Each method's time per event against a field of its rows."""
        for method in dict.fromkeys(row["method"] for row in rows):
            of = [row for row in rows if row["method"] == method]
            times = [row["us_per_event"] for row in of]
            axes.plot([row[key] for row in of], times, "o-", label=method, **self._style(method))

    def _style(self, method: str) -> dict[str, Any]:
        if method not in self._colours:
            taken = sum(name not in OURS for name in self._colours)
            self._colours[method] = OURS.get(method, THEIRS[taken % len(THEIRS)])
        return {
            "color": self._colours[method],
            "linewidth": 2.2 if method in OURS else 1.3,
            "markersize": 5,
        }
