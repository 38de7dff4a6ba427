"""How a contender is timed and judged, and how alpha is found.

Times are processor seconds of the one thread. The clock stands still while the progress bar moves.
A contender that takes less than a second for its stream runs three times and its best is taken; one
that is given a budget stops when it is spent, and the events it reached are the `n` of its row:
nothing is extrapolated.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tests.bench.judge import History, percent, right_steps
from worker.coversumm import Step

CHUNK = 50  # events between two looks at the clock


class Contender(Protocol):
    """What is measured."""

    @property
    def reservoir_searches(self) -> int: ...

    @property
    def reservoir_size(self) -> int: ...

    def take(self, steps: Sequence[Step]) -> Sequence[object]: ...


Advance = Callable[[int], None]  # takes the number of events that are done


@dataclass
class Outcome:
    """What came of one run."""

    seconds: float
    said: list[object]
    searches: int
    curve: list[tuple[int, float]] = field(default_factory=list)  # (events done, seconds so far)

    @property
    def us_per_event(self) -> float:
        return self.seconds / max(len(self.said), 1) * 1e6

    def accuracy(self, oracle: History) -> float:
        """Percent of the steps that were reached."""
        return percent(right_steps(self.said, oracle[: len(self.said)]), len(self.said))


def _ignore(done: int) -> None:
    pass


def run_once(
    contender: Contender,
    steps: Sequence[Step],
    budget: float | None = None,
    advance: Advance = _ignore,
) -> Outcome:
    """All steps, or as many as the budget (seconds) allows: it is looked at every CHUNK events."""
    outcome = Outcome(0.0, [], 0)
    before = contender.reservoir_searches
    for at in range(0, len(steps), CHUNK):
        chunk = steps[at : at + CHUNK]
        start = time.process_time()
        said = contender.take(chunk)
        outcome.seconds += time.process_time() - start
        outcome.said += said
        outcome.curve.append((len(outcome.said), outcome.seconds))
        advance(len(outcome.said))
        if budget is not None and outcome.seconds > budget:
            break
    outcome.searches = contender.reservoir_searches - before
    return outcome


def run(
    make: Callable[[], Contender],
    steps: Sequence[Step],
    budget: float | None = None,
    advance: Advance = _ignore,
    *,
    short: float = 1.0,
) -> Outcome:
    """The best of three fresh contenders where one takes less than `short` seconds."""
    best = run_once(make(), steps, budget, advance)
    for _ in range(2):
        if best.seconds >= short:
            break
        again = run_once(make(), steps, budget, advance)
        best = min(best, again, key=lambda outcome: outcome.seconds)
    return best


class Tried(NamedTuple):
    """One point of a grid on the held-out stream."""

    value: float
    accuracy: float
    seconds: float
    events: int  # fewer than the stream has when the budget was spent


class Choice(NamedTuple):
    value: float
    tried: list[Tried]


def search(
    make: Callable[[float], Contender],
    grid: Sequence[float],
    steps: Sequence[Step],
    oracle: History,
    budget: float | None = None,
    advance: Advance = _ignore,
) -> Choice:
    """The paper's grid search on held-out steps: the fastest value that is always right, else the
    most often right.

    A value whose budget was spent is judged on the events it reached, and its time on how many they
    are.
    """
    tried = []
    for done, value in enumerate(grid, 1):
        outcome = run_once(make(value), steps, budget)
        tried.append(Tried(value, outcome.accuracy(oracle), outcome.seconds, len(outcome.said)))
        advance(done)
    return Choice(choose(tried).value, tried)


def choose(tried: Sequence[Tried]) -> Tried:
    """See `search`; of values as often right, the fastest per event."""
    return min(tried, key=lambda t: (-t.accuracy, t.seconds / t.events))
