"""The account of a replay: a part of what it counts, so that it is exact whoever did what and
however it ended.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from worker.kafka.offsets import Start
from worker.processing.processor import ProcessedBatch
from worker.processing.stats import Stats
from worker.replay.ledger import Account, ReplayLedger, read_note, total

counts = st.integers(0, 10**6)
reasons = st.dictionaries(
    st.sampled_from(["stale_version", "unknown_entity", "bad_json"]), st.integers(1, 99)
)
accounts = st.builds(
    Account,
    counts,
    counts,
    reasons,
    reasons,
    counts,
    counts,
    st.integers(-9, 9),
    counts,
    st.booleans(),
)

OUTCOMES = [
    ("review.upserted", "applied"),
    ("review.deleted", "applied"),
    ("review.upserted", "ignored:stale_version"),
    ("unreadable", "dead_letter:bad_json"),
]
batches = st.lists(
    st.tuples(
        st.dictionaries(
            st.sampled_from([0, 1, 2]), st.integers(1, 9), min_size=1
        ),  # how far it goes
        st.lists(st.sampled_from(OUTCOMES), max_size=9),
        st.booleans(),  # it is committed
        st.sampled_from(["", "", "another takes over"]),
    ),
    max_size=15,
)


def processed(
    next_offsets: dict[int, int], stats: Stats | None = None, *, is_end: bool = False
) -> ProcessedBatch:
    return ProcessedBatch([], {}, next_offsets, stats or Stats(), [], 0, is_end)


def starts(**offsets: tuple[int, str]) -> dict[int, Start]:
    return {
        int(name[1:]): Start(offset, True, 99, note) for name, (offset, note) in offsets.items()
    }


@given(st.lists(accounts, max_size=5))
def test_all_together_are_the_sum(several: list[Account]) -> None:
    whole = total(several)
    for name in ("read", "applied", "changes", "published", "entities", "late"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in several)
    for name in ("ignored", "dead_letters"):
        parts = sum((Counter(getattr(part, name)) for part in several), Counter())
        assert getattr(whole, name) == parts
    assert whole.over == all(part.over for part in several)


@given(batches)
def test_the_notes_tell_what_was_committed_once_whoever_did_it(drawn: list[tuple]) -> None:  # type: ignore[type-arg]
    """Whatever is not committed is not in them; who takes over goes on from the notes."""
    notes: dict[int, str] = {}
    offsets = dict.fromkeys(range(3), 0)
    ledger = ReplayLedger(dict.fromkeys(range(3), 10**9))

    def take_over() -> None:
        ledger.begin({p: Start(offsets[p], p in notes, 10**9, notes.get(p, "")) for p in range(3)})

    take_over()
    wanted: Counter[str] = Counter()
    for steps, outcomes, happens, after in drawn:
        stats = Stats(
            outcomes=Counter(outcomes), set_changes=2, changes=1, tombstones=1, entities=-1, late=3
        )
        batch = processed({p: offsets[p] + step for p, step in steps.items()}, stats)
        written = ledger.notes(batch)
        assert written.keys() == batch.next_offsets.keys()
        if happens:
            ledger.committed(batch, written)
            notes |= written
            offsets |= batch.next_offsets
            wanted.update(outcome for _, outcome in outcomes)
            wanted["batches"] += 1
            assert ledger.offsets == offsets
        else:
            take_over()  # a doubt, or another process
        if after:
            take_over()
    found = total(read_note(note) for note in notes.values())
    assert found.read == wanted.total() - wanted["batches"]
    assert found.applied == wanted["applied"]
    assert found.ignored == ({"stale_version": n} if (n := wanted["ignored:stale_version"]) else {})
    assert found.dead_letters == ({"bad_json": n} if (n := wanted["dead_letter:bad_json"]) else {})
    several = wanted["batches"]
    assert (found.changes, found.published, found.entities, found.late) == (
        2 * several,
        2 * several,
        -several,
        3 * several,
    )


def test_a_micro_batch_of_several_partitions_counts_for_the_lowest_and_all_have_their_notes() -> (
    None
):
    ledger = ReplayLedger({1: 10, 2: 10})
    ledger.begin(starts(p1=(0, ""), p2=(0, '{"read":5}')))
    notes = ledger.notes(processed({2: 4, 1: 3}, Stats(outcomes=Counter([OUTCOMES[0]]))))
    assert {p: read_note(note) for p, note in notes.items()} == {
        1: Account(read=1, applied=1),
        2: Account(read=5),
    }


def test_a_partition_is_over_with_the_end_that_is_committed_and_stays_over() -> None:
    ledger = ReplayLedger({0: 7})
    assert not ledger.is_over(0)  # nothing is known of it
    ledger.begin(starts(p0=(3, "")))
    end = processed({0: 7}, is_end=True)
    notes = ledger.notes(end)
    assert not ledger.is_over(0)  # it is not committed
    ledger.committed(end, notes)
    assert ledger.is_over(0)
    ledger.begin(starts(p0=(7, notes[0])))
    assert ledger.is_over(0)
    ledger.begin(starts(p0=(7, "")))
    assert not ledger.is_over(0)  # read to its end, and nothing published yet, perhaps


def test_what_was_gone_on_with_beyond_its_end_is_over() -> None:
    ledger = ReplayLedger({0: 7, 1: 7})
    ledger.begin({0: Start(8, True, 9), 1: Start(8, False, 9)})
    assert (ledger.is_over(0), ledger.is_over(1)) == (True, False)


@given(accounts)
def test_a_note_comes_back_as_it_was(account: Account) -> None:
    ledger = ReplayLedger({0: 1})
    ledger.begin({0: Start(0, False, 9)})
    ledger.accounts[0] = account
    assert read_note(ledger.notes(processed({0: 1}))[0]) == account
