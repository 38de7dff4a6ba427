"""What is measured besides the runtime table's cells: how searches, reservoir and times grow, and
what a deletion costs.
"""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.bench.judge import added, brute_force_removing, percent, removed, right_steps
from tests.bench.paper.measure import Contender, Outcome, run_once
from tests.bench.paper.naive import library

Row = dict[str, object]
Advance = Callable[[int], None]
POINTS = 60  # of a curve that are kept


def trace(
    contender: Contender, vectors: NDArray[np.int16], advance: Advance
) -> Iterator[tuple[int, int, int]]:
    """(n, searches so far, reservoir size) after each event of a stream."""
    for t, step in enumerate(added(vectors), 1):
        contender.take([step])
        advance(t)
        yield t, contender.reservoir_searches, contender.reservoir_size


def thinned(curve: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """POINTS of a long curve, the last among them."""
    if len(curve) <= POINTS:
        return list(curve)
    at = np.unique(np.linspace(0, len(curve) - 1, POINTS).round().astype(int))
    return [curve[i] for i in at.tolist()]


def searches(contender: Contender, vectors: NDArray[np.int16], advance: Advance) -> Row:
    """Cumulative reservoir searches on a stream."""
    curve = [(t, count) for t, count, _ in trace(contender, vectors, advance)]
    return {"n": len(vectors), "searches": thinned(curve)}


def reservoir(contender: Contender, vectors: NDArray[np.int16], advance: Advance) -> Row:
    """The reservoir's size on a stream. The mean is of its second half."""
    curve = [(t, size) for t, _, size in trace(contender, vectors, advance)]
    sizes = [size for _, size in curve]
    return {
        "n": len(vectors),
        "mean": round(float(np.mean(sizes[len(sizes) // 2 :])), 1),
        "largest": max(sizes),
        "size": thinned(curve),
    }


AFTER = 100  # events; in the first ones most intervals have one event, under either law


def intervals(contender: Contender, vectors: NDArray[np.int16], advance: Advance) -> Row:
    """How the events from one search to the next grow with the events so far: see `fitted`."""
    at, before = [], contender.reservoir_searches
    for t, count, _ in trace(contender, vectors, advance):
        if count > before:
            at.append(t)
        before = count
    return {"n": len(vectors), "after": AFTER} | fitted([t for t in at if t > AFTER])


def fitted(at: Sequence[int]) -> Row:
    """Laws of the interval m that follows a search at t, by least squares of logarithms:
    m = c t^exponent, m = c t and m = c sqrt(t log t). `off_...` is the factor by which an interval
    is typically off a law, 1 where the law is exact. Two intervals or fewer tell no law.
    """
    t, m = np.array(at[:-1], float), np.diff(at)
    row: Row = {"intervals": len(m), "exponent": None, "off_t": None, "off_sqrt_t_log_t": None}
    if len(m) < 3:
        return row
    row["exponent"] = round(float(np.polyfit(np.log(t), np.log(m), 1)[0]), 2)
    for name, law in (("off_t", t), ("off_sqrt_t_log_t", np.sqrt(t * np.log(t)))):
        row[name] = round(float(np.exp(np.log(m / law).std())), 2)
    return row


# ---- time per event as n grows


def last(n: int) -> int:
    """How many events up to `n` the time per event is the mean of."""
    return min(1_000, n // 2)


def from_curve(method: str, outcome: Outcome, marks: Sequence[int]) -> list[Row]:
    """The time per event in the last events before each mark a run has passed."""
    at = dict(outcome.curve) | {0: 0.0}
    rows: list[Row] = []
    for n in marks:
        if n in at and n - last(n) in at:
            us = (at[n] - at[n - last(n)]) / last(n) * 1e6
            rows.append({"method": method, "n": n, "events": last(n), "us_per_event": round(us, 2)})
    return rows


def grow_ours(
    name: str,
    contender: Contender,
    vectors: NDArray[np.int16],
    marks: Sequence[int],
    advance: Advance,
) -> list[Row]:
    """One of ours up to each mark: the last events of them, and every event since the mark before
    with all refills among them (`amortised`): they are too rare for the last events to show.
    """
    rows: list[Row] = []
    done = 0

    def take(end: int) -> float:
        nonlocal done
        seconds = 0.0
        while done < end:
            steps = added(vectors[done : min(end, done + 10_000)], done)
            start = time.process_time()
            contender.take(steps)
            seconds += time.process_time() - start
            done += len(steps)
            advance(done)
        return seconds

    for n in marks:
        since, count = done, last(n)
        before = take(n - count)
        of_last = take(n)
        for method, seconds, events in (
            (name, of_last, count),
            (f"{name}, amortised", before + of_last, done - since),
        ):
            rows.append(
                {
                    "method": method,
                    "n": n,
                    "events": events,
                    "us_per_event": round(seconds / events * 1e6, 2),
                }
            )
    return rows


def grow_flat(
    vectors: NDArray[np.int16], marks: Sequence[int], k: int, advance: Advance, budget: float = 5.0
) -> list[Row]:
    """Flat search at each mark, as many events up to it as the budget allows: FAISS where it is
    installed, else NumPy.
    """
    try:
        faiss = library("faiss", "faiss-cpu")
    except ImportError:
        flat: _FlatFaiss | _FlatNumpy = _FlatNumpy(vectors)
    else:
        faiss.omp_set_num_threads(1)
        flat = _FlatFaiss(faiss.IndexFlatL2(vectors.shape[1]))
    rows: list[Row] = []
    total = np.zeros(vectors.shape[1])
    done = 0
    for n in marks:
        first = n - min(300, last(n))
        flat.add(vectors[done:first])
        total += vectors[done:first].sum(axis=0, dtype=np.float64)
        done, start, at = n, time.process_time(), first
        while at < n and time.process_time() - start < budget:
            flat.add(vectors[at : at + 1])
            total += vectors[at]
            at += 1
            flat.nearest(total, at, k)
        seconds, count = time.process_time() - start, at - first
        rows.append(
            {
                "method": flat.name,
                "n": n,
                "events": count,
                "us_per_event": round(seconds / count * 1e6, 2),
            }
        )
        flat.add(vectors[at:n])
        total += vectors[at:n].sum(axis=0, dtype=np.float64)
        advance(n)
    return rows


class _FlatFaiss:
    name = "flat (FAISS)"

    def __init__(self, index: object) -> None:
        self.index: object = index

    def add(self, vectors: NDArray[np.int16]) -> None:
        # in float32 all at once would be twice the memory
        for at in range(0, len(vectors), 50_000):
            self.index.add(vectors[at : at + 50_000].astype(np.float32))  # type: ignore[attr-defined]

    def nearest(self, total: NDArray[np.float64], n: int, k: int) -> None:
        self.index.search((total / n).astype(np.float32)[None], min(k, n))  # type: ignore[attr-defined]


class _FlatNumpy:
    name = "flat (NumPy)"

    def __init__(self, vectors: NDArray[np.int16]) -> None:
        self.vectors = vectors  # all of the stream; the first n are asked

    def add(self, vectors: NDArray[np.int16]) -> None:
        pass

    def nearest(self, total: NDArray[np.float64], n: int, k: int) -> None:
        keys = np.empty(n)
        for at in range(0, n, 512):
            x = self.vectors[at : min(at + 512, n)].astype(np.float64)
            keys[at : at + 512] = n * np.einsum("ij,ij->i", x, x) - 2.0 * (x @ total)
        np.argpartition(keys, min(k, n) - 1)


# ---- deletion


def deletions(
    contender: Contender,
    vectors: NDArray[np.int16],
    rows: Sequence[int],
    k: int,
    budget: float,
    advance: Advance,
) -> Row | None:
    """What removing `rows` one by one costs once all vectors are there; None where it is not the
    method's to remove.
    """
    before = contender.take(added(vectors))
    try:
        outcome = run_once(contender, removed(vectors, rows), budget, advance)
    except NotImplementedError:
        return None
    count = len(outcome.said)
    right = right_steps(outcome.said, brute_force_removing(vectors, rows[:count], k), before)
    return {
        "stored": len(vectors),
        "deletions": count,
        "us_per_deletion": round(outcome.us_per_event, 2),
        "accuracy": percent(right, count),
        "reservoir_searches": outcome.searches,
    }
