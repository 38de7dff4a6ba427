"""The end of a bounded run: when all of its partitions are done, whoever did them."""

from collections.abc import Callable, Collection

from worker.errors import Crash
from worker.kafka.errors import is_retriable
from worker.stream.assignment import Assignment
from worker.stream.run_bounds import RunBounds
from worker.stream.surroundings import Surroundings

PAUSE_SECONDS = 0.2
ASKING_SECONDS = 1.0
"""How often the group is asked, once nothing is left to be done here."""


class Ending:
    """Ends a run.

    Args:
        bounds: of the run.
        assignment: what is held here.
        open_partitions: asks the group which partitions are not over yet. Raises what brokers
            answer.
        end: ends the run here.
        surroundings: clock, threads, and the end of the process, for whatever fails.
    """

    def __init__(
        self,
        bounds: RunBounds,
        assignment: Assignment,
        open_partitions: Callable[[], Collection[int]],
        end: Callable[[], None],
        surroundings: Surroundings,
    ) -> None:
        self._bounds = bounds
        self._assignment = assignment
        self._open_partitions = open_partitions
        self._end = end
        self._threads = surroundings.threads
        self._clock = surroundings.clock
        self._die = surroundings.die

    async def watch(self) -> None:
        """Until the run is over: a process that has nothing to do stays, for another one's
        partitions may become its own.
        """
        try:
            while not (self._is_idle() and await self._is_over()):
                seconds = ASKING_SECONDS if self._is_idle() else PAUSE_SECONDS
                await self._threads.beside(lambda s=seconds: self._clock.sleep(s))  # type: ignore[misc]
        except Exception as cause:
            self._die(cause)
        self._end()

    def _is_idle(self) -> bool:
        """Whether there is nothing to do here; a process without partitions may be given some."""
        held = list(self._assignment.positions)
        is_taken_over = self._assignment.is_flowing
        return is_taken_over and all(self._bounds.ledger.is_over(partition) for partition in held)

    async def _is_over(self) -> bool:
        try:
            return not await self._threads.beside(self._open_partitions)
        except Exception as cause:
            if not isinstance(cause, Crash) and not is_retriable(cause):
                raise
            return False  # asked again
