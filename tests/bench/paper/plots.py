"""The figures, as PNG files of 800 x 450 pixels. matplotlib is imported when they are drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.canvas import Canvas

SHADES = ("#d73027", "#fc8d59", "#91bfdb", "#4575b4", "#313695", "#7f7f7f")
OURS = {"exact": "#b2182b", "exact, amortised": "#fdb863"}
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

    def time(self, curves: Mapping[str, Sequence[tuple[int, float]]], stream: str) -> None:
        """Seconds so far against events, a line a method."""
        figure, (axes,) = self._figure(1)
        for method, curve in curves.items():
            if len(curve) > 1:
                axes.plot(*zip(*curve, strict=True), label=method, **self._style(method))
            else:  # all events in one call: known at the end alone
                axes.plot(*curve[0], "o", label=method, **self._style(method))
        axes.set_yscale("log")
        self._finish(
            figure,
            axes,
            "time",
            f"Time for a stream ({stream})",
            "events",
            "processor time so far (s)",
        )

    def searches(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Searches against n, a line a dimension, and in all against the dimension."""
        axes = self._two(rows, "searches", "dimension", "D")
        axes[1].set_title(f"all {rows[0]['n']:,} events", fontsize=9)
        self._label(axes[0], "events", "reservoir searches so far")
        self._label(axes[1], "dimensions D", "reservoir searches")
        self._save(axes[0].figure, "searches", "Reservoir searches (uniform)")

    def reservoir(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The reservoir's size against n, a line a k, and its mean against k."""
        axes = self._two(rows, "size", "k", "k", "mean")
        axes[1].set_title("mean over the second half of the events", fontsize=9)
        self._label(axes[0], "events", "sentences in the reservoir")
        self._label(axes[1], "k", "sentences in the reservoir")
        self._save(axes[0].figure, "reservoir", "Reservoir size (uniform)")

    def _two(
        self,
        rows: Sequence[Mapping[str, Any]],
        curve: str,
        key: str,
        symbol: str,
        end: str | None = None,
    ) -> Sequence[Any]:
        """Curves on the left, a colour a key and a dash a method; on the right what they
        come to.
        """
        figure, axes = self._figure(2)
        left, right = axes
        keys = list(dict.fromkeys(row[key] for row in rows))
        for method in dict.fromkeys(row["method"] for row in rows):
            of = [row for row in rows if row["method"] == method]
            dash = "--" if method in OURS else "-"
            for row in of:
                colour = SHADES[keys.index(row[key]) % len(SHADES)]
                left.plot(*zip(*row[curve], strict=True), dash, color=colour, linewidth=1.3)
            ends = [row[end] if end else row[curve][-1][1] for row in of]
            right.plot(
                [row[key] for row in of], ends, dash + "o", label=method, **self._style(method)
            )
            left.plot([], [], dash, color="black", label=method)
        for at, value in enumerate(keys):
            left.plot([], [], color=SHADES[at % len(SHADES)], label=f"{symbol} = {value}")
        right.set_ylim(bottom=0)
        figure.legend(
            *left.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=7,
            fontsize=8,
            frameon=False,
        )
        return axes

    def modes(self, rows: Sequence[Mapping[str, Any]]) -> None:
        figure, (axes,) = self._figure(1)
        self._times(axes, rows, "modes")
        axes.set_yscale("log")
        self._finish(
            figure,
            axes,
            "modes",
            f"Time against modes (Gaussian mixture, {rows[0]['n']:,} events)",
            "modes m",
            "µs per event",
        )

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

    def deletion(self, rows: Sequence[Mapping[str, Any]]) -> None:
        figure, (axes,) = self._figure(1)
        names = [row["method"] for row in rows]
        times = [row["us_per_deletion"] for row in rows]
        axes.barh(names, times, color=[self._style(name)["color"] for name in names])
        for name, value in zip(names, times, strict=True):
            axes.text(value + max(times) / 100, name, f"{value:,.0f}", va="center", fontsize=8)
        axes.set_axisbelow(True)
        axes.invert_yaxis()
        self._finish(
            figure,
            axes,
            "deletion",
            f"Removing one of {rows[0]['stored']:,} sentences (uniform)",
            "µs per deletion",
            "",
            legend=False,
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
