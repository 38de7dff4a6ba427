"""What the terminal shows: our figures, and the paper's beside them, marked as theirs."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from tests.bench.paper import theirs
from tests.bench.paper.methods import IN_TABLE
from tests.bench.paper.screen import number, share

Row = Mapping[str, Any]
# Whose column of the paper's table stands beside ours: the reviews are others than theirs.
BESIDE = {"reviews": "amazon"}


def runtime(rows: Sequence[Row], names: Sequence[str]) -> Table:
    """Table 1's layout: groups of methods against streams, seconds an entity and accuracy, ours and
    theirs.
    """
    table = _table(
        "Runtime, mean of the runs, and accuracy: steps with the right sentences in the right "
        "order",
        f"{theirs.TABLE_1_SOURCE}, {_lengths(rows)}; beside space theirs are of SPACE (these: as "
        "many dimensions, made), beside reviews of Amazon",
    )
    table.add_column("method", no_wrap=True)
    cells = {(row["stream"], row["method"]): row for row in rows}
    shown = [stream for stream in names if any(stream == of for of, _ in cells)]
    for stream in shown:
        table.add_column(f"{stream}\ns", justify="right", min_width=7)
        table.add_column("\n%", justify="right")
        table.add_column("theirs\ns", justify="right", style="dim italic")
        table.add_column("theirs\n%", justify="right", style="dim italic")
    group = ""
    for name, method in IN_TABLE.items():
        if not any((stream, name) in cells for stream in shown):
            continue
        if method.group != group:
            group = method.group
            table.add_section()
            table.add_row(f"[bold]{group}")
        line = [f"  {name}"]
        for stream in shown:
            figure = theirs.TABLE_1[BESIDE.get(stream, stream)].get(name)
            line += _cells(cells.get((stream, name)), rows)
            line += [number(figure.seconds), share(figure.accuracy)] if figure else ["", ""]
        table.add_row(*line)
    return table


def per_event(rows: Sequence[Row]) -> Table:
    """The same runs by the event, and how often everything was searched."""
    table = _table("Time per event, and reservoir searches")
    table.add_column("method")
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    for stream in streams:
        table.add_column(f"{stream}\nµs", justify="right")
        table.add_column("\nsearches", justify="right")
    cells = {(row["stream"], row["method"]): row for row in rows}
    for name in IN_TABLE:
        line = [name]
        for stream in streams:
            row = cells.get((stream, name))
            line += (
                [number(row["us_per_event"]), f"{row['reservoir_searches']:,}"] if row else ["", ""]
            )
        if any(line[1:]):
            table.add_row(*line)
    return table


def searches(rows: Sequence[Row]) -> Table:
    table = _table(f"Reservoir searches, uniform\n{theirs.SEARCHES}")
    table.add_column("method")
    table.add_column("D", justify="right")
    marks = (0.1, 0.25, 0.5, 1.0)
    for mark in marks:
        table.add_column(f"n = {round(mark * rows[0]['n']):,}", justify="right")
    for row in rows:
        counts = [
            next(count for n, count in row["searches"] if n >= round(mark * row["n"]))
            for mark in marks
        ]
        table.add_row(row["method"], str(row["dimension"]), *map(str, counts))
    return table


def intervals(rows: Sequence[Row]) -> Table:
    """The law that fits better has the smaller factor by which an interval is off it."""
    table = _table(
        f"Events m from a search at t > {rows[0]['after']} to the next: m ~ t^exponent\n"
        f"{theirs.INTERVALS}"
    )
    for column in ("stream", "method"):
        table.add_column(column)
    for column in ("intervals", "exponent", "off c t by", "off c sqrt(t log t) by"):
        table.add_column(column, justify="right")
    for row in rows:
        fits = ("exponent", "off_t", "off_sqrt_t_log_t")
        table.add_row(
            row["stream"], row["method"], str(row["intervals"]), *(number(row[of]) for of in fits)
        )
    return table


def times(rows: Sequence[Row]) -> Table:
    table = _table("The start of one summary after t sentences")
    table.add_column("t", justify="right")
    table.add_column("summary", overflow="fold")
    for row in rows:
        table.add_row(f"{row['t']:,}", " / ".join(row["summary"]))
    return table


def reservoir(rows: Sequence[Row]) -> Table:
    table = _table(f"Reservoir size, uniform, {rows[0]['n']:,} events\n{theirs.RESERVOIR}")
    table.add_column("method")
    for column in ("k", "mean", "mean / k", "largest"):
        table.add_column(column, justify="right")
    for row in rows:
        mean = row["mean"]
        table.add_row(
            row["method"], str(row["k"]), f"{mean}", f"{mean / row['k']:.1f}", str(row["largest"])
        )
    return table


def modes(rows: Sequence[Row]) -> Table:
    table = _table(
        f"Gaussian mixture, {rows[0]['n']:,} events, µs per event (acc. %)\n{theirs.MODES}"
    )
    table.add_column("method")
    of = {(row["method"], row["modes"]): row for row in rows}
    numbers = list(dict.fromkeys(row["modes"] for row in rows))
    for m in numbers:
        table.add_column(f"m = {m}", justify="right")
    for method in dict.fromkeys(row["method"] for row in rows):
        table.add_row(
            method,
            *(
                f"{number(of[method, m]['us_per_event'])} ({share(of[method, m]['accuracy'])})"
                for m in numbers
            ),
        )
    return table


def growth(rows: Sequence[Row]) -> Table:
    table = _table("Time per event when n sentences are there, uniform x 100, µs")
    table.add_column("method")
    marks = sorted({row["n"] for row in rows})
    for n in marks:
        table.add_column(f"n = {n:,}", justify="right")
    of = {(row["method"], row["n"]): row for row in rows}
    for method in dict.fromkeys(row["method"] for row in rows):
        found = [of.get((method, n)) for n in marks]
        table.add_row(method, *(number(row["us_per_event"]) if row else "" for row in found))
    return table


def deletion(rows: Sequence[Row]) -> Table:
    table = _table(
        f"Deletion of random sentences, one by one, of {rows[0]['stored']:,} uniform x 100"
    )
    table.add_column("method")
    for column in ("deletions", "µs each", "acc. %", "searches"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["method"],
            str(row["deletions"]),
            number(row["us_per_deletion"]),
            share(row["accuracy"]),
            str(row["reservoir_searches"]),
        )
    return table


def graphgrove(rows: Sequence[Row]) -> Table:
    table = _table(
        "Naive cover tree on the real graphgrove: a tree in C++, float32, seconds of wall time"
    )
    table.add_column("stream")
    for column in ("n", "s", "µs/event", "inserting, s", "kNN, s", "last kNN right"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["stream"],
            f"{row['n']:,}",
            number(row["seconds"]),
            number(row["us_per_event"]),
            number(row["insert_seconds"]),
            number(row["knn_seconds"]),
            "yes" if row["last_right"] else "no",
        )
    return table


def _table(title: str, source: str | None = None) -> Table:
    return Table(
        title=title,
        title_justify="left",
        caption=f"theirs: {source}" if source else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
    )


def _lengths(rows: Sequence[Row]) -> str:
    """Seconds of longer streams are more seconds."""
    ours = max(row["n"] for row in rows)
    return f"streams of {theirs.THEIR_EVENTS:,} events (these: {ours:,})"


def _cells(row: Row | None, rows: Sequence[Row]) -> list[str]:
    """Seconds and accuracy; a run that its budget cut short says how far it came."""
    if row is None:
        return ["", ""]
    whole = max(of["n"] for of in rows if of["stream"] == row["stream"])
    short = "" if row["n"] == whole else f" (n={row['n']:,})"
    return [number(row["seconds"]) + short, share(row["accuracy"])]
