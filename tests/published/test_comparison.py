"""Laws of the comparison of two builds, and what it says of a change of `k`."""

import tracemalloc
from itertools import islice

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.view.changes import body
from worker.events import SummaryChanged
from worker.published.comparison import compare
from worker.published.publication import Publication

TEXTS = ("Good.", "Bad.")


def summary(entity, sentences, k=3, sequence=0, **more):
    """A publication; `sentences` is a text by sentence id, None: a tombstone."""
    if sentences is None:
        return Publication(entity, None, 0, sequence, 0)
    value = body(entity, sequence, sentences, k=k, **more)
    return Publication(entity, msgspec.json.decode(value, type=SummaryChanged), 0, sequence, 0)


ids = st.integers(0, 5).map(lambda i: f"r{i}#0")


@st.composite
def builds(draw):
    """Publications of a build, its `k` one for all of them."""
    k = draw(st.integers(1, 4))
    sentences = st.none() | st.dictionaries(ids, st.sampled_from(TEXTS), max_size=k)
    publications = st.lists(st.tuples(st.sampled_from("abcdefgh"), sentences), max_size=20)
    return [summary(entity, shown, k, i) for i, (entity, shown) in enumerate(draw(publications))]


def last(build):
    """By entity its summary as a set, and its k."""
    found = {}
    for change in build:
        found.pop(change.entity_id, None)
        if change.body is not None and change.body.sentences:
            found[change.entity_id] = (
                frozenset((s.sentence_id, s.text) for s in change.body.sentences),
                change.body.k,
            )
    return found


@given(builds())
def test_a_build_is_equal_to_itself(build):
    found = compare(build, build, 3)
    assert found.equal == found.identical == found.entities == len(last(build))
    assert found.beyond == found.contained == found.k_differs == 0
    assert found.differing == ({0: found.equal} if found.equal else {})
    assert not (found.examples)
    assert not (found.some_missing_in_a)
    assert not (found.some_missing_in_b)


@given(builds(), builds())
def test_the_counts_are_those_of_the_sets(a, b):
    """Against the definition, in sets of Python."""
    of_a, of_b = last(a), last(b)
    both = of_a.keys() & of_b.keys()
    found = compare(a, b, 99)
    assert found.entities == len(of_a.keys() | of_b.keys())
    for missing, ids in (
        (found.some_missing_in_a, of_b.keys() - of_a.keys()),
        (found.some_missing_in_b, of_a.keys() - of_b.keys()),
    ):
        assert missing == [(name, None) for name in sorted(ids)]
    assert (found.missing_in_a, found.missing_in_b) == (
        len(found.some_missing_in_a),
        len(found.some_missing_in_b),
    )
    assert found.equal == sum(of_a[name][0] == of_b[name][0] for name in both)
    assert (
        found.equal + found.contained + found.changed == len(both) == sum(found.differing.values())
    )
    assert found.equal + found.contained == found.differing.get(0, 0)
    assert found.changed == len(found.examples)
    assert list(found.differing) == sorted(found.differing)
    for name in both:
        (set_a, k_a), (set_b, k_b) = of_a[name], of_b[name]
        small, large = sorted((set_a, set_b), key=len)
        room = min(k_a, k_b)
        follows = (
            small <= large
            and len(small) >= min(len(large), room)
            and (set_a == set_b or k_a != k_b)
        )
        assert follows == (name not in {x.entity_id for x in found.examples})


def test_examples_are_the_most_changed_first():
    a = [summary(name, {f"r{i}#0": "Good." for i in range(3)}) for name in "abc"]
    b = [
        summary("a", {f"r{i}#0": "Good." for i in (0, 1, 9)}),
        summary("b", {f"r{i}#0": "Good." for i in (0, 8, 9)}),
        summary("c", {f"r{i}#0": "Bad." for i in range(3)}),
    ]
    found = compare(a, b, 2)
    assert [(example.entity_id, example.differing, example.both) for example in found.examples] == [
        ("c", 3, 0),
        ("b", 2, 1),
    ]
    assert [[s.sentence_id for s in example.only_b] for example in found.examples] == [
        ["r0#0", "r1#0", "r2#0"],
        ["r8#0", "r9#0"],
    ]
    assert found.differing == {1: 1, 2: 1, 3: 1}


FOUR = {f"r{i}#0": "Good." for i in range(4)}


@pytest.mark.parametrize(
    ("of_two", "contained", "differing"),
    [
        ({"r2#0", "r0#0"}, 1, 0),
        ({"r0#0", "r9#0"}, 0, 1),
        ({"r8#0", "r9#0"}, 0, 2),
        ({"r0#0"}, 0, 1),
    ],
)
def test_another_k(of_two, contained, differing):
    """Two of four: contained if both are among the four; one that is not there, or missing, is a
    change.
    """
    found = compare([summary("a", FOUR, 4)], [summary("a", dict.fromkeys(of_two, "Good."), 2)])
    assert (found.contained, found.changed) == (contained, 1 - contained)
    assert found.differing == {differing: 1}
    assert (found.k_differs, found.k_a, found.k_b) == (1, [4], [2])


def test_bodies_are_identical_but_for_what_may_differ_between_runs():
    change = summary("a", FOUR, sequence=3, previous=1, review="r1").body
    same = msgspec.structs.replace(
        change,
        epoch=9,
        sequence=7,
        previous_sequence=5,
        cause=summary("b", FOUR, review="x").body.cause,
    )
    for other, identical in ((same, 1), (msgspec.structs.replace(change, review_count=99), 0)):
        found = compare([Publication("a", change, 0, 0, 0)], [Publication("a", other, 0, 0, 0)])
        assert (found.equal, found.identical) == (1, identical)


def facet(name, sentences, k=3, sequence=0):
    """A facet of entity `a` after a message."""
    return summary("a", sentences, k, sequence)._replace(facet=name)


def test_facets_are_compared_one_by_one():
    """The same id in a summary and in two facets is in three sets."""
    a = [facet("parking", FOUR), facet("noise", {"r0#0": "Loud."}), facet("host", FOUR)]
    b = [facet("parking", FOUR), facet("noise", {"r0#0": "Quiet."}), summary("a", FOUR)]
    found = compare(a, b, 9)
    assert (found.entities, found.equal, found.changed) == (4, 1, 1)
    assert (found.some_missing_in_a, found.some_missing_in_b) == ([("a", None)], [("a", "host")])
    (example,) = found.examples
    assert (example.entity_id, example.facet, example.differing) == ("a", "noise", 1)


def test_a_tombstone_ends_all_facets():
    ended = [facet("parking", FOUR), facet("noise", FOUR), summary("a", None)]
    found = compare([*ended, facet("noise", FOUR)], [facet("parking", FOUR)], 9)
    assert (found.missing_in_a, found.missing_in_b, found.entities) == (1, 1, 2)


def test_memory_does_not_grow_with_texts():
    """Of a thousand entities with 40 MB of texts, half a KiB each is kept."""

    def build(word):
        for i in range(1000):
            yield summary(f"e{i}", {f"r{i}#{j}": f"{word} {i} {j} " * 200 for j in range(20)}, k=20)

    build_once = list(islice(build("Good"), 1))
    assert len(msgspec.json.encode(build_once[0].body)) > 20_000
    compare(build_once, build_once)  # what is made once, is
    tracemalloc.start()
    try:
        found = compare(build("Good"), build("Bad"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.differing == {20: 1000}
    assert peak < 1000 * 512 + 500_000
