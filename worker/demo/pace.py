"""How fast the demo goes where somebody looks on: slowly enough to read at first, then as fast as the worker likes."""

import math
from typing import Final

FIRST_PER_SECOND: Final = 1.5
GROWTH: Final = 1.0
"""By so much, in powers of e, the rate grows every second."""
MOST_PER_SECOND: Final = 180.0
HURRIED_PER_SECOND: Final = 60.0
"""From here on nobody can follow every review."""
BRIEF_SECONDS: Final = 11.0
"""So long the reviews of a brief demo arrive: a thousand on two processors that have nothing else to do."""

_GROWING_SECONDS: Final = math.log(MOST_PER_SECOND / FIRST_PER_SECOND) / GROWTH
_GROWING_REVIEWS: Final = (MOST_PER_SECOND - FIRST_PER_SECOND) / GROWTH


def due(number: int) -> float:
    """When the review of this number (from 0) is sent: seconds after the first one."""
    if number < _GROWING_REVIEWS:
        return math.log1p(number * GROWTH / FIRST_PER_SECOND) / GROWTH
    return _GROWING_SECONDS + (number - _GROWING_REVIEWS) / MOST_PER_SECOND


def is_hurried(number: int) -> bool:
    """Whether reviews come faster than one can read when this one is sent."""
    return FIRST_PER_SECOND + number * GROWTH >= HURRIED_PER_SECOND
