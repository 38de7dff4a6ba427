"""What a replay has done so far: one account for each partition, committed as the note of its
offset.

So an account is exact, whichever process did what and however it ended: it is a part of the
transaction that did it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import DecodeError, Struct, json

from worker.kafka.offsets import Start
from worker.processing.processor import ProcessedBatch
from worker.processing.stats import Stats


class Account(Struct, omit_defaults=True):
    """What became of a partition's records; with a micro-batch of several partitions all of it
    counts for the lowest.

    `read` counts records, `changes` how often the set of an entity changed, `published` the
    messages about that, `entities` those that came less those that went, `late` events that
    occurred in the span and arrived after it. `over`: nothing is left to be done.
    """

    read: int = 0
    applied: int = 0
    ignored: dict[str, int] = {}
    dead_letters: dict[str, int] = {}
    changes: int = 0
    published: int = 0
    entities: int = 0
    late: int = 0
    over: bool = False

    def with_stats(self, stats: Stats) -> "Account":
        """This, and a micro-batch."""
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
    """All of them together."""
    result = Account(over=True)
    for account in accounts:
        result = result.plus(account)
    return result


_decode = json.Decoder(Account).decode


def read_note(note: str) -> Account:
    """The account that a note holds; an empty one where it holds none."""
    try:
        return _decode(note)
    except DecodeError:
        return Account()


class ReplayLedger:
    """The accounts of the partitions that are held here; see `worker.stream.run_bounds.Ledger`."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        """`ends`: where each partition ends."""
        self._ends = ends
        self.accounts: dict[int, Account] = {}
        self.offsets: dict[int, int] = {}
        """By partition, what is committed."""

    def begin(self, starts: Mapping[int, Start]) -> None:
        """See `Ledger`. A partition that was gone on with beyond its end has nothing left to be
        done.
        """
        self.accounts = {partition: read_note(start.note) for partition, start in starts.items()}
        self.offsets = {partition: start.offset for partition, start in starts.items()}
        for partition, start in starts.items():
            if start.committed and start.offset > self._ends[partition]:
                self.accounts[partition].over = True

    def notes(self, batch: ProcessedBatch) -> Mapping[int, str]:
        """See `Ledger`."""
        accounts = {partition: self.accounts[partition] for partition in batch.next_offsets}
        lowest = min(accounts)
        over = batch.is_end or accounts[lowest].over
        accounts[lowest] = accounts[lowest].with_stats(batch.stats)
        accounts[lowest].over = over
        return {partition: json.encode(account).decode() for partition, account in accounts.items()}

    def committed(self, batch: ProcessedBatch, notes: Mapping[int, str]) -> None:
        """See `Ledger`."""
        self.accounts |= {partition: read_note(note) for partition, note in notes.items()}
        self.offsets |= batch.next_offsets

    def is_over(self, partition: int) -> bool:
        """See `Ledger`. Of a partition that is not taken over yet nothing is known."""
        return partition in self.accounts and self.accounts[partition].over
