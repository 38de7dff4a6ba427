"""A change with its texts: of what came from itself, of what went from the change before it, if that is still there."""

import json

from worker.events import Record
from worker.kafka.reader import Stored
from worker.operations.history import _changes


class Reader:
    """The messages of one partition."""

    def __init__(self, *bodies):
        self._bodies = bodies

    def read(self, _partition):
        for offset, body in enumerate(self._bodies):
            value = None if body is None else json.dumps(body).encode()
            yield Stored(Record("summaries", 0, offset, 0, b"e", value), {})


def body(sequence, previous, shown, added, removed):
    sentences = [{"sentence_id": one, "text": f"Text of {one}."} for one in shown]
    return {
        "sequence": sequence,
        "previous_sequence": previous,
        "sentences": sentences,
        "added": added,
        "removed": removed,
    }


def changes(*bodies):
    return list(_changes(Reader(*bodies), [0], b"e"))


def test_texts_of_what_came_and_what_went():
    first, second = changes(body(3, None, ["a", "b"], ["a", "b"], []), body(9, 3, ["a", "c"], ["c"], ["b"]))
    assert (first.added_texts, first.removed_texts) == ({"a": "Text of a.", "b": "Text of b."}, {})
    assert (second.added_texts, second.removed_texts) == ({"c": "Text of c."}, {"b": "Text of b."})
    assert not second.incomplete


def test_an_edited_sentence_has_both_texts():
    edited = body(9, 3, ["a"], ["a"], ["a"])
    edited["sentences"][0]["text"] = "Another."
    _, second = changes(body(3, None, ["a"], ["a"], []), edited)
    assert (second.added_texts, second.removed_texts) == ({"a": "Another."}, {"a": "Text of a."})


def test_a_text_that_was_compacted_away_is_not_made_up():
    """The message before is an older one: what went was in one that is gone."""
    _, last = changes(body(3, None, ["b"], ["b"], []), body(9, 5, ["c"], ["c"], ["b"]))
    assert (last.incomplete, last.removed_texts) == (True, {"b": None})


def test_after_a_deletion_nothing_is_left_of_before():
    _, gone, again = changes(body(3, None, ["a"], ["a"], []), None, body(9, None, ["a"], ["a"], []))
    assert (gone.tombstone, gone.added_texts, gone.removed_texts) == (True, {}, {})
    assert (again.incomplete, again.removed_texts) == (False, {})
