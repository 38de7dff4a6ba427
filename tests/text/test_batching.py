"""Which sentences run together: each of them once, in batches that are neither too large nor too
many.
"""

from hypothesis import given
from hypothesis import strategies as st

from worker.text.engine import TOKEN_BUDGET, of_any_length, of_one_length, padded

LONGEST = 256
TOKENS = st.lists(st.integers(2, LONGEST), max_size=200)


@given(TOKENS, st.integers(1, 8))
def test_of_one_length(tokens: list[int], step: int) -> None:
    batches = of_one_length(tokens, step, LONGEST)
    assert sorted(i for batch in batches for i in batch) == list(range(len(tokens)))
    lengths = []
    for batch in batches:
        length, *others = {padded(tokens[i], step, LONGEST) for i in batch}
        assert not others
        assert all(tokens[i] <= length < tokens[i] + step for i in batch)
        assert length * len(batch) <= TOKEN_BUDGET
        lengths.append(length)
    assert lengths == sorted(lengths, reverse=True)


def test_a_sentence_longer_than_the_budget_runs_by_itself() -> None:
    assert of_one_length([600, 600], 2, 1000) == [[0], [1]]
    assert of_any_length([600, 600], 1) == [[0], [1]]


@given(TOKENS, st.integers(1, 4))
def test_of_any_length(tokens: list[int], threads: int) -> None:
    batches = of_any_length(tokens, threads)
    in_order = [i for batch in batches for i in batch]
    assert sorted(in_order) == list(range(len(tokens)))
    assert [tokens[i] for i in in_order] == sorted(tokens, reverse=True)
    sizes = [sum(tokens[i] for i in batch) for batch in batches]
    assert all(batches)
    assert all(size < TOKEN_BUDGET + LONGEST for size in sizes)
    assert len(batches) <= -(-sum(tokens) // TOKEN_BUDGET) + threads - 1


def test_there_is_a_batch_for_each_thread() -> None:
    assert [len(of_any_length([15] * count, 2)) for count in (1, 4, 5, 8, 68, 69, 1000)] == [
        1,
        1,
        2,
        2,
        2,
        4,
        30,
    ]
    assert {len(batch) for batch in of_any_length([15] * 32, 2)} == {16}
