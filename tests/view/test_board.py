"""What is known after some messages."""

from tests.view.changes import facets_body, summary
from worker.events import Record
from worker.events.publishing import FACETS
from worker.published.publication import publications
from worker.view.board import ENTITIES, Board


def test_a_change_has_the_sentences_that_came_and_went():
    board = Board()
    board.take(summary("e", 0, {"a#0": "One.", "b#0": "Two."}, ["a#0", "b#0"], previous=None), 1.0)
    change = board.take(summary("e", 3, {"b#0": "Two.", "c#0": "Three."}, ["c#0"], ["a#0"]), 2.0)
    assert [one.text for one in change.added] == ["Three."]
    assert [one.text for one in change.removed] == ["One."]
    entity = board.entities["e", None]
    assert (entity.review_count, entity.sentence_count, entity.changes, entity.changed_at) == (
        2,
        20,
        2,
        2.0,
    )
    assert {identifier: come.at for identifier, come in entity.come.items()} == {
        "b#0": 1.0,
        "c#0": 2.0,
    }
    assert [(gone.sentence.text, gone.at) for gone in entity.gone] == [("One.", 2.0)]


def test_a_tombstone_empties_and_a_later_change_revives():
    board = Board()
    board.take(summary("e", 0, {"a#0": "One."}, ["a#0"]), 1.0)
    board.take_tombstone("e")
    assert board.entities["e", None].is_deleted
    assert not board.entities["e", None].sentences
    board.take(summary("e", 5, {"a#0": "One."}, ["a#0"], previous=None), 2.0)
    assert not board.entities["e", None].is_deleted


def test_entities_are_in_the_order_of_their_changes_and_not_without_end():
    board = Board()
    for number in range(ENTITIES + 1):
        board.take(summary(f"e{number}", number, {"a#0": "One."}, ["a#0"]), 1.0)
    board.take(summary("e7", ENTITIES + 1, {"a#0": "One."}, ["a#0"]), 1.0)
    assert len(board.entities) == ENTITIES
    assert ("e0", None) not in board.entities
    assert next(reversed(board.entities)) == ("e7", None)


def take_facets(board, sequence, facets, changed, **more):
    """The changes that a message brings to the board."""
    value = facets_body("e", sequence, facets, changed, **more)
    found = publications(Record("t", 0, sequence, 0, b"e", value), kind=FACETS)
    return [change for one in found if (change := board.take_publication(one, 1.0))]


def test_a_change_of_a_facet_in_one_language_is_none_of_the_others():
    board = Board()
    one = {("parking", "en"): {"a#0": "Easy."}, ("parking", "fr"): {"b#0": "Facile."}}
    first = take_facets(board, 5, one, ["parking"], previous=3)
    assert len(first) == 2  # what was before is unknown
    two = one | {("parking", "fr"): {"c#0": "Calme."}}
    (change,) = take_facets(board, 6, two, ["parking"], previous=5)
    assert (change.name.facet, [one.text for one in change.added]) == ("parking (fr)", ["Calme."])
    assert board.entities["e", "parking (en)"].first_sentence == "Easy."
    assert (board.entities["e", "parking (en)"].changes, board.changes) == (1, 3)


def test_facets_are_sets_of_their_own():
    """Those that a message does not change are known after it: the next one tells what came."""
    board = Board()
    one = {"parking": {"a#0": "Easy."}, "noise": {"b#0": "Loud."}}
    (first,) = take_facets(board, 5, one, ["parking"], previous=3)
    assert (first.name, first.added, first.removed_ids) == (("e", "parking"), (), ())
    assert board.entities["e", "noise"].first_sentence == "Loud."
    (second,) = take_facets(board, 6, one | {"noise": {"c#0": "Quiet."}}, ["noise"], previous=5)
    assert [one.text for one in second.added] == ["Quiet."]
    assert [one.text for one in second.removed] == ["Loud."]
    board.take_tombstone("e")
    assert [one.is_deleted for one in board.entities.values()] == [True, True]
