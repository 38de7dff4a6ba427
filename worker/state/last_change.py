"""What the row of a last change holds. In a module of its own: msgspec's structs cannot be compiled
(pyproject.toml).
"""

from collections.abc import Sequence

import msgspec


class LastChange(msgspec.Struct, array_like=True, frozen=True):
    """An entity's last change, not published yet: what its `summary.changed` says and other rows do
    not, or not any more.

    The ids in rank order and the sequence are in the published row, the texts in the reviews'; the
    last three are by rank.
    """

    timestamp_ms: int  # of its cause, as are the next four
    topic: str
    event_type: str
    review_id: str | None
    occurred_at: str | None
    review_count: int
    sentence_count: int
    ratings: Sequence[float | None]
    distances: Sequence[float]
    support: Sequence[int]
