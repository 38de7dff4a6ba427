"""Settles a commit in doubt: the worker determines whether it happened, and resumes from there.

A commit is in doubt without an answer, or when the answer leaves it open: a coordinator moved, a
broker was killed or froze, too few replicas were in sync. Sending the commit again could do
everything twice; continuing without it could lose it. So:

1. *Suspend*: nothing more is handed over or sent. The worker drops its uncommitted work with the
   caches.
2. *Decide*: a new client takes over the same transactional id (`TransactionalProducer.decide`).
   The broker then aborts an open transaction, completes one that was about to be committed, and
   fences the former client.
3. *Take over again*, as after a rebalance (`worker.stream.takeover`): the group's committed offsets
   and the changelog show what happened; rows, caches and cursors are set accordingly.

The process ends only if the decision is refused permanently, or if brokers answer and still leave
it open for COVERSUMM_STALL_TIMEOUT_MS. A rebalance goes first: its takeover does the same, and the
next transaction is begun by a client that has decided the one before.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from worker.errors import Crash, InDoubt, Overtaken, TooSlow, Unanswered
from worker.kafka.contact import Contact
from worker.kafka.group import Membership
from worker.kafka.producer import TransactionalProducer
from worker.settings import Settings
from worker.stream.assignment import Assignment
from worker.stream.surroundings import Surroundings
from worker.stream.takeover import Takeover

PAUSE_SECONDS = 0.5  # pause between two attempts to decide a transaction


@dataclass(eq=False)
class Settlement:
    """Settles commits in doubt, one at a time; no commit begins during that time."""

    settings: Settings
    assignment: Assignment
    producer: TransactionalProducer
    takeover: Takeover
    contact: Contact
    surroundings: Surroundings

    def __post_init__(self) -> None:
        self._limit_seconds = self.settings.stall_timeout_ms / 1000
        self._since: float | None = None  # the first doubt after the last answered commit
        self._settled_at = 0.0
        self._membership: Membership | None = None  # under which the last doubt was settled

    def commit_begins(self) -> None:
        """The limit counts no time since the last doubt, and no doubt of a past membership."""
        if self._since is None:
            return
        if self.assignment.membership != self._membership:
            self._since = None
        else:
            self._since += self.surroundings.clock.monotonic() - self._settled_at

    def commit_answered(self) -> None:
        """The last commit was no doubt: the limit begins again with the next doubt."""
        self._since = None

    async def settle(self, doubt: InDoubt, next_offsets: Mapping[int, int]) -> bool:
        """Decide a commit and take over again; True if the commit is known to have happened.

        `next_offsets` are the offsets that it would have committed. Raises Crash, which ends the
        process.
        """
        self.assignment.suspend(str(doubt))
        if isinstance(doubt, TooSlow):
            self._since = None  # a smaller one follows
        self._check_limit(doubt)
        if not await self._decide() or isinstance(doubt, Overtaken):
            self._since = None
            return False  # the takeover of the next assignment reads what was committed
        happened = False

        def found(starts: Mapping[int, int]) -> None:
            nonlocal happened
            happened = all(starts.get(p, -1) >= offset for p, offset in next_offsets.items())
            self.assignment.journal.settled(happened)

        await self.takeover.again(found)
        if happened:
            self._since = None
        self._settled_at = self.surroundings.clock.monotonic()
        self._membership = self.assignment.membership
        return happened

    async def _decide(self) -> bool:
        """False if the group took the partitions back before the decision."""
        while self.assignment.is_lasting:
            try:
                await self.surroundings.threads.beside(self.producer.decide)
            except Unanswered as cause:
                self._check_limit(cause)
                await self.surroundings.pause(PAUSE_SECONDS)
            else:
                return True
        return False

    def _check_limit(self, cause: Crash) -> None:
        """Raise Crash if commits are in doubt for longer than the limit, though brokers answer."""
        now = self.surroundings.clock.monotonic()
        silence = self.contact.silence()
        if self._since is None or (silence is not None and silence.everywhere):
            self._since = now
        elif now - self._since > self._limit_seconds:
            raise Crash(
                f"no commit was answered for {self._limit_seconds:g} s, though brokers answer: "
                f"{cause}"
            ) from cause
