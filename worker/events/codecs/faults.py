"""What is wrong with a body, in the words of the contract.

msgspec reports a fault alike whether it parsed bytes or converted a mapping, so every codec may use this.
"""

import re
from typing import Final

import msgspec

from worker.events.inputs import EVENT_TYPES
from worker.events.reasons import BadEvent, Reason, shown

_FAULT: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field (\w+)")
_IN_EMBEDDING: Final = re.compile(r"sentences\[\d+\]\.embedding")


def unknown_type(name: bytes) -> BadEvent:
    """For a body whose type is not one of the contract's. `name` is the type as it was written, empty where it is missing."""
    types = ", ".join(EVENT_TYPES.values())
    return BadEvent(
        Reason.UNKNOWN_TYPE, f"type: {shown(name)} is none of {types}" if name else "type: missing"
    )


def wrong_field(error: msgspec.DecodeError) -> BadEvent:
    """What `error` says of one field of a body of a known type; in words of our own where msgspec's would not do."""
    fault = _FAULT.fullmatch(str(error))
    assert fault is not None  # both parts may be missing
    message, path = fault[1].replace("`", ""), fault[2] or ""
    if missing := _MISSING.match(message):
        return BadEvent(Reason.BAD_FIELD, f"{path}{'.' if path else ''}{missing[1]}: missing")
    if path == "type":
        return BadEvent(Reason.BAD_FIELD, "type: given twice, differently")
    if _IN_EMBEDDING.match(path) and ("base64" in message or "out of range" in message):
        return BadEvent(Reason.BAD_VECTOR, f"{path}: {message}")
    if "matching regex" in message:
        message = "Expected an RFC 3339 timestamp"
    return BadEvent(Reason.BAD_FIELD, f"{path}: {message}")
