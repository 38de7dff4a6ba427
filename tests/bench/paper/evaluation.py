"""The whole evaluation, one part after another."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench import streams
from tests.bench.judge import History, added, brute_force
from tests.bench.paper import experiments, graphgrove_real, record, tables
from tests.bench.paper.measure import Contender, Outcome, run_in_turns, run_once, search
from tests.bench.paper.methods import IN_TABLE, METHODS, TUNED, Method, Setting
from tests.bench.paper.plan import COINS, DECAYS, SHOWN_AT, Data, K, Plan, synthetic, table_1
from tests.bench.paper.plots import Plots
from tests.bench.paper.screen import Screen, number, share

LAZY = METHODS["coversumm-lazy"]
IN_MODES = ("brute-force", "naive-faiss", "coversumm-reservoir", LAZY.name, "exact", "native")
SHOWN = 5  # sentences of a summary's k
Row = dict[str, Any]


class Evaluation:
    """What a run finds, its tables and its files."""

    def __init__(
        self, plan: Plan, data: Path, screen: Screen, results: Path = record.RESULTS
    ) -> None:
        self.plan, self.data, self.screen, self.results = plan, data, screen, results
        bundled = self.bundled = data == streams.BUNDLED
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
        # All else is the same for any reviews.
        for stream in made if self.bundled else ("reviews",):
            self._stream(stream, made[stream]())
        for names in (("uniform", "lda", "space"), ("reviews", "adversarial", "drift")):
            if not self.settings.keys().isdisjoint(names):
                self.screen.show(tables.runtime(self.rows, names))
        self.screen.show(tables.per_event(self.rows))
        if "graphgrove" in self.figures:
            self.screen.show(tables.graphgrove(self.figures["graphgrove"]))
        for part in self._parts() if self.bundled else ():
            name = part.__name__.strip("_")
            found = self.figures[name] = part()
            self.screen.show(getattr(tables, name)(found))
        self._write(head)
        return self._verdict()

    def _parts(self) -> tuple[Callable[[], list[Row]], ...]:
        return (
            self._searches,
            self._intervals,
            self._reservoir,
            self._modes,
            self._growth,
            self._deletion,
            self._times,
        )

    # ---- the runtime table

    def _see_what_is_there(self) -> None:
        for name, method in IN_TABLE.items():
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
        """All methods of the stream's table."""
        setting = self.settings[stream] = self._setting(stream, data, tune=True)
        oracles = self._measured(stream, data, setting, self.methods)
        self._graphgrove(stream, data.entities[0], oracles[0])

    def _graphgrove(self, stream: str, vectors: NDArray[np.int16], oracle: History) -> None:
        """The real library's tree in a process of its own, where there is one, on the first entity.
        It says what it found at the end alone.
        """
        if self.graphgrove is None:
            return
        try:
            found = graphgrove_real.measure(self.graphgrove, vectors, K, budget=self.plan.budget)
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
            "dimension": vectors.shape[1],
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

    def _setting(self, stream: str, data: Data, tune: bool) -> Setting:
        """k, b and the alpha that a grid search on the held-out stream finds; with `tune` the
        constants of random and decay too.
        """
        setting = Setting(K, data.held_out.shape[1], data.width)
        steps, oracle = added(data.held_out), brute_force(data.held_out, K)
        self.screen.say(f"[bold]{stream}[/bold]: {data.title}")
        alphas = [{"alpha": alpha} for alpha in self.plan.grid]
        grids: list[tuple[Method, Sequence[dict[str, float]]]] = [(LAZY, alphas)]
        if tune:
            grids += [(TUNED["coversumm-random"], COINS), (TUNED["coversumm-decay"], DECAYS)]
        found: Row = {}
        for method, grid in grids:
            with self.screen.bar(f"{stream}: {method.name}", len(grid)) as advance:
                choice = search(
                    lambda values, of=method, at=setting: of.make(at._replace(**values)),
                    grid,
                    steps,
                    oracle,
                    self.plan.grid_budget,
                    advance,
                )
            setting = setting._replace(**choice.value)
            found |= choice.value
            found["tried " + ", ".join(choice.value)] = [
                [*t.value.values(), t.accuracy, round(t.seconds, 3), t.events] for t in choice.tried
            ]
        self.parameters.append(
            {
                "stream": stream,
                "title": data.title,
                "k": K,
                "b": setting.width,
                "c_max": setting.c_max,
                "delta": "1/t",
                "held_out": data.held_out_is,
            }
            | found
        )
        values = ", ".join(f"{name} {found[name]:g}" for name in found if "tried" not in name)
        self.screen.say(f"  {values} on {data.held_out_is}; b = {setting.width:,.0f}")
        return setting

    def _measured(
        self, stream: str, data: Data, setting: Setting, methods: Mapping[str, Method]
    ) -> list[History]:
        """The methods in turns; what was right, by entity."""
        entities = [added(vectors) for vectors in data.entities]
        oracles = [brute_force(vectors, K) for vectors in data.entities]
        with self.screen.bar(stream, self.plan.runs * len(methods)) as advance:
            turns = iter(range(1, self.plan.runs * len(methods) + 1))

            def make(method: Method) -> Contender:
                advance(next(turns, 0))
                return method.make(setting)

            runs = run_in_turns(
                {name: partial(make, method) for name, method in methods.items()},
                entities,
                self.plan.runs,
                budget=self.plan.budget,
                again=self.plan.again,
            )
        for name, of in runs.items():
            row = record.row(stream, methods[name], setting, of, oracles)
            self.rows.append(row)
            self.screen.say(
                f"  {name:24} {number(row['seconds']):>7} s {number(row['us_per_event']):>7} "
                f"µs/event {share(row['accuracy']):>8} %  (n = {row['n']:,}, {row['runs']} runs)"
            )
        if stream == "uniform":
            self.curves = {name: of.first[0] for name, of in runs.items()}
        return oracles

    # ---- the figures

    def _searches(self) -> list[Row]:
        """Of the paper's with the uniform stream's alpha, and of ours."""
        plan, rows = self.plan, []
        for method in self._lazy_and_ours():
            for dimension in plan.dimensions:
                setting = self.settings["uniform"]._replace(dimension=dimension)
                vectors = streams.uniform(plan.n, dimension).vectors
                with self.screen.bar(f"searches: {method.name}", plan.n) as advance:
                    row = experiments.searches(method.make(setting), vectors, advance)
                rows.append({"method": method.name, "dimension": dimension} | row)
        return rows

    def _intervals(self) -> list[Row]:
        """How the events from one search to the next grow, where the mean rests and where it
        drifts: searches for drift alone, as the paper derives it, so R is never full.
        """
        rows = []
        for stream, make in (("uniform", streams.uniform), ("drift", streams.drift)):
            vectors = make(self.plan.n).vectors
            for method in self._lazy_and_ours():
                with self.screen.bar(f"intervals: {method.name}", len(vectors)) as advance:
                    setting = self.settings[stream]._replace(c_max=len(vectors) + 1)
                    row = experiments.intervals(method.make(setting), vectors, advance)
                rows.append({"stream": stream, "method": method.name} | row)
        return rows

    def _reservoir(self) -> list[Row]:
        """c_max grows with k, as five times as much as the default k has."""
        setting, plan, rows = self.settings["uniform"], self.plan, []
        vectors = streams.uniform(plan.n).vectors
        for method in self._lazy_and_ours():
            for k in plan.ks:
                c_max = max(setting.c_max * k // K, setting.c_max)
                with self.screen.bar(f"reservoir: {method.name}", plan.n) as advance:
                    contender = method.make(setting._replace(k=k, c_max=c_max))
                    row = experiments.reservoir(contender, vectors, advance)
                rows.append({"method": method.name, "k": k} | row)
        return rows

    def _lazy_and_ours(self) -> list[Method]:
        names = (LAZY.name, "exact", "native")
        return [self.methods[name] for name in names if name in self.methods]

    def _modes(self) -> list[Row]:
        """Mixtures; what was measured is among the rows too."""
        rows = []
        for m in self.plan.modes:
            stream = f"mixture-{m}"
            data = synthetic(partial(streams.mixture, m), 5, self.plan)
            setting = self._setting(stream, data, tune=False)
            before = len(self.rows)
            methods = {name: self.methods[name] for name in IN_MODES if name in self.methods}
            self._measured(stream, data, setting, methods)
            rows += [{"modes": m, **row} for row in self.rows[before:]]
        return rows

    def _growth(self) -> list[Row]:
        """Ours and flat search to the last mark, the paper's best farther than the others, which
        are of the runtime table.
        """
        marks = self.plan.marks
        vectors = streams.uniform_blocks(marks[-1])
        rows: list[Row] = []
        for name in ("exact", "native"):
            if name in self.methods:
                core = self.methods[name].make(self.settings["uniform"])
                with self.screen.bar(f"growth: {name}", marks[-1]) as advance:
                    rows += experiments.grow_ours(name, core, vectors, marks, advance)
        with self.screen.bar("growth: flat", marks[-1]) as advance:
            rows += experiments.grow_flat(vectors, marks, K, advance)
        setting = self.settings["uniform"]._replace(width=float(vectors.max()))
        steps = added(vectors[: self.plan.others])
        with self.screen.bar(f"growth: {LAZY.name}", len(steps)) as advance:
            lazy = run_once(LAZY.make(setting), steps, self.plan.budget, advance)
        for name, outcome in (self.curves | {LAZY.name: lazy}).items():
            if name not in ("exact", "native"):
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

    def _times(self) -> list[Row]:
        """The start of one summary as its entity grows."""
        _, sentences = streams.review_sentences(self.data, self.plan.reviews)
        oracle = brute_force(streams.embedded(sentences), K)
        return [
            {"t": t, "summary": [sentences[row] for row in oracle[t - 1][:SHOWN].tolist()]}
            for t in (*(t for t in SHOWN_AT if t < len(sentences)), len(sentences))
        ]

    # ---- the end

    def _write(self, head: Row) -> None:
        file = self.results / f"{self.name}.json"
        record.write(file, head | {"rows": self.rows, "parameters": self.parameters} | self.figures)
        if self.plots.able and self.bundled:
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
            for row in (*self.rows, *self.figures.get("deletion", ()))
            if row["exact"] and row["accuracy"] < 100.0
        ]
        for row in wrong:
            self.screen.say(
                f"[bold red]{row['method']} is wrong[/bold red]: {share(row['accuracy'])} % on "
                f"{row.get('stream', 'deletions')}"
            )
        return 1 if wrong else 0
