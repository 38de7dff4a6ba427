"""The last change of each entity, kept until it is published: in a replay that publishes each summary once, at its end.

Published, a change has no row any more: what rows there are is what is still to be done, wherever a replay was interrupted.
"""

from collections.abc import Iterator

from worker.state import rows as formats
from worker.state.keys import LAST_CHANGE, entity_of_last_change, last_change_key
from worker.state.last_change import LastChange
from worker.state.store import Pending, Rows


def put_last_change(pending: Pending, entity: bytes, change: LastChange | None) -> None:
    """Write the entity's last change; None: it has none, or it is published."""
    key = last_change_key(entity)
    pending[key] = None if change is None else formats.encode_last_change(key, change)


def last_changes(rows: Rows, after: bytes | None = None) -> Iterator[tuple[bytes, LastChange]]:
    """Those that are still to be published, with their entities, in key order: all, or those behind the entity `after`.

    Raises CorruptRow.
    """
    start = None if after is None else last_change_key(after) + b"\0"
    for key, value in rows.scan(LAST_CHANGE, start):
        yield entity_of_last_change(key), formats.decode_last_change(key, value)
