"""Some seeds of the simulation; that it finds what it is there to find; and that it is the same
every time.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from itertools import chain, islice, product

import pytest
from rich.console import Console

from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS
from tests.simulation.__main__ import look_at
from tests.simulation.broker import Broker, Clock, Refused
from tests.simulation.mutations import (
    FOCUS,
    MUTATIONS,
    REPLAY_MUTATIONS,
    restore_to_the_end_of_its_beginning,
)
from tests.simulation.plan import Plan, Setup, Step, draw_plan, draw_replay
from tests.simulation.run import report, run_plan, run_seed, smallest
from tests.simulation.seeds import run_seeds
from tests.simulation.shrink import shrink

SEEDS = 40
PART = 10
"""Seeds of one test."""
MUTATION_SEEDS = 400
FINDING = {
    "applied_records_processed_again": 28,
    "changelog_offset_before_its_rows": 27,
    "every_jump_believed": 6,
    "membership_read_live": 6,
    "no_seek_back_after_a_dropped_fetch": 160,
    "open_transactions_below_the_end_passed_over": 202,
}

UPSERT = (
    b'{"type":"review.upserted","entity_id":"a","review_id":"r","sentences":[{"text":"x",'
    b'"embedding":[1,0,0,0]}]}'
)
ANOTHER = UPSERT.replace(b'"r"', b'"s"')


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("first", one_of(range(0, SEEDS, PART)))
def test_every_invariant_holds(first: int, replay: bool) -> None:
    for seed in range(first, first + PART):
        verdict = run_seed(seed, replay=replay)
        assert verdict.violation is None, (
            f"seed {seed}: {verdict.violation}; python -m tests.simulation "
            f"{'--replay ' if replay else ''}--seed {seed}"
        )


def seeds(name: str) -> Iterator[int]:
    """Those that are tried: first one that found it once, where the first of all is far."""
    first = FINDING.get(name, 0)
    return chain(range(first, MUTATION_SEEDS), range(first))


@pytest.mark.parametrize("name", one_of(REPLAY_MUTATIONS))
def test_a_rule_of_replays_taken_out_is_found(name: str) -> None:
    with REPLAY_MUTATIONS[name]():
        failing = (s for s in seeds(name) if run_seed(s, FOCUS.get(name), replay=True).violation)
        assert list(islice(failing, 1)), f"{name}: {MUTATION_SEEDS} seeds without a finding"


@pytest.mark.parametrize("name", one_of(MUTATIONS))
def test_a_rule_taken_out_is_found(name: str) -> None:
    with MUTATIONS[name]():
        failing = (s for s in seeds(name) if run_seed(s, FOCUS.get(name)).violation)
        assert list(islice(failing, 1)), f"{name}: {MUTATION_SEEDS} seeds without a finding"


@pytest.mark.long
def test_a_seed_is_the_same_every_time() -> None:
    for seed, draw in product(range(5), (draw_plan, draw_replay)):
        first, other = run_plan(draw(seed), tell=True), run_plan(draw(seed), tell=True)
        assert first.story == other.story
        assert first.seen == other.seen


def test_a_run_silences_no_log_but_its_own() -> None:
    logger = logging.getLogger("worker")
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        run_seed(0)
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)


def test_a_zombie_that_wakes_in_its_commit_is_refused() -> None:
    """One worker stops just before its commit; its successor waits until the broker aborts it, and
    goes on from there.

    Woken, it finds that its commit never happened, and takes over what the group gives it next, its
    successor's rows included.
    """
    story = _zombie(seconds=16)
    assert "w1 call: commit" in story
    thawed = story.index("-- thaw()")
    assert "w0 takeover: write" in story[thawed:]
    assert not any(" ended" in line for line in story)


def test_a_zombie_in_time_is_waited_for() -> None:
    """The same, but it wakes before its transaction runs out: it commits, and the successor has
    nothing left to do.
    """
    story = _zombie(seconds=0)
    assert "w1 call: commit" not in story
    assert "w0 commit: write" in story


def _zombie(seconds: int) -> list[str]:
    steps = (
        Step("work", (6, 5)),
        Step("arm", ("commit", "freeze", "before", 0, 0)),
        Step("produce", (0, b"a", UPSERT, -1)),
        Step("work", (3, 5)),
        Step("tick", (7,)),
        Step("work", (10, 5)),
        Step("tick", (seconds,)),
        Step("work", (10, 5)),
        Step("thaw"),
    )
    verdict = run_plan(Plan(0, Setup(partitions=1, shuffle=0), steps), tell=True)
    assert verdict.violation is None
    assert verdict.seen["freeze before commit"] == 1
    return verdict.story


def test_a_restore_that_a_commit_of_the_next_owner_overtakes_ends_behind_it() -> None:
    """One worker restores what is another's by now, and does not know: a query sees no
    half of a transaction.
    """
    steps = (
        Step("work", (10, 5)),
        Step("arm", ("flush", "fail", "after", 0, 0)),
        Step(
            "arm", ("init", "freeze", "before", 0, 0)
        ),  # so it has a commit in doubt when it wakes
        Step("produce", (0, b"a", UPSERT, -1)),
        Step("work", (10, 5)),
        Step("tick", (7,)),
        Step("work", (30, 5)),
        Step("arm", ("write", "park", "after", 0, 3)),
        Step("stop", (0,)),  # it joins no more
        Step("thaw"),
        *(Step("run", (0, 0, 5)) for _ in range(6)),
        Step("produce", (0, b"a", ANOTHER, -1)),
        *(Step("run", (1, 0, 5)) for _ in range(9)),
        Step("work", (10, 5)),
    )
    plan = Plan(0, Setup(partitions=1, shuffle=0, restore_rows=2), steps)
    with restore_to_the_end_of_its_beginning():
        violation = run_plan(plan).violation
    assert violation is not None
    assert violation.invariant == "view"
    assert run_plan(plan).violation is None


@pytest.mark.long
def test_a_failing_seed_shrinks_to_a_history_that_fails_alike() -> None:
    with MUTATIONS["applied_records_processed_again"]():
        seed = next(seeds("applied_records_processed_again"))
        assert run_seed(seed).violation is not None
        whole = draw_plan(seed)
        small, verdict = smallest(seed, seconds=PATIENCE_SECONDS)
        assert verdict.kind == run_plan(whole).kind
        assert len(small.steps) < len(whole.steps) / 3
        text = report(seed, small, verdict)
    assert f"python -m tests.simulation --seed {seed}" in text
    assert all(str(step) in text for step in small.steps)
    assert run_plan(small).violation is None  # it was the rule's absence


def test_the_command_ends_with_1_where_a_seed_fails_and_says_how_to_have_it_again() -> None:
    console = Console(record=True, file=io.StringIO(), width=200)
    assert look_at(0, 1, console) == 0
    with MUTATIONS["applied_offset_not_in_the_rows"]():
        assert look_at(0, 1, console) == 1
    text = console.export_text()
    assert "seed 0: every invariant holds" in text
    assert "again: python -m tests.simulation --seed 0" in text


def test_shrinking_keeps_what_the_failure_needs() -> None:
    steps = tuple(Step("tick", (n,)) for n in range(40))
    needed = {Step("tick", (7,)), Step("tick", (31,))}
    small = shrink(
        Plan(0, Setup(k=4), steps),
        lambda plan: {s for s in plan.steps if s.arguments[0] in (7, 31)} == needed,
    )
    assert set(small.steps) == needed
    assert small.setup == Setup()


def test_a_summary_behind_the_open_transaction_of_a_replaced_worker_is_committed() -> None:
    """Readers of the log wait for that transaction's end; the owner does not."""
    assert run_seed(1592).violation is None


