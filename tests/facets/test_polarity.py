"""The edges of praise and complaints: a rating at the middle, a product at the margin."""

import numpy as np
import pytest

from worker.coversumm.fixed_point import SCALE
from worker.facets.definitions import Polarity
from worker.facets.polarity import Direction


def direction(**options):
    polarity = Polarity(good=("Good.",), bad=("Bad.",), **options)
    return Direction(polarity, np.array([[SCALE, 0], [0, SCALE]], np.int16))


@pytest.mark.parametrize(
    ("rating", "sign"), [(None, 0), (2.9, -1), (3.0, -1), (3.0000001, 1), (5.0, 1)]
)
def test_only_a_rating_above_the_middle_is_good(rating, sign):
    assert direction(middle=3.0).of_rating(rating) == sign


def test_a_sentence_at_the_margin_is_on_no_side():
    at = direction(margin=0.5)
    half = SCALE // 2
    rows = [[half, 0], [half + 1, 0], [0, half], [0, half + 1], [half, half]]
    assert at.signs(np.array(rows, np.int16)).tolist() == [0, 1, 0, -1, 0]
    beyond = direction(margin=0.0)
    rows = [[half, half], [half + 1, half], [half, half + 1]]
    assert beyond.signs(np.array(rows, np.int16)).tolist() == [0, 1, -1]
