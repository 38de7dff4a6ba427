"""The ledger of a replay: an account for each partition, committed as its offset's note.

An account is part of the transaction that did the work, so it is exact after any failure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import reduce

from msgspec import DecodeError, Struct, json

from worker.kafka.offsets import Start
from worker.processing.processor import ProcessedBatch
from worker.processing.stats import Stats
from worker.stream.run_bounds import Ledger


class Account(Struct, omit_defaults=True):
    """The outcomes of a partition's records; a micro-batch counts for its lowest partition."""

    read: int = 0  # records
    applied: int = 0
    ignored: dict[str, int] = {}
    dead_letters: dict[str, int] = {}
    changes: int = 0  # of the sets of entities
    published: int = 0  # messages about these
    entities: int = 0  # those that appeared less those that disappeared
    late: int = 0  # events that occurred in the span and arrived after it
    over: bool = False  # nothing is left to do

    def with_stats(self, stats: Stats) -> "Account":
        """This account plus a micro-batch."""
        verdicts: dict[str, Counter[str]] = {"ignored": Counter(), "dead_letter": Counter()}
        applied = 0
        for (_, outcome), count in stats.outcomes.items():
            verdict, _, reason = outcome.partition(":")
            if verdict == "applied":
                applied += count
            else:
                verdicts[verdict][reason] += count
        return self.plus(
            Account(
                stats.records,
                applied,
                verdicts["ignored"],
                verdicts["dead_letter"],
                stats.set_changes,
                stats.changes + stats.tombstones,
                stats.entities,
                stats.late,
            )
        )

    def plus(self, other: "Account") -> "Account":
        """Both together; over only if both are."""
        return Account(
            self.read + other.read,
            self.applied + other.applied,
            dict(Counter(self.ignored) + Counter(other.ignored)),
            dict(Counter(self.dead_letters) + Counter(other.dead_letters)),
            self.changes + other.changes,
            self.published + other.published,
            self.entities + other.entities,
            self.late + other.late,
            self.over and other.over,
        )


def total(accounts: Iterable[Account]) -> Account:
    """The sum of the accounts."""
    return reduce(Account.plus, accounts, Account(over=True))


_decode = json.Decoder(Account).decode


def read_note(note: str) -> Account:
    """The account in a note; an empty one if it holds none."""
    try:
        return _decode(note)
    except DecodeError:
        return Account()


class ReplayLedger(Ledger):
    """The accounts of this worker's partitions."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        """`ends`: by partition the first offset that is not read."""
        self._ends = ends
        self.accounts: dict[int, Account] = {}
        self.offsets: dict[int, int] = {}
        """The committed offset by partition."""

    def begin(self, starts: Mapping[int, Start]) -> None:
        """Read the notes. A partition that was read beyond its end has nothing left to do."""
        self.accounts = {partition: read_note(start.note) for partition, start in starts.items()}
        self.offsets = {partition: start.offset for partition, start in starts.items()}
        for partition, start in starts.items():
            if start.committed and start.offset > self._ends[partition]:
                self.accounts[partition].over = True

    def notes(self, batch: ProcessedBatch) -> Mapping[int, str]:
        """The accounts of the batch's partitions once it is committed, as JSON."""
        accounts = {partition: self.accounts[partition] for partition in batch.next_offsets}
        lowest = min(accounts)
        over = batch.is_end or accounts[lowest].over
        accounts[lowest] = accounts[lowest].with_stats(batch.stats)
        accounts[lowest].over = over
        return {partition: json.encode(account).decode() for partition, account in accounts.items()}

    def committed(self, batch: ProcessedBatch, notes: Mapping[int, str]) -> None:
        """Keep the accounts in these notes, which are committed."""
        self.accounts |= {partition: read_note(note) for partition, note in notes.items()}
        self.offsets |= batch.next_offsets

    def is_over(self, partition: int) -> bool:
        """True if the partition is done and committed; False before it is taken over."""
        return partition in self.accounts and self.accounts[partition].over
