"""The whole evaluation, one part after another."""

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench import streams
from tests.bench.judge import History, added, brute_force
from tests.bench.paper import experiments, graphgrove_real, record, tables
from tests.bench.paper.measure import Outcome, run, run_once, search
from tests.bench.paper.methods import METHODS, Method, Setting
from tests.bench.paper.plan import Data, K, Plan, synthetic, table_1
from tests.bench.paper.plots import Plots
from tests.bench.paper.screen import Screen, number, share

LAZY = METHODS["coversumm-lazy"]
Row = dict[str, Any]


class Evaluation:
    """What a run finds, its tables and its files."""

    def __init__(
        self, plan: Plan, data: Path, screen: Screen, results: Path = record.RESULTS
    ) -> None:
        self.plan, self.data, self.screen, self.results = plan, data, screen, results
        bundled = data == streams.BUNDLED
        self.name = plan.name if bundled else f"{plan.name}_{data.name.partition('.')[0]}"
        self.command = "make " + plan.name + ("" if bundled else f" DATA={data.name}")
        self.plots = Plots(results, self.name)
        self.methods: dict[str, Method] = {}
        self.settings: dict[str, Setting] = {}
        self.parameters: list[Row] = []
        self.rows: list[Row] = []
        self.curves: dict[str, Outcome] = {}  # of the uniform stream
        self.graphgrove: str | None = None  # a Python that has the real one
        self.figures: dict[str, list[Row]] = {}

    def run(self) -> int:
        head = record.head(self.command)
        self._see_what_is_there()
        made = table_1(self.plan, self.data)
        for stream, make in made.items():
            self._stream(stream, make())
        self.screen.show(tables.runtime(self.rows))
        self.screen.show(tables.space())
        self.screen.show(tables.adversarial(self.rows))
        self.screen.show(tables.per_event(self.rows))
        if "graphgrove" in self.figures:
            self.screen.show(tables.graphgrove(self.figures["graphgrove"]))
        for part in (self._searches, self._reservoir, self._modes, self._growth, self._deletion):
            name = part.__name__.strip("_")
            found = self.figures[name] = part()
            self.screen.show(getattr(tables, name)(found))
        self._write(head)
        return self._verdict()

    # ---- the runtime table

    def _see_what_is_there(self) -> None:
        for name, method in METHODS.items():
            if method.available:
                self.methods[name] = method
            else:
                self.screen.say(
                    f"{name} left out: {method.needs} is not installed (pip install "
                    f"{method.install})"
                )
        self.graphgrove, what = graphgrove_real.find_python()
        self.screen.say(what)
        if not self.plots.able:
            self.screen.say("no figures: matplotlib is not installed (pip install matplotlib)")

    def _stream(self, stream: str, data: Data) -> None:
        """All methods of the stream's table, its oracle computed once."""
        setting = self._setting(stream, data)
        steps, oracle = added(data.vectors), brute_force(data.vectors, K)
        for name, method in self.methods.items():
            outcome = self._measured(stream, method, setting, steps, oracle)
            if stream == "uniform":
                self.curves[name] = outcome
        self._graphgrove(stream, data, oracle)

    def _graphgrove(self, stream: str, data: Data, oracle: History) -> None:
        """The real library's tree in a process of its own, where there is one. It says what it
        found at the end alone.
        """
        if self.graphgrove is None:
            return
        try:
            found = graphgrove_real.measure(
                self.graphgrove, data.vectors, K, budget=self.plan.budget
            )
        except (RuntimeError, subprocess.SubprocessError) as error:
            self.screen.say(f"  graphgrove left out: {error}")
            return
        n, inserting, searching = (
            found["steps"],
            sum(found["insert_seconds"]),
            sum(found["knn_seconds"]),
        )
        row = {
            "stream": stream,
            "method": f"graphgrove {found['graphgrove']}",
            "n": n,
            "dimension": data.vectors.shape[1],
            "k": K,
            "seconds": round(inserting + searching, 4),
            "us_per_event": round((inserting + searching) / n * 1e6, 2),
            "insert_seconds": round(inserting, 4),
            "knn_seconds": round(searching, 4),
            "last_right": found["nearest"] == oracle[n - 1].tolist(),
        }
        self.figures.setdefault("graphgrove", []).append(row)
        self.screen.say(
            f"  {row['method']:20} {number(row['seconds']):>7} s {number(row['us_per_event']):>7} "
            "µs/event"
        )

    def _setting(self, stream: str, data: Data) -> Setting:
        """k, b and the alpha that a grid search on the held-out stream finds."""
        setting = Setting(K, data.vectors.shape[1], data.width)
        oracle = brute_force(data.held_out, K)
        self.screen.say(f"[bold]{stream}[/bold]: {data.title}")
        with self.screen.bar(f"{stream}: alpha", len(self.plan.grid)) as advance:
            choice = search(
                lambda alpha: LAZY.make(setting._replace(alpha=alpha)),
                self.plan.grid,
                added(data.held_out),
                oracle,
                self.plan.grid_budget,
                advance,
            )
        setting = self.settings[stream] = setting._replace(alpha=choice.value)
        self.parameters.append(
            {
                "stream": stream,
                "title": data.title,
                "k": K,
                "b": setting.width,
                "c_max": setting.c_max,
                "delta": "1/t",
                "alpha": setting.alpha,
                "held_out": data.held_out_is,
                "tried": [
                    [t.value, t.accuracy, round(t.seconds, 3), t.events] for t in choice.tried
                ],
            }
        )
        self.screen.say(
            f"  alpha {setting.alpha:g} on {data.held_out_is}; b = {setting.width:,.0f}, c_max = "
            f"{setting.c_max}"
        )
        return setting

    def _measured(
        self, stream: str, method: Method, setting: Setting, steps: list[Any], oracle: History
    ) -> Outcome:
        with self.screen.bar(f"{stream}: {method.name}", len(steps)) as advance:
            outcome = run(lambda: method.make(setting), steps, self.plan.budget, advance)
        row = record.row(
            stream,
            method.name,
            exact=method.exact,
            n=len(outcome.said),
            dimension=setting.dimension,
            k=setting.k,
            seconds=outcome.seconds,
            accuracy=outcome.accuracy(oracle),
            searches=outcome.searches,
        )
        self.rows.append(row)
        self.screen.say(
            f"  {method.name:20} {number(outcome.seconds):>7} s {number(outcome.us_per_event):>7} "
            "µs/event "
            f"{share(row['accuracy']):>8} %"
            + ("" if row["n"] == len(steps) else f"  (n = {row['n']:,})")
        )
        return outcome

    # ---- the figures

    def _searches(self) -> list[Row]:
        """Of the paper's with the uniform stream's alpha, and of ours."""
        plan, rows = self.plan, []
        for method in (LAZY, METHODS["exact"]):
            with self.screen.bar(
                f"searches: {method.name}", plan.n * len(plan.dimensions)
            ) as advance:
                rows += experiments.searches(
                    lambda dimension, of=method: of.make(
                        self.settings["uniform"]._replace(dimension=dimension)
                    ),
                    method.name,
                    plan.dimensions,
                    plan.n,
                    advance,
                )
        return rows

    def _reservoir(self) -> list[Row]:
        """c_max grows with k, as five times as much as the default k has."""
        setting, plan, rows = self.settings["uniform"], self.plan, []
        vectors = streams.uniform(plan.n).vectors
        for method in (LAZY, METHODS["exact"]):
            with self.screen.bar(f"reservoir: {method.name}", plan.n * len(plan.ks)) as advance:
                rows += experiments.reservoir(
                    lambda k, of=method: of.make(
                        setting._replace(k=k, c_max=max(setting.c_max * k // K, setting.c_max))
                    ),
                    method.name,
                    plan.ks,
                    vectors,
                    advance,
                )
        return rows

    def _modes(self) -> list[Row]:
        """Mixtures; what was measured is among the rows too."""
        rows = []
        for m in self.plan.modes:
            stream = f"mixture-{m}"
            data = synthetic(partial(streams.mixture, m), 5, self.plan)
            setting = self._setting(stream, data)
            steps, oracle = added(data.vectors), brute_force(data.vectors, K)
            for name in (
                "brute-force",
                "coversumm-reservoir",
                "coversumm-lazy",
                "exact",
            ):
                self._measured(stream, METHODS[name], setting, steps, oracle)
                rows.append({"modes": m, **self.rows[-1]})
        return rows

    def _growth(self) -> list[Row]:
        """Ours and flat search to the last mark, the paper's best farther than the others, which
        are of the runtime table.
        """
        marks = self.plan.marks
        vectors = streams.uniform_blocks(marks[-1])
        rows: list[Row] = []
        for name, grow in (("ours", experiments.grow_ours), ("flat", experiments.grow_flat)):
            with self.screen.bar(f"growth: {name}", marks[-1]) as advance:
                rows += grow(vectors, marks, K, advance)
        setting = self.settings["uniform"]._replace(width=float(vectors.max()))
        steps = added(vectors[: self.plan.others])
        with self.screen.bar(f"growth: {LAZY.name}", len(steps)) as advance:
            lazy = run_once(LAZY.make(setting), steps, self.plan.budget, advance)
        for name, outcome in (self.curves | {LAZY.name: lazy}).items():
            if not name.startswith("exact"):
                rows += experiments.from_curve(name, outcome, marks)
        return rows

    def _deletion(self) -> list[Row]:
        plan, rows = self.plan, []
        vectors = streams.uniform(plan.stored).vectors
        gone = np.random.default_rng(11).permutation(plan.stored)[: plan.deletions].tolist()
        for name, method in self.methods.items():
            with self.screen.bar(f"deletion: {name}", plan.deletions) as advance:
                contender = method.make(self.settings["uniform"])
                row = experiments.deletions(contender, vectors, gone, K, plan.budget, advance)
            if row is None:
                self.screen.say(f"  {name} removes nothing")
            else:
                rows.append({"method": name, "exact": method.exact, **row})
        return rows

    # ---- the end

    def _write(self, head: Row) -> None:
        file = self.results / f"{self.name}.json"
        record.write(file, head | {"rows": self.rows, "parameters": self.parameters} | self.figures)
        if self.plots.able:
            self.plots.growth(self.figures["growth"])
        names = ", ".join(of.name for of in self.plots.written)
        self.screen.say(
            f"\nrecorded in {self.results.name}/{file.name}"
            + (f"; figures: {names}" if names else "")
        )

    def _verdict(self) -> int:
        """1 if a method that is proved exact was wrong once."""
        wrong = [
            row
            for row in (*self.rows, *self.figures["deletion"])
            if row["exact"] and row["accuracy"] < 100.0
        ]
        for row in wrong:
            self.screen.say(
                f"[bold red]{row['method']} is wrong[/bold red]: {share(row['accuracy'])} % on "
                f"{row.get('stream', 'deletions')}"
            )
        return 1 if wrong else 0
