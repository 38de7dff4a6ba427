"""Which entity is looked at: eyes need time, so the look rests."""

from typing import Final

from worker.view.board import Board

REST_SECONDS: Final = 2.5


class Focus:
    """Follows the latest change, but stays with an entity for a while; or with one for good, once `pin`ned."""

    def __init__(self) -> None:
        self._pinned: str | None = None
        self._looked_at: str | None = None
        self._since = float("-inf")

    def pin(self, entity_id: str | None) -> None:
        """Look at this entity; None: follow the changes again."""
        self._pinned = entity_id

    def choose(self, board: Board, now: float) -> str | None:
        """The entity to look at now; None while nothing is known."""
        if self._pinned is not None:
            return self._pinned
        newest = board.latest[-1].entity_id if board.latest else next(reversed(board.entities), None)
        if newest != self._looked_at and now - self._since >= REST_SECONDS:
            self._looked_at, self._since = newest, now
        return self._looked_at
