"""What a replay of a part of the history takes: as if the other records had never been, but for
their offsets.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import Driver, config, record
from tests.processing.operations import ENTITIES, operations, records_of
from worker.events import Rejected, decode
from worker.events.dates import milliseconds
from worker.processing.config import RecordSelection

SINCE, UNTIL = 1_699_999_000_000, 1_700_000_001_000
TIMES = st.sampled_from([SINCE - 1, SINCE, 1_700_000_000_000, UNTIL - 1, UNTIL, UNTIL + 1])
histories = st.lists(st.tuples(operations, TIMES), max_size=30).map(
    lambda drawn: [
        record._replace(timestamp_ms=time)
        for record, (_, time) in zip(records_of([event for event, _ in drawn]), drawn, strict=True)
    ]
)
selections = st.builds(
    RecordSelection,
    entities=st.sampled_from(
        [None, frozenset(), frozenset({ENTITIES[0].encode()}), frozenset({b"nobody"})]
    ),
    since_ms=st.sampled_from([None, SINCE]),
    until_ms=st.sampled_from([None, UNTIL]),
)


def is_selected(selection, record, limits):
    """The rule, straight on."""
    (event,) = decode([record], limits)
    said = None if isinstance(event, Rejected) else event.occurred_at
    time = record.timestamp_ms if said is None else milliseconds(said)
    return (
        (selection.entities is None or record.key in selection.entities)
        and (selection.since_ms is None or time >= selection.since_ms)
        and (selection.until_ms is None or time < selection.until_ms)
    )


@settings(max_examples=200, deadline=None)
@given(histories, selections, st.integers(1, 10))
def test_what_is_left_out_is_as_if_it_had_never_been(records, selection, size):
    part, alone = Driver(config(selection=selection)), Driver(config())
    taken = {id(record) for record in records if is_selected(selection, record, part.config.limits)}
    left_out = late = 0
    messages = []
    for at in range(0, len(records), size):
        result = part.run(*records[at : at + size])
        messages += result.messages
        late += result.stats.late
        left_out += sum(
            n
            for (_, outcome), n in result.stats.outcomes.items()
            if outcome == "ignored:not_selected"
        )
    assert left_out == len(records) - len(taken)
    again = [m for record in records if id(record) in taken for m in alone.run(record).messages]
    by_partition = lambda found: [[m for m in found if m.partition == p] for p in (0, 1)]  # noqa: E731
    assert by_partition(messages) == by_partition(again)
    if selection.is_by_time and selection.until_ms is not None:
        assert late == sum(
            record.timestamp_ms >= UNTIL for record in records if id(record) in taken
        )


def test_what_arrived_when_its_span_was_over_is_late():
    driver = Driver(config(selection=RecordSelection(until_ms=5000)))
    body = {"type": "review.deleted", "review_id": "r", "occurred_at": "1970-01-01T00:00:04.999Z"}
    within = record(0, "a", body)._replace(timestamp_ms=4999)
    late = record(1, "a", body)._replace(timestamp_ms=5000)
    beyond = record(2, "a", body | {"occurred_at": "1970-01-01T00:00:05Z"})._replace(
        timestamp_ms=4999
    )
    stats = driver.run(within, late, beyond).stats
    assert stats.late == 1
    assert sum(n for (_, o), n in stats.outcomes.items() if o == "ignored:not_selected") == 1
    assert driver.run(late).stats.late == 0  # applied already
