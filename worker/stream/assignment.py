"""The assignment of this worker, which everything that acts under it reads."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from worker.clock import Clock
from worker.kafka.group import Membership
from worker.kafka.offsets import Start
from worker.stream.journal import Held, Journal


class Role(StrEnum):
    """The role in which a worker holds a partition: it processes it, or keeps a copy."""

    ACTIVE = "active"
    STANDBY = "standby"


class Tenure(NamedTuple):
    """The time between two takeovers, in which partitions are processed."""

    epoch: int  # counts takeovers, also those without a rebalance
    membership: Membership


class Progress:
    """The progress that the watchdog observes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at = clock.monotonic()  # `Clock.monotonic()` of the last progress
        self._in_flight = 0  # at most one in a commit and one in processing

    @property
    def is_busy(self) -> bool:
        """True if a part of a micro-batch is being processed or committed."""
        return self._in_flight > 0

    def made(self) -> None:
        """Note progress now."""
        self.at = self._clock.monotonic()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The worker is busy within this block."""
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1


class Assignment:
    """An assignment from its beginning to its end, and then the next one."""

    def __init__(self, clock: Clock, journal: Journal) -> None:
        self.epoch = 0  # counts takeovers; writers of an earlier one may write nothing more
        self.membership: Membership | None = None  # captured when the group assigned
        self.inputs: frozenset[int] = frozenset()  # the assigned partitions of the input topic
        self.roles: dict[int, Role] = {}  # by partition, from the takeover on
        self.starts: dict[int, Start] | None = None  # where to read from, until the seek
        self.positions: dict[int, int] = {}  # next source offsets to commit, once taken over
        self.is_flowing = False  # from the seek that ends a takeover to a revocation or doubt
        self.doubt: str | None = None  # why the last commit is in doubt, until it is settled
        self.progress = Progress(clock)
        self.journal = journal
        self._is_over = False
        self._is_revoked = True

    @property
    def tenure(self) -> Tenure | None:
        """The present tenure; None from a revocation or doubt to the end of the next takeover."""
        return Tenure(self.epoch, self.membership) if self.is_flowing and self.membership else None

    @property
    def is_lasting(self) -> bool:
        """True if neither the group has revoked the partitions nor the worker stops."""
        return not (self._is_revoked or self._is_over)

    def assign(self, membership: Membership, inputs: frozenset[int]) -> None:
        """The group has assigned these partitions of the input; a takeover follows."""
        self.is_flowing = self._is_revoked = False
        self.starts = None
        self.membership = membership
        self.inputs = inputs

    def begin(self, actives: set[int], standbys: set[int]) -> None:
        """A takeover gives its partitions their roles."""
        self.roles.update(
            dict.fromkeys(standbys, Role.STANDBY) | dict.fromkeys(actives, Role.ACTIVE)
        )

    def restored(self, starts: Mapping[int, Start]) -> None:
        """The state fits the input: the next source offsets to commit are these."""
        self.positions = {partition: start.offset for partition, start in starts.items()}

    def pause(self) -> None:
        """The seek begins: nothing is handed over."""
        self.is_flowing = False

    def take_starts(self) -> dict[int, Start]:
        """Where the input is read from; a later seek has to fetch it again."""
        assert self.starts is not None
        starts, self.starts = self.starts, None
        return starts

    def flow(self) -> None:
        """The seek is done: micro-batches may be handed over."""
        if not self.is_lasting:
            return
        self.is_flowing = True
        self.doubt = None
        self.journal.took(self._held())

    def committed(self, ends: Mapping[int, int]) -> None:
        """A micro-batch is committed up to these source offsets."""
        self.positions.update(ends)

    def suspend(self, doubt: str) -> None:
        """Hand over nothing until the commit in doubt is settled."""
        if not self.is_flowing:
            return  # the group revoked the partitions first
        self.journal.doubted(doubt, self._held())
        self.is_flowing = False
        self.doubt = doubt

    def revoke(self) -> None:
        """The group revokes the partitions. A commit in flight ends under its membership."""
        if self.is_flowing or self.doubt is not None:
            self.journal.left(self._held())
        self.is_flowing = False
        self._is_revoked = True
        self.doubt = None

    def leave_off(self) -> None:
        """The worker stops: later assignments hand over nothing."""
        self._is_over = True
        self.revoke()

    def end(self) -> list[int]:
        """Nothing is held any more; returns the partitions that were processed."""
        self.epoch += 1
        self.roles.clear()
        self.journal.ended(self.positions)
        processed, self.positions = list(self.positions), {}
        return processed

    def _held(self) -> Held:
        standbys = [partition for partition, role in self.roles.items() if role is Role.STANDBY]
        return Held(sorted(self.positions), sorted(standbys))
