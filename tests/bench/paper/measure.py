"""How a contender is timed and judged, and how alpha is found.

Times are processor seconds of the one thread. The clock stands still while the progress bar moves.
The contenders of a stream run in turns, so that a load on the machine meets all of them. One that
is given a budget stops when it is spent, and the events it reached are the `n` of its row: nothing
is extrapolated.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Generic, NamedTuple, Protocol, TypeVar

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


class Runs(NamedTuple):
    """One contender's runs on a stream."""

    first: list[Outcome]  # an outcome an entity
    seconds: list[float]  # a run, of all entities
    us_per_event: list[float]  # a run


def run_in_turns(
    make: Mapping[str, Callable[[], Contender]],
    entities: Sequence[Sequence[Step]],
    runs: int,
    *,
    budget: float | None = None,
    again: float = inf,
    advance: Callable[[str, int], None] = lambda name, done: None,
) -> dict[str, Runs]:
    """Every contender on all entities, then every one again, `runs` times. One that took more than
    `again` seconds is left out from then on. The budget is an entity's.
    """
    found: dict[str, Runs] = {}
    for turn in range(runs):
        for name, fresh in make.items():
            if turn and found[name].seconds[0] > again:
                continue
            outcomes = [
                run_once(fresh(), steps, budget, partial(advance, name)) for steps in entities
            ]
            of = found.setdefault(name, Runs(outcomes, [], []))
            of.seconds.append(sum(outcome.seconds for outcome in outcomes))
            events = sum(len(outcome.said) for outcome in outcomes)
            of.us_per_event.append(of.seconds[-1] / max(events, 1) * 1e6)
    return found


Value = TypeVar("Value")


class Tried(NamedTuple, Generic[Value]):
    """One point of a grid on the held-out stream."""

    value: Value
    accuracy: float
    seconds: float
    events: int  # fewer than the stream has when the budget was spent


class Choice(NamedTuple, Generic[Value]):
    value: Value
    tried: list[Tried[Value]]


def search(
    make: Callable[[Value], Contender],
    grid: Sequence[Value],
    steps: Sequence[Step],
    oracle: History,
    budget: float | None = None,
    advance: Advance = _ignore,
) -> Choice[Value]:
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


def choose(tried: Sequence[Tried[Value]]) -> Tried[Value]:
    """See `search`; of values as often right, the fastest per event."""
    return min(tried, key=lambda t: (-t.accuracy, t.seconds / t.events))
