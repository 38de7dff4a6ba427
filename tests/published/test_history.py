"""A change with its texts: of what came from itself, of what went from the change before it, if
that is still there.
"""

import json

from msgspec import structs

from tests.view.changes import body, facets_body, facets_changed, summary
from worker.events import Record
from worker.events.json_codec import encode
from worker.events.publishing import FACETS
from worker.published.comparison import compare
from worker.published.history import PublishedChange, last_steps, steps
from worker.published.publication import publications


def change(sequence, previous, shown, added, removed=(), text="Text of {}."):
    texts = {identifier: text.format(identifier) for identifier in shown}
    return body("e", sequence, texts, added, removed, previous=previous)


def published(*values, partition=0):
    for offset, value in enumerate(values):
        yield from publications(Record("summaries", partition, offset, 0, b"e", value))


def changes(*values):
    return [PublishedChange.of(step) for step in steps(published(*values))]


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


def test_after_a_deletion_nothing_is_left_of_before():
    _, gone, again = changes(FIRST, None, change(9, None, ["a#0"], ["a#0"]))
    assert (gone.tombstone, gone.added_texts, gone.removed_texts) == (True, {}, {})
    assert (gone.sequence, gone.cause, gone.sentence_count) == (None, None, None)
    assert (again.incomplete, again.removed_texts) == (False, {})


def test_the_last_ones_know_what_was_before_them():
    second = change(9, 3, ["a#0", "c#0"], ["c#0"], ["b#0"])
    (last,) = last_steps(published(FIRST, second), 1)
    assert not last.incomplete
    assert last.before.sequence == json.loads(FIRST)["sequence"]
    assert len(list(last_steps(published(FIRST, second), None))) == 2


def of_facets(*values):
    """By change facet, what came, what left and whether changes are missing."""
    records = (Record("facets", 0, n, 0, b"e", value) for n, value in enumerate(values))
    found = [change for record in records for change in publications(record, kind=FACETS)]
    changes = [PublishedChange.of(step) for step in steps(found)]
    return [
        (change.facet, change.added_texts, change.removed_texts, change.incomplete)
        for change in changes
    ]


ONE = facets_body(
    "e", 3, {"parking": {"a#0": "Easy.", "b#0": "None."}, "noise": {}}, ["parking"], previous=None
)


def test_each_facet_of_a_message_that_changed_is_a_change():
    """What came and left follows from the message before; a new text is both."""
    two = facets_body(
        "e",
        9,
        {"parking": {"b#0": "None!", "c#0": "Far."}, "noise": {"c#0": "Far."}},
        ["noise", "parking"],
        previous=3,
    )
    assert of_facets(ONE, two) == [
        ("parking", {"a#0": "Easy.", "b#0": "None."}, {}, False),
        ("parking", {"b#0": "None!", "c#0": "Far."}, {"a#0": "Easy.", "b#0": "None."}, False),
        ("noise", {"c#0": "Far."}, {}, False),
    ]


def test_what_came_to_a_facet_is_not_made_up_where_the_message_before_is_gone():
    """The first known message tells which facets changed, and not how; after a gap a change is all
    of them together.
    """
    later = facets_body(
        "e", 9, {"parking": {"a#0": "Easy."}, "noise": {"d#0": "Loud."}}, ["noise"], previous=5
    )
    assert of_facets(later) == [("noise", {}, {}, True)]
    assert of_facets(ONE, later)[1:] == [
        ("parking", {}, {"b#0": "None."}, True),
        ("noise", {"d#0": "Loud."}, {}, True),
    ]


def test_praise_and_complaints_of_a_facet_are_sets_of_their_own():
    """A message names the facet as changed, whichever of its three sets did."""

    def message(sequence, previous, pros, cons):
        same = {"parking": {"a#0": "Easy."}}
        sides = [summary("e", sequence, texts).sentences for texts in (pros, cons)]
        changed = facets_changed("e", sequence, same, ["parking"], previous=previous)
        (facet,) = changed.facets
        facets = [structs.replace(facet, pros=sides[0], cons=sides[1])]
        return encode(structs.replace(changed, facets=facets))

    first = message(3, None, {"a#0": "Easy."}, {})
    two = message(9, 3, {"b#0": "Free."}, {"c#0": "Far."})
    assert of_facets(first, two)[1:] == [
        ("parking, pros", {"a#0": "Easy."}, {}, False),
        ("parking, pros", {"b#0": "Free."}, {"a#0": "Easy."}, False),
        ("parking, cons", {"c#0": "Far."}, {}, False),
    ]

    def found(value):
        return publications(Record("facets", 0, 0, 0, b"e", value), kind=FACETS)

    both = compare(found(first), found(two), 3)
    assert (both.equal, both.changed, both.missing_in_a) == (1, 1, 1)
    assert (both.k_a, both.k_b, both.differing) == ([5], [5], {0: 1, 1: 1})
    assert [example.facet for example in both.examples] == ["parking, pros"]
    assert compare(found(two), found(two)).equal == 3
