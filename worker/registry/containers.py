"""The records, arrays and maps of an Avro value, counted before it is decoded.

A container takes up to 200 bytes of memory, and few bytes may stand for it, or none. So a count is
all that bounds the memory that a long value takes. With a recursive schema their depth is all that
bounds the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Skip = Callable[["Scan"], object]
"""Moves a scan past a value. Raises IndexError behind the bytes, and Unbounded."""

_FIXED: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
"""By primitive type, the bytes of every value."""


class Unbounded(Exception):
    """A value has more containers, or deeper ones, than it may have. The message says which."""


class Scan:
    """A place in bytes, and how many containers it has passed and is in."""

    def __init__(self, value: bytes, at: int, most: int, deepest: int) -> None:
        self.value, self.at, self._most, self._deepest = value, at, most, deepest
        self._count = self._depth = 0

    def enter(self) -> None:
        """Count a container that begins here. Raises Unbounded."""
        self._count += 1
        self._depth += 1
        if self._count > self._most:
            raise Unbounded(f"it has more than {self._most:,} records, arrays and maps")
        if self._depth > self._deepest:
            raise Unbounded(f"it is nested deeper than {self._deepest} levels")

    def leave(self) -> None:
        """The innermost container ends here."""
        self._depth -= 1

    def long(self) -> int:
        """The number here. Raises IndexError for one of more than 64 bits."""
        found = shift = 0
        while shift < 64:
            byte = self.value[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise IndexError

    def bytes(self, count: int) -> None:
        """Pass so many bytes."""
        self.at += count
        if not 0 <= count <= len(self.value) or self.at > len(self.value):
            raise IndexError


def skip_of(schema: Any, named: dict[str, Skip]) -> Skip:
    """The way to skip a value of a checked schema; adds the types that it defines to `named`."""
    if isinstance(schema, list):
        branches = [skip_of(branch, named) for branch in schema]
        return lambda scan: branches[scan.long()](scan)
    if isinstance(schema, str):
        return named.get(schema) or _primitive(schema)
    kind = schema["type"]
    if kind in ("array", "map"):
        return _blocks(skip_of(schema["items" if kind == "array" else "values"], named), kind)
    if kind == "enum":
        named[schema["name"]] = Scan.long
    elif kind == "fixed":
        named[schema["name"]] = _sized(schema["size"])
    elif kind in ("record", "error"):
        fields: list[Skip] = []  # which may be of this type themselves
        named[schema["name"]] = _record(fields)
        fields += [skip_of(field["type"], named) for field in schema["fields"]]
    else:
        return skip_of(kind, named)
    return named[schema["name"]]


def _primitive(kind: str) -> Skip:
    if kind in _FIXED:
        return _sized(_FIXED[kind])
    return _text if kind in ("bytes", "string") else Scan.long


def _sized(size: int) -> Skip:
    return lambda scan: scan.bytes(size)


def _text(scan: Scan) -> None:
    scan.bytes(scan.long())


def _record(fields: list[Skip]) -> Skip:
    def skip(scan: Scan) -> None:
        scan.enter()
        for skip_field in fields:
            skip_field(scan)
        scan.leave()

    return skip


def _blocks(item: Skip, kind: str) -> Skip:
    def skip(scan: Scan) -> None:
        scan.enter()
        while count := scan.long():
            if count < 0:  # the block's size follows
                scan.long()
            for _ in range(abs(count)):
                if kind == "map":
                    _text(scan)
                item(scan)
        scan.leave()

    return skip
