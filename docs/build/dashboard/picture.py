"""`python -m docs.build.dashboard.picture [FILE]`: the dashboard's panels, drawn from what a real
Prometheus has of real workers.

For readers without a Grafana, and to see that the panels show something. Minutes long: what is
drawn has to happen first.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from docs.build.dashboard.panels import ROWS, Panel, Query
from tests.harness.broker import KafkaBroker
from tests.harness.observed import REPLAY, WORKERS, Site, observed
from tests.harness.prometheus import Prometheus, filled_in

TARGET: Final = Path(__file__).resolve().parents[2] / "dashboard.png"
WINDOW: Final = "15s"
STEP_SECONDS: Final = 2.0
SETTLE_SECONDS: Final = 20.0
STAGES: Final[Sequence[tuple[Callable[[Site], None], float]]] = (
    (Site.begin, 60.0),
    (Site.replay, 30.0),
    (Site.lose_a_disk, 40.0),
    (Site.open_a_transaction, 30.0),
)
"""What happens, and how long until the next."""

COLOURS: Final = (
    "#3274d9",
    "#e0a100",
    "#2f9e44",
    "#c4382f",
    "#8f4bbf",
    "#12888f",
    "#d9772b",
    "#6b7280",
)
FAINT: Final = "#d7dbe2"
INK: Final = "#1f2733"
INCH: Final = 0.24
"""Height of a unit of the grid."""
WIDTH_INCHES: Final = 14.0
HEIGHTS: Final = {"stat": 4, "lines": 8.5, "stacked": 8.5}
HEADING: Final = 2


class Series(NamedTuple):
    """A line: its name, and seconds since the beginning with their values."""

    name: str
    points: list[tuple[float, float]]


def main(arguments: Sequence[str]) -> int:
    """Let it happen, and draw it into FILE."""
    target = Path(arguments[0]) if arguments else TARGET
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with (
            KafkaBroker(folder / "kafka") as broker,
            observed(broker, "reviews", folder / "site") as site,
        ):
            began = time.time()
            for stage, seconds in STAGES:
                stage(site)
                time.sleep(seconds)
            draw(site.prometheus, began + SETTLE_SECONDS, time.time(), target)
    print(f"drawn: {target}")
    return 0


def draw(prometheus: Prometheus, start_s: float, end_s: float, target: Path) -> None:
    """Every row with its panels, from top to bottom."""
    pyplot.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8, "text.color": INK})
    places = list(_places())
    units = max(bottom for *_, bottom in places)
    figure = pyplot.figure(figsize=(WIDTH_INCHES, units * INCH), facecolor="#f4f5f7")
    for what, left, width, top, bottom in places:
        if isinstance(what, str):
            figure.text(0.012, 1 - (bottom - 0.45) / units, what, weight="bold", size=11)
            continue
        inner = 0.034 if what.kind != "stat" else 0.0
        box = (
            0.012 + left * 0.976 + inner,
            1 - (bottom - (1.7 if what.kind != "stat" else 0.3)) / units,
            width * 0.976 - inner - 0.014,
            (bottom - top - (3.4 if what.kind != "stat" else 0.7)) / units,
        )
        axes = figure.add_axes(box)
        series = [
            line for query in what.queries for line in _series(prometheus, query, start_s, end_s)
        ]
        if what.kind == "stat":
            _draw_figure(axes, what, series)
        else:
            _draw_lines(axes, what, series, end_s - start_s)
    figure.savefig(target, dpi=100, facecolor=figure.get_facecolor())
    pyplot.close(figure)
    with Image.open(target) as image:  # a palette: a third of the bytes
        image.convert("RGB").quantize(200).save(target, optimize=True)


def _places() -> Iterator[tuple[str | Panel, float, float, float, float]]:
    """Headings and panels with their left edge and width as shares, and their top and bottom in
    units.
    """
    y = 0.0
    for row in ROWS:
        yield row.title, 0.0, 1.0, y, y + HEADING
        x, y = 0, y + HEADING
        for panel in row.panels:
            if x + panel.width > 24:
                x, y = 0, y + HEIGHTS[panel.kind]
            yield panel, x / 24, panel.width / 24, y, y + HEIGHTS[panel.kind]
            x += panel.width
        y += HEIGHTS[row.panels[-1].kind]


def _series(prometheus: Prometheus, query: Query, start_s: float, end_s: float) -> Iterator[Series]:
    expr = filled_in(query.expr, WINDOW, job=WORKERS, replay=REPLAY)
    for labels, points in prometheus.over_time(expr, start_s, end_s, STEP_SECONDS):
        name = re.sub(r"\{\{(\w+)\}\}", lambda found, of=labels: of.get(found[1], ""), query.legend)
        yield Series(name, [(at - start_s, value) for at, value in points if math.isfinite(value)])


def _draw_figure(axes: Axes, panel: Panel, series: Sequence[Series]) -> None:
    axes.set(xticks=[], yticks=[])
    axes.patch.set_facecolor("white")
    axes.spines[:].set_color(FAINT)
    axes.text(0.5, 0.8, panel.title, ha="center", va="center", size=8.5, transform=axes.transAxes)
    values = [line.points[-1][1] for line in series if line.points]
    text = _shown(panel.unit, values[0]) if values else "none"
    if panel.title == "Builds" and series:
        text = series[0].name
    size = 19 if len(text) < 9 else 10
    axes.text(
        0.5,
        0.36,
        text,
        ha="center",
        va="center",
        size=size,
        color=COLOURS[0],
        transform=axes.transAxes,
    )


def _draw_lines(axes: Axes, panel: Panel, series: Sequence[Series], seconds: float) -> None:
    axes.patch.set_facecolor("white")
    axes.set_title(panel.title, loc="left", size=9, weight="bold", pad=4)
    shown = sorted((line for line in series if line.points), key=lambda line: line.name)
    if panel.kind == "stacked":
        _stack(axes, shown)
    else:
        for colour, curve in zip(_colours(len(shown)), shown, strict=True):
            axes.plot(
                *zip(*curve.points, strict=True), color=colour, linewidth=1.3, label=curve.name
            )
    axes.set(xlim=(0, seconds))
    axes.set_ylim(bottom=0, top=None if axes.get_ylim()[1] > 0 and _most(shown) > 0 else 1)
    steps = [1, 2, 2.56, 5.12, 10] if panel.unit == "bytes" else None  # near powers of two
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=steps))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 3, 6]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _shown(panel.unit, value)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=7, colors="#5b6472")
    axes.spines[:].set_color(FAINT)
    if shown:
        columns = min(len(shown), 2 if panel.width <= 8 else 5)
        axes.legend(
            loc="upper left", ncols=columns, fontsize=6.5, frameon=True, framealpha=0.8,
            edgecolor="none",
            handlelength=1.2, columnspacing=1.0, labelspacing=0.25, borderpad=0.2,
        )  # fmt: skip
        axes.set_ylim(top=axes.get_ylim()[1] * (1.12 + 0.1 * math.ceil(len(shown) / columns)))


def _stack(axes: Axes, series: Sequence[Series]) -> None:
    times = sorted({at for line in series for at, _ in line.points})
    below = [0.0] * len(times)
    for colour, layer in zip(_colours(len(series)), series, strict=True):
        values = dict(layer.points)
        above = [lower + values.get(at, 0.0) for at, lower in zip(times, below, strict=True)]
        axes.fill_between(
            times, below, above, color=colour, alpha=0.55, linewidth=0.4, label=layer.name
        )
        below = above


def _colours(count: int) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(count)]


def _most(series: Sequence[Series]) -> float:
    return max((value for line in series for _, value in line.points), default=0.0)


def _shown(unit: str, value: Any) -> str:
    """A value as Grafana would write it."""
    if value == 0:
        return "0"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.4g} s"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    short = (
        f"{value / 1000:.3g} k"
        if value >= 10_000
        else f"{value:.3g}"
        if value < 1000
        else f"{value:,.0f}"
    )
    return f"{short}/s" if unit == "ops" else short


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
