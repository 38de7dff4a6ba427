"""The core beside brute force and FAISS: `python -m tests.bench.core [--data FILE] [--quick]`.

Every contender takes the same stream, one sentence an event, and must know the k=20 nearest to the
centroid after *every* event. *exact* is the share of events after which it names the oracle's k
sentences in the oracle's order; ours names them when the set changed and says so when it did not,
which is held against the oracle's sets. Times are processor seconds of the one thread for a whole
stream: the best of all runs in twelve rounds, in each of which every contender has half a second
(or one run, until it has had as much as the others), so that what else the machine does tells
little, and the same on all of them. Results go to results/core.json, those of another file to
results/core_FILE.json.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read when NumPy is loaded

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tests.bench import streams  # noqa: E402
from tests.bench.judge import History, added, brute_force, percent, right_steps  # noqa: E402
from tests.bench.machine import began, write  # noqa: E402
from worker.coversumm import EntityCore, Step  # noqa: E402
from worker.coversumm.core import Ranking  # noqa: E402
from worker.coversumm.native import native_module  # noqa: E402
from worker.processing.config import index_class  # noqa: E402

RESULTS = Path(__file__).parent / "results"
K = 20
ROUNDS = 12
SECONDS = 0.5


def by_brute_force(vectors: NDArray[np.int16], steps: Sequence[Step]) -> History:
    return brute_force(vectors, K)


def faiss_flat(vectors: NDArray[np.int16], steps: Sequence[Step]) -> History:
    """The paper's naive FAISS: add, move the mean, search the flat index."""
    import faiss

    faiss.omp_set_num_threads(1)
    x = vectors.astype(np.float32)
    index = faiss.IndexFlatL2(x.shape[1])
    total = np.zeros(x.shape[1])
    history = []
    for t in range(len(x)):
        index.add(x[t : t + 1])
        total += x[t]
        history.append(
            index.search((total / (t + 1)).astype(np.float32)[None], min(K, t + 1))[1][0]
        )
    return history


class Ours:
    """CoverSumm over an index."""

    def __init__(self, index: str = "flat") -> None:
        self.index = index_class(index)
        self.core: EntityCore | None = None

    def __call__(self, vectors: NDArray[np.int16], steps: Sequence[Step]) -> list[Ranking | None]:
        core = self.core = EntityCore(K, vectors.shape[1], self.index(vectors.shape[1]))
        return core.apply(steps)


class Native:
    """The same in native code."""

    def __call__(
        self, vectors: NDArray[np.int16], steps: Sequence[Step]
    ) -> list[tuple[bytes, ...] | None]:
        core = self.core = native_module().Core(K, vectors.shape[1])
        return core.apply(steps)  # type: ignore[no-any-return]


Contender = Callable[[NDArray[np.int16], Sequence[Step]], Sequence[object]]


class Timed(NamedTuple):
    seconds: float  # the best
    spent: float
    found: Sequence[object]
    contender: Contender


def timed(
    make: Callable[[], Contender], vectors: NDArray[np.int16], steps: Sequence[Step]
) -> Timed:
    """The best of one round, with what the last run found; what the run before held is not given
    back on the clock.
    """
    best, spent = np.inf, 0.0
    while spent < SECONDS:
        found, contender = (), make()
        start = time.process_time()
        found = contender(vectors, steps)
        seconds = time.process_time() - start
        best, spent = min(best, seconds), spent + seconds
    return Timed(best, spent, found, contender)


def run(stream: streams.Stream, faiss: bool) -> list[dict[str, object]]:
    vectors = stream.vectors
    steps = added(vectors)
    contenders: dict[str, Callable[[], Contender]] = {"brute force": lambda: by_brute_force}
    if faiss:
        contenders["FAISS flat, each event"] = lambda: faiss_flat
    contenders |= {
        "ours, event by event": Ours,
        "ours, event by event, SG tree": lambda: Ours("sgtree"),
    }
    if native_module() is not None:
        contenders["ours, native code, event by event"] = Native
    best: dict[str, Timed] = {}
    for _ in range(ROUNDS):
        for name, make in contenders.items():
            if name not in best:
                best[name] = timed(make, vectors, steps)
            elif (before := best[name]).spent < ROUNDS * SECONDS:
                now = timed(make, vectors, steps)
                seconds, spent = min(now.seconds, before.seconds), now.spent + before.spent
                best[name] = now._replace(seconds=seconds, spent=spent)
    oracle: History = best["brute force"].found  # type: ignore[assignment]
    rows: list[dict[str, object]] = []
    for name, (seconds, _, found, contender) in best.items():
        row: dict[str, object] = {
            "stream": stream.name,
            "contender": name,
            "seconds": round(seconds, 4),
            "us_per_event": round(seconds / len(vectors) * 1e6, 2),
            "exact_percent": percent(right_steps(found, oracle), len(oracle)),
        }
        if isinstance(contender, Ours) and contender.core is not None:
            row["refills"] = contender.core.counters.refilled
        elif isinstance(contender, Native):
            row["refills"] = contender.core.searches
        if "refills" in row:
            row["set_changes"] = sum(r is not None for r in found)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.core", description="The core beside brute force and FAISS."
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=streams.BUNDLED,
        help="reviews, JSONL(.gz); its largest entity is taken",
    )
    parser.add_argument("--quick", action="store_true", help="2,000 events a stream")
    options = parser.parse_args()
    most, record = 2000 if options.quick else None, began("tests.bench.core")
    try:
        import faiss  # noqa: F401

        with_faiss = True
    except ImportError:
        with_faiss = False
    size = {"n": most} if most else {}
    console = Console()
    console.width = max(console.width, 120)
    table = Table(
        "stream", "contender", title=f"k={K}, one thread, the set known after every event"
    )
    for column in ("seconds", "us/event", "exact %", "set changes", "refills"):
        table.add_column(column, justify="right")
    rows: list[dict[str, object]] = []
    makers: list[Callable[[], streams.Stream]] = [
        lambda: streams.uniform(**size),
        lambda: streams.lda(**size),
        lambda: streams.drifting(**size),
        lambda: streams.reviews(options.data, most),
    ]
    for make in makers:
        stream = make()
        console.print(f"{stream.name} ...", highlight=False)
        of_stream = run(stream, with_faiss)
        for row in of_stream:
            table.add_row(
                stream.name if row is of_stream[0] else "",
                str(row["contender"]),
                f"{row['seconds']:.3f}",
                f"{row['us_per_event']:.2f}",
                f"{row['exact_percent']:.2f}",
                str(row.get("set_changes", "")),
                str(row.get("refills", "")),
                end_section=row is of_stream[-1],
            )
        rows += of_stream
    console.print(table)
    if not with_faiss:
        console.print(
            "FAISS left out: it is not installed (pip install -e '.[bench]', or make bench)"
        )
    if not options.quick:
        bundled = options.data == streams.BUNDLED
        file = RESULTS / (
            "core.json" if bundled else f"core_{options.data.name.partition('.')[0]}.json"
        )
        write(file, record | {"rows": rows})
        console.print(f"recorded in {file}")


if __name__ == "__main__":
    main()
