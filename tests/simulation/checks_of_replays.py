"""What must hold of a replay when a process takes it for over, and when all have ended; by brute
force from the logs alone.
"""

from __future__ import annotations

from collections import Counter

from tests.harness.history import History, history
from tests.simulation.broker import Transaction
from tests.simulation.checks import check_messages, input_of, messages_of, state_of
from tests.simulation.replay import SharedReplay
from tests.simulation.world import Violation, World
from worker.replay.ledger import Account, read_note, total
from worker.state.keys import APPLIED, ENTITY, LAST_CHANGE, header_key, parse_entity_key
from worker.state.rows import decode_applied


def check_end(world: World) -> None:
    """Whoever ends finds every partition done up to its end: nothing undecided below it, all
    committed. Raises Violation.
    """
    for partition, span in _replay(world).ranges.items():
        log = world.broker.log(world.settings.input_topic, partition)
        if log.stable_end < span.end:
            raise Violation(
                "end",
                f"partition {partition} is undecided from {log.stable_end} on, below {span.end}",
            )
        committed = world.broker.group.committed.get(partition)
        if committed != span.end:
            raise Violation(
                "end", f"partition {partition} is committed up to {committed}, not {span.end}"
            )
        _check_rows(world, partition, span.end)
    world.seen["replays ended"] += 1


def _check_rows(world: World, partition: int, end: int) -> None:
    # also behind the open transaction of one that was replaced
    log = world.broker.log(world.changelog, partition)
    rows = state_of(entry for entry in log.history if entry.is_committed)
    left = [key for key in rows if key.startswith(LAST_CHANGE)]
    if left:
        raise Violation("end", f"partition {partition}: not published yet are {left}")
    applied = decode_applied(APPLIED, rows[APPLIED]).next_offset
    if applied != end:
        raise Violation(
            "end", f"partition {partition}: the rows are those up to {applied}, not {end}"
        )


def check_over(world: World) -> None:
    """What the replay published, and its account. Raises Violation."""
    check_end(world)
    wanted = history(input_of(world), world.settings)
    check_messages(world, wanted)
    _check_account(world, wanted)
    _check_finals(world)


def _replay(world: World) -> SharedReplay:
    assert world.replay is not None
    return world.replay


def _check_account(world: World, wanted: History) -> None:
    """The accounts of all partitions together tell what happened, each thing once."""
    verdicts: dict[str, Counter[str]] = {
        "applied": Counter(),
        "ignored": Counter(),
        "dead_letter": Counter(),
    }
    for outcome, count in wanted.outcomes.items():
        verdict, _, reason = outcome.partition(":")
        verdicts[verdict][reason] += count
    right = Account(
        read=wanted.outcomes.total(),
        applied=verdicts["applied"].total(),
        ignored=dict(verdicts["ignored"]),
        dead_letters=dict(verdicts["dead_letter"]),
        changes=sum(change.body is not None for change in wanted.changes),
        published=len(messages_of(world, world.settings.output_topic)),
        entities=sum(map(len, _entities(world))),
        over=True,
    )
    found = total(read_note(world.broker.group.notes[partition]) for partition in world.partitions)
    if found != right:
        raise Violation("account", f"{found}, and it is {right}")


def _entities(world: World) -> list[set[bytes]]:
    """By partition, those that have a header in the state."""
    return [
        {
            entity
            for key in rows
            if key.startswith(ENTITY)
            for entity in [parse_entity_key(key).entity]
            if header_key(entity) == key
        }
        for partition in world.partitions
        for rows in [state_of(world.broker.log(world.changelog, partition).committed())]
    ]


def _check_finals(world: World) -> None:
    """What is published at the end goes out in the transaction that takes its row away."""
    if world.setup.replay != "final":
        return
    for partition in world.partitions:
        taken: dict[Transaction | None, set[bytes]] = {}
        for entry in world.broker.log(world.changelog, partition).history:
            if (
                entry.is_committed
                and entry.value is None
                and (entry.key or b"").startswith(LAST_CHANGE)
            ):
                taken.setdefault(entry.transaction, set()).add((entry.key or b"")[5:])
        for entry in world.broker.log(world.settings.output_topic, partition).committed():
            world.seen["published at the end"] += 1
            if entry.key not in taken.get(entry.transaction, ()):
                raise Violation(
                    "I5", f"{entry.key!r} is published, and its row stays in that transaction"
                )
