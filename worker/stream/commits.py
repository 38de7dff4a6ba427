"""Commits one after another, each beside the processing of what comes next.

What is processed waits here until the commit before it is over: its transaction decided, its rows
in the local database. At most one is under way, and at most one waits. If the tenure has ended by
then nothing of it is sent: it will be read again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

from worker.errors import InDoubt, TooSlow
from worker.processing.processor import ProcessedBatch
from worker.stream.assignment import Assignment, Tenure
from worker.stream.commit import Commit
from worker.stream.settlement import Settlement
from worker.stream.surroundings import Surroundings
from worker.stream.tracing import Span

Afterwards = Callable[[bool], Awaitable[None]]
"""What is done after a commit; it is told whether that happened."""


class CommitQueue:
    """Sees commits through.

    Args:
        commit: does one, in the thread that is for them alone.
        settlement: of those in doubt.
        assignment: under which they are begun, or not any more.
        surroundings: threads, and the end of the process, for whatever fails.
    """

    def __init__(
        self,
        commit: Commit,
        settlement: Settlement,
        assignment: Assignment,
        surroundings: Surroundings,
    ) -> None:
        self._commit = commit
        self._settlement = settlement
        self._assignment = assignment
        self._threads = surroundings.threads
        self._thread = surroundings.threads.in_order("commit")
        self._die = surroundings.die
        self._task: Any = None  # of the one that was begun last
        self._is_under_way = False
        self._happened = True
        self._afterwards: list[Afterwards] = []

    async def begin(
        self, processed: ProcessedBatch, tenure: Tenure, span: Span, in_hand: ExitStack
    ) -> bool:
        """Begin the next one as soon as the one before is over; False where the tenure has ended by
        then, and nothing is sent.

        What is in hand with it is let go of when it is over.
        """
        await self.over()
        if tenure != self._assignment.tenure:
            return False
        self._is_under_way = True
        held = in_hand.pop_all()
        self._task = self._threads.task(
            "commit", lambda: self._see_through(processed, tenure, span, held)
        )
        return True

    async def over(self) -> None:
        """Wait until none is under way."""
        if self._task is not None:
            await self._threads.ended(self._task)

    async def then(self, work: Afterwards) -> None:
        """Let this be done when the one under way is over, at once where there is none."""
        if self._is_under_way:
            self._afterwards.append(work)
        else:
            await work(self._happened)

    async def _see_through(
        self, processed: ProcessedBatch, tenure: Tenure, span: Span, in_hand: ExitStack
    ) -> None:
        try:
            with in_hand:
                self._happened = await self._committed(processed, tenure, span)
            while self._afterwards:
                await self._afterwards.pop(0)(self._happened)
            self._is_under_way = False
        except asyncio.CancelledError:
            raise  # the app is stopping: what the thread has begun happens or not, as a whole
        except BaseException as cause:
            self._die(cause)

    async def _committed(self, processed: ProcessedBatch, tenure: Tenure, span: Span) -> bool:
        """Commit what was processed; False where that was in doubt.

        It ended the tenure: where the next one begins says what was committed, and all that was not
        is read again.
        """
        self._settlement.commit_begins()
        try:
            await self._thread.run(lambda: self._commit(processed, tenure))
        except InDoubt as doubt:
            span.in_doubt()
            if isinstance(doubt, TooSlow):
                self._assignment.progress.made()  # the next one is smaller, and that has an end
            happened = await self._settlement.settle(doubt, processed.next_offsets)
            self._commit.settled(processed, happened)
            return False
        self._settlement.nothing_open()
        self._assignment.progress.made()
        return True
