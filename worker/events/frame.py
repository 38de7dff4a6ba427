"""The frame of values that a schema registry describes: a zero byte and a schema id, then the
payload.
"""

from typing import Final

from worker.events.reasons import BadEvent, Reason, shown

FRAME_BYTES: Final = 5


def is_framed(raw: bytes) -> bool:
    """Whether it begins like a frame: no JSON does."""
    return raw[:1] == b"\0"


def check_frame(raw: bytes) -> None:
    """Raise BadEvent unless it begins with a complete frame."""
    if raw[:1] != b"\0" or len(raw) < FRAME_BYTES:
        raise BadEvent(Reason.BAD_WIRE_FORMAT, f"{shown(raw[:8])} is no zero byte and schema id")


def schema_id(raw: bytes) -> int:
    """The id in a complete frame."""
    return int.from_bytes(raw[1:FRAME_BYTES], "big")
