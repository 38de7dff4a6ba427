"""Which dead letters of a partition were sent again, as an offset to commit and its metadata."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.errors import CoversummError, SetupError

if TYPE_CHECKING:
    from worker.kafka.reader import TopicReader

FORMAT = "1:"
MAX_METADATA_CHARS = 4000
"""Brokers accept up to 4,096 bytes by default (`offset.metadata.max.bytes`)."""


class TooScattered(CoversummError):
    """The sent offsets have too many ranges for the metadata."""


class UnknownMetadata(CoversummError):
    """The metadata of a commit has another format."""


@dataclass(frozen=True, slots=True)
class Sent:
    """All letters below `first_unsent`, and those in `beyond`: ascending ranges with gaps between
    each other and after `first_unsent`.
    """

    first_unsent: int = 0
    beyond: tuple[range, ...] = ()

    def __contains__(self, offset: int) -> bool:
        return offset < self.first_unsent or any(offset in part for part in self.beyond)

    def metadata(self) -> str:
        """The metadata of the commit of `first_unsent`. Raises TooScattered."""
        if not self.beyond:
            return ""
        packed = bytearray()
        at = self.first_unsent
        for part in self.beyond:
            packed += _leb128(part.start - at) + _leb128(len(part))
            at = part.stop
        text = FORMAT + base64.b64encode(packed).decode()
        if len(text) > MAX_METADATA_CHARS:
            raise TooScattered(
                f"{len(self.beyond)} pieces take {len(text)} of {MAX_METADATA_CHARS} characters"
            )
        return text

    @classmethod
    def parse(cls, first_unsent: int, metadata: str) -> Sent:
        """Inverse of `metadata`. Raises UnknownMetadata."""
        if not metadata:
            return cls(first_unsent)
        if not metadata.startswith(FORMAT):
            raise UnknownMetadata(f"{metadata[:40]!r} is not of format {FORMAT!r}")
        try:
            lengths = list(_lengths(base64.b64decode(metadata[len(FORMAT) :], validate=True)))
        except (binascii.Error, ValueError) as error:
            raise UnknownMetadata(f"{metadata[:40]!r} cannot be read ({error})") from error
        if len(lengths) % 2 or 0 in lengths:
            raise UnknownMetadata(f"{metadata[:40]!r} has a piece without a length")
        beyond, at = [], first_unsent
        for gap, length in zip(lengths[::2], lengths[1::2], strict=True):
            beyond.append(range(at + gap, at + gap + length))
            at += gap + length
        return cls(first_unsent, tuple(beyond))


class Tally:
    """The sent letters of a partition, during a walk over *all* of its letters by offset.

    The walk begins at or before the first unsent letter. Offsets without a letter (transaction
    markers, aborted records) belong to the range around them, so that they do not split it.
    """

    def __init__(self, before: Sent) -> None:
        self._before = before
        self._first_unsent: int | None = None
        self._at = before.first_unsent
        self._beyond: list[range] = []
        self._in_run = False

    def passed(self, offset: int, sent: bool) -> None:
        """Take the next letter of the walk, and whether it is sent."""
        self._at = max(self._at, offset + 1)
        if not sent:
            assert offset not in self._before
            if self._first_unsent is None:
                self._first_unsent = offset
            self._in_run = False
        elif self._first_unsent is not None:
            start = self._beyond.pop().start if self._in_run else offset
            self._beyond.append(range(start, offset + 1))
            self._in_run = True

    def now(self) -> Sent:
        """The sent letters so far, with earlier ones ahead of the walk."""
        ahead = [range(max(part.start, self._at), part.stop) for part in self._before.beyond]
        ahead = [part for part in ahead if part]
        first_unsent = self._at if self._first_unsent is None else self._first_unsent
        beyond = [*self._beyond, *ahead]
        while beyond and beyond[0].start == first_unsent:
            first_unsent = beyond.pop(0).stop
        return Sent(first_unsent, tuple(_joined(beyond)))


def _joined(parts: list[range]) -> list[range]:
    """Adjacent ranges become one."""
    joined: list[range] = []
    for part in parts:
        if joined and joined[-1].stop == part.start:
            part = range(joined.pop().start, part.stop)
        joined.append(part)
    return joined


def _leb128(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _lengths(packed: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("it ends within a number")


def sent_so_far(letters: TopicReader, *, wait: bool = True) -> dict[int, Sent]:
    """The sent letters of every partition; without `wait` without those of an open transaction."""
    try:
        committed = {
            p: Sent.parse(offset, text)
            for p, (offset, text) in letters.committed(wait=wait).items()
        }
    except UnknownMetadata as error:
        raise SetupError(
            f"the offsets of the sent dead letters of {letters.topic} are not readable ({error}): "
            "another version of the worker wrote them; use that version"
        ) from error
    return {partition: committed.get(partition, Sent()) for partition in letters.partitions}
