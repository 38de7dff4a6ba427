"""What the group has assigned to this worker: one object that those who act under an assignment
look at.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from worker.clock import Clock
from worker.kafka.group import Membership
from worker.kafka.offsets import Start
from worker.stream.journal import Held, Journal


class Role(StrEnum):
    """In which a worker holds a partition's state."""

    ACTIVE = "active"
    """It processes the partition."""
    STANDBY = "standby"
    """It keeps a copy that follows the owner."""


class Tenure(NamedTuple):
    """Under what partitions are held from one takeover to the next.

    Attributes:
        epoch: of the assignment; it goes on with each takeover, also where the group has not
            changed.
        membership: of the consumer group.
    """

    epoch: int
    membership: Membership


class Progress:
    """How a worker gets on: what the watchdog looks at.

    Attributes:
        at: `Clock.monotonic()` of the last progress.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at = clock.monotonic()
        self._in_hand = 0  # one that is committed, one that is processed

    @property
    def is_busy(self) -> bool:
        """Whether a micro-batch is being processed or committed."""
        return self._in_hand > 0

    def made(self) -> None:
        """There was some just now."""
        self.at = self._clock.monotonic()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """A micro-batch is in hand meanwhile."""
        self._in_hand += 1
        try:
            yield
        finally:
            self._in_hand -= 1


class Assignment:
    """An assignment from its beginning to its end, and then the next one.

    Attributes:
        epoch: counts takeovers: one of an earlier one, or a reader, may write nothing more.
        membership: of the consumer group, captured when the group assigned.
        inputs: partitions of the input topic that are assigned.
        roles: by partition, from the takeover on.
        starts: where the input is read from; known from the takeover's first step to the seek.
        positions: by partition the next source offset to commit, from the end of the takeover on.
        is_flowing: between the seek that ends a takeover and the next revocation, or a commit in
            doubt.
        doubt: why the last commit is in doubt, until that is settled.
        progress: when the worker last got on with it.
        journal: tells the log of it.
    """

    def __init__(self, clock: Clock, journal: Journal) -> None:
        self.epoch = 0
        self.membership: Membership | None = None
        self.inputs: frozenset[int] = frozenset()
        self.roles: dict[int, Role] = {}
        self.starts: dict[int, Start] | None = None
        self.positions: dict[int, int] = {}
        self.is_flowing = False
        self.doubt: str | None = None
        self.progress = Progress(clock)
        self.journal = journal
        self._is_over = False
        self._is_revoked = True

    @property
    def tenure(self) -> Tenure | None:
        """Under what micro-batches may be committed; None from a revocation, or a doubt, to the end
        of the next takeover.
        """
        return Tenure(self.epoch, self.membership) if self.is_flowing and self.membership else None

    @property
    def is_lasting(self) -> bool:
        """Whether the group has not taken the partitions back since it assigned them, and the
        worker goes on.
        """
        return not (self._is_revoked or self._is_over)

    def revoke(self) -> None:
        """The group takes the partitions back: nothing more is handed over, a commit under way ends
        under the membership.
        """
        if self.is_flowing or self.doubt is not None:
            self.journal.left(self._held())
        self.is_flowing = False
        self._is_revoked = True
        self.doubt = None

    def suspend(self, doubt: str) -> None:
        """Nothing more is handed over until it is known whether the last commit happened."""
        if not self.is_flowing:
            return  # the group was faster
        self.journal.doubted(doubt, self._held())
        self.is_flowing = False
        self.doubt = doubt

    def leave_off(self) -> None:
        """Hand nothing more over, whatever the group still assigns: the worker ends."""
        self._is_over = True
        self.revoke()

    def assign(self, membership: Membership, inputs: frozenset[int]) -> None:
        """The group has assigned these partitions of the input; where they are read from is for the
        takeover to find out.
        """
        self.is_flowing = self._is_revoked = False
        self.starts = None
        self.membership = membership
        self.inputs = inputs

    def begin(self, actives: set[int], standbys: set[int]) -> None:
        """A takeover gives its partitions their roles."""
        self.roles.update(
            dict.fromkeys(standbys, Role.STANDBY) | dict.fromkeys(actives, Role.ACTIVE)
        )

    def flow(self) -> None:
        """Every partition's input is at its place: micro-batches may be handed over."""
        if not self.is_lasting:
            return
        self.is_flowing = True
        self.doubt = None
        self.journal.took(self._held())

    def _held(self) -> Held:
        standbys = [partition for partition, role in self.roles.items() if role is Role.STANDBY]
        return Held(sorted(self.positions), sorted(standbys))

    def end(self) -> list[int]:
        """Nothing is held any more; the partitions that were processed."""
        self.epoch += 1
        self.roles.clear()
        self.journal.ended(self.positions)
        processed, self.positions = list(self.positions), {}
        return processed
