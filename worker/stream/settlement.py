"""A commit in doubt is settled, not died of: it is found out whether it happened, and the worker
goes on from there.

A commit is in doubt when an answer did not come or leaves it open: a coordinator moved, a broker
was killed or froze, too few replicas were there. Sending it again could do everything twice; going
on without it could lose it. So:

1. *Suspend*: nothing more is handed over, or sent. What was processed and not committed is
   forgotten with the caches.
2. *Decide*: a new client takes over the same transactional id (`TransactionalProducer.decide`).
   What was open is aborted, what was about to be committed is committed, and the former client is
   fenced, wherever it still hangs.
3. *Take over again*, as after a rebalance: the group's committed offsets and the changelog say what
   happened, and rows, caches and cursors are brought to that (`worker.stream.takeover`).

It ends the process only where something is refused for good, or where the cluster does not tell
within COVERSUMM_STALL_TIMEOUT_MS although brokers answer. A rebalance that comes meanwhile goes
first: its takeover does the same, and the next transaction is begun by a client that has decided
the one before.
"""

from collections.abc import Mapping

from worker.errors import Crash, InDoubt, Overtaken, TooSlow, Unanswered
from worker.kafka.contact import Contact
from worker.kafka.group import Membership
from worker.kafka.producer import TransactionalProducer
from worker.settings import Settings
from worker.stream.assignment import Assignment
from worker.stream.surroundings import Surroundings
from worker.stream.takeover import Takeover

PAUSE_SECONDS = 0.5
"""Between two questions to a cluster that does not tell."""


class Settlement:
    """Settles commits in doubt, one at a time; meanwhile nothing is begun.

    Args:
        settings: how long a cluster may leave it open.
        assignment: is suspended meanwhile.
        producer: has the transaction decided.
        takeover: brings everything to what was committed.
        contact: while no broker answers, no time counts.
        surroundings: clock and threads.
    """

    def __init__(
        self,
        settings: Settings,
        assignment: Assignment,
        producer: TransactionalProducer,
        takeover: Takeover,
        contact: Contact,
        surroundings: Surroundings,
    ) -> None:
        self._limit_seconds = settings.stall_timeout_ms / 1000
        self._assignment = assignment
        self._producer = producer
        self._takeover = takeover
        self._contact = contact
        self._clock = surroundings.clock
        self._threads = surroundings.threads
        self._since: float | None = None  # the first doubt after the last commit that was none
        self._settled_at = 0.0
        self._membership: Membership | None = None  # under which the last doubt was settled

    def commit_begins(self) -> None:
        """A commit begins: the limit counts neither the time without one nor the doubts of a
        membership that is over.
        """
        if self._since is None:
            return
        if self._assignment.membership != self._membership:
            self._since = None
        else:
            self._since += self._clock.monotonic() - self._settled_at

    def nothing_open(self) -> None:
        """A commit was answered: the cluster tells."""
        self._since = None

    async def settle(self, doubt: InDoubt, next_offsets: Mapping[int, int]) -> bool:
        """Find out whether a commit happened, and go on from there; whether it did, as far as that
        is known here.

        Args:
            doubt: why it is not known.
            next_offsets: by partition, what it would have committed.

        Raises Crash, which is the end of the process.
        """
        self._assignment.suspend(str(doubt))
        if isinstance(doubt, TooSlow):
            self._since = None  # a smaller one follows
        self._check_limit(doubt)
        if not await self._decide() or isinstance(doubt, Overtaken):
            self._since = None
            return False  # what was committed is found out by the next assignment's takeover
        happened = False

        def found(starts: Mapping[int, int]) -> None:
            nonlocal happened
            happened = all(starts.get(p, -1) >= offset for p, offset in next_offsets.items())
            self._assignment.journal.settled(happened)

        await self._takeover.again(found)
        if happened:
            self._since = None
        self._settled_at, self._membership = self._clock.monotonic(), self._assignment.membership
        return happened

    async def _decide(self) -> bool:
        """Whether it was decided before the group took the partitions back. Raises Crash."""
        while self._assignment.is_lasting:
            try:
                await self._threads.beside(self._producer.decide)
            except Unanswered as cause:
                self._check_limit(cause)
                await self._threads.beside(lambda: self._clock.sleep(PAUSE_SECONDS))
            else:
                return True
        return False

    def _check_limit(self, cause: Crash) -> None:
        """Raise Crash where brokers answer, and have left open for too long what became
        of commits.
        """
        now = self._clock.monotonic()
        silence = self._contact.silence()
        if self._since is None or (silence is not None and silence.everywhere):
            self._since = now
        elif now - self._since > self._limit_seconds:
            raise Crash(
                f"no commit was answered for {self._limit_seconds:g} s, though brokers answer: {cause}"
            ) from cause