def test_a_replaced_worker_takes_over_what_was_committed_when_it_began() -> None:
    """Its successor, of the same generation, commits while it takes over."""
    assert run_seed(300945).violation is None


def test_a_replaced_worker_does_not_end_its_restore_amid_a_transaction_of_its_successor() -> None:
    steps = (
        Step("produce", (0, b"a", UPSERT, -1)),
        Step("work", (20, 5)),
        Step("wipe", (0, 0)),
        Step("arm", ("read", "freeze", "after", 0, 0)),
        Step("work", (9, 5)),
        Step("replace", (0,)),
        Step("produce", (0, b"a", ANOTHER, -1)),
        *(Step("run", (0, 0, 5)) for _ in range(9)),
        Step("thaw"),
        *(Step("run", (0, 1, 5)) for _ in range(3)),
        Step("work", (10, 5)),
    )
    plan = Plan(0, Setup(workers=1, partitions=1, shuffle=0, restore_rows=2), steps)
    with restore_to_the_end_of_its_beginning():
        violation = run_plan(plan).violation
    assert violation is not None
    assert violation.invariant == "I8"
    verdict = run_plan(plan)
    assert verdict.violation is None
    assert verdict.seen["takeovers of what is another's by then"] == 1


@pytest.mark.long
def test_seeds_in_processes_are_the_same_seeds() -> None:
    done: list[int] = []
    failed, seen = run_seeds(3, 4, 2, done.append)
    assert (failed, done) == ([], [4])
    assert seen["events"] == sum(run_seed(seed).seen["events"] for seed in range(3, 7))


