"""A change with its texts: of what came from itself, of what went from the change before it, if
that is still there.
"""

import json

from tests.view.changes import body
from worker.events import Record
from worker.published.history import PublishedChange, last_steps, steps
from worker.published.published import publication


def change(sequence, previous, shown, added, removed=(), text="Text of {}."):
    texts = {one: text.format(one) for one in shown}
    return body("e", sequence, texts, added, removed, previous=previous)


def publications(*values, partition=0):
    for offset, value in enumerate(values):
        yield publication(Record("summaries", partition, offset, 0, b"e", value))


def changes(*values):
    return [PublishedChange.of(step) for step in steps(publications(*values))]


FIRST = change(3, None, ["a#0", "b#0"], ["a#0", "b#0"])


def test_texts_of_what_came_and_what_went():
    first, second = changes(FIRST, change(9, 3, ["a#0", "c#0"], ["c#0"], ["b#0"]))
    assert (first.added_texts, first.removed_texts) == (
        {"a#0": "Text of a#0.", "b#0": "Text of b#0."},
        {},
    )
    assert (second.added_texts, second.removed_texts) == (
        {"c#0": "Text of c#0."},
        {"b#0": "Text of b#0."},
    )
    assert not second.incomplete
    assert (second.sequence, second.sentences, second.published_at) == (
        9,
        2,
        "1970-01-01T00:00:00.000Z",
    )


def test_an_edited_sentence_has_both_texts():
    first = change(3, None, ["a#0"], ["a#0"])
    _, second = changes(first, change(9, 3, ["a#0"], ["a#0"], ["a#0"], text="Another."))
    assert (second.added_texts, second.removed_texts) == (
        {"a#0": "Another."},
        {"a#0": "Text of a#0."},
    )


def test_a_text_that_was_compacted_away_is_not_made_up():
    """The message before is an older one: what went was in one that is gone."""
    _, last = changes(change(3, None, ["b#0"], ["b#0"]), change(9, 5, ["c#0"], ["c#0"], ["b#0"]))
    assert (last.incomplete, last.removed_texts) == (True, {"b#0": None})


def test_after_a_deletion_nothing_is_left_of_before():
    _, gone, again = changes(FIRST, None, change(9, None, ["a#0"], ["a#0"]))
    assert (gone.tombstone, gone.added_texts, gone.removed_texts) == (True, {}, {})
    assert (gone.sequence, gone.cause, gone.sentence_count) == (None, None, None)
    assert (again.incomplete, again.removed_texts) == (False, {})


def test_the_first_one_there_is_may_not_be_the_first():
    (only,) = changes(change(9, 3, ["a#0", "c#0"], ["c#0"], ["b#0"]))
    assert (only.incomplete, only.removed_texts) == (True, {"b#0": None})


def test_what_another_partition_has_is_another_story():
    second = change(9, 3, ["a#0", "c#0"], ["c#0"], ["b#0"])
    both = [*publications(FIRST), *publications(second, partition=1)]
    assert [step.incomplete for step in steps(both)] == [False, True]


def test_the_last_ones_know_what_was_before_them():
    second = change(9, 3, ["a#0", "c#0"], ["c#0"], ["b#0"])
    (last,) = last_steps(publications(FIRST, second), 1)
    assert not last.incomplete
    assert last.before.sequence == json.loads(FIRST)["sequence"]
    assert len(list(last_steps(publications(FIRST, second), None))) == 2