# -- the broker ------------------------------------------------------------------------------------


def test_an_open_transaction_holds_committed_readers_back_and_a_decided_one_leaves_a_marker() -> (
    None
):
    broker = Broker(Clock())
    epoch = broker.init_producer("p")
    broker.begin("p", epoch)
    log = broker.log("t", 0)
    broker.produce("p", epoch, ("t", 0), b"k", b"1", ())
    log.append(b"k", b"2")
    assert log.read(0, 9) == ([], 0)
    assert [entry.value for entry in log.read(0, 9, committed=False)[0]] == [b"1", b"2"]
    broker.end("p", epoch, "aborted")
    found, position = log.read(0, 9)
    assert ([entry.value for entry in found], position) == ([b"2"], 3)


def test_a_taken_over_transactional_id_is_fenced_and_its_transaction_aborted() -> None:
    broker = Broker(Clock())
    old = broker.init_producer("p")
    broker.begin("p", old)
    broker.produce("p", old, ("t", 0), b"k", b"1", ())
    broker.init_producer("p")
    assert broker.log("t", 0).committed() == []
    with pytest.raises(Refused):
        broker.end("p", old, "committed")


@pytest.mark.parametrize("membership", [(0, "m"), (1, "other")])
def test_offsets_of_a_stale_membership_are_refused(membership: tuple[int, str]) -> None:
    broker = Broker(Clock())
    broker.group.members["m"], broker.group.generation = object(), 1
    epoch = broker.init_producer("p")
    broker.begin("p", epoch)
    with pytest.raises(Refused):
        broker.add_offsets("p", epoch, {0: 1}, membership)
    broker.add_offsets("p", epoch, {0: 5}, (1, "m"))
    assert (broker.group.committed, broker.group.is_pending([0])) == ({}, True)
    broker.end("p", epoch, "committed")
    assert (broker.group.committed, broker.group.is_pending([0])) == ({0: 5}, False)


def test_compaction_keeps_the_last_of_each_key_and_tombstones_for_their_time() -> None:
    clock = Clock()
    log = Broker(clock).log("t", 0)
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)):
        log.append(key, value)
    log.compact(0, tombstone_seconds=10)
    assert [(entry.offset, entry.value) for entry in log.entries] == [(2, b"2"), (3, None)]
    clock.now += 11
    log.compact(0, tombstone_seconds=10)
    assert [entry.offset for entry in log.entries] == [2]
    assert len(log.committed()) == 4
