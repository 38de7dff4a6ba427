"""Mutations of valid examples: what is wrong in one place gets deeper into a decoder than noise
does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

TOKENS = (
    *(
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"\\",
        b"\\u0000",
        b"\\ud800",
        b"null",
        b"true",
        b"NaN",
        b"1e999",
    ),
    *(
        b"-1",
        b"0",
        b"9223372036854775808",
        b"0.1",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\n",
        b" ",
    ),
    *(
        b"#",
        b"r-81#2",
        b"=",
        b"====",
        b"1:",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x80",
        b"\x7f",
    ),
    *(
        "é".encode(),
        "\u2028".encode(),
        "😀".encode(),
        b"<br>",
        b"&#x110000;",
        b"&amp;",
        b"127.0.0.1:9092",
    ),
)
MAX_BYTES = 16 * 2**10
"""Longest input: what takes too long for so little is found, and a run tries many."""

Mutation = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def _place(rng: random.Random, data: bytearray) -> int:
    return rng.randint(0, len(data))


def _span(rng: random.Random, data: bytearray) -> slice:
    start = _place(rng, data)
    return slice(start, start + min(rng.choice((1, 2, 4, 8, 64, 4096)), len(data)))


def flip(rng: random.Random, data: bytearray, _corpus: Sequence[bytes]) -> None:
    """Flip one bit."""
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def replace(rng: random.Random, data: bytearray, _corpus: Sequence[bytes]) -> None:
    """Set one byte."""
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def number(rng: random.Random, data: bytearray, _corpus: Sequence[bytes]) -> None:
    """Set four or eight bytes to a number at an edge: counts and lengths of the row formats."""
    width = rng.choice((4, 8))
    value = rng.choice(
        (0, 1, 2**31 - 1, 2**31, 2**32 - 1, rng.randrange(2 ** (8 * width)))
    ) % 2 ** (8 * width)
    at = _place(rng, data)
    data[at : at + width] = value.to_bytes(width, rng.choice(("little", "big")))


def insert(rng: random.Random, data: bytearray, _corpus: Sequence[bytes]) -> None:
    """Insert a token that means something to one of the formats."""
    at = _place(rng, data)
    data[at:at] = rng.choice(TOKENS) * rng.choice((1, 1, 1, 2, 300))


def remove(rng: random.Random, data: bytearray, _corpus: Sequence[bytes]) -> None:
    """Remove a span."""
    del data[_span(rng, data)]


def repeat(rng: random.Random, data: bytearray, _corpus: Sequence[bytes]) -> None:
    """Repeat a span."""
    span = _span(rng, data)
    data[span.start : span.start] = data[span] * rng.choice((1, 2, 100))


def truncate(rng: random.Random, data: bytearray, _corpus: Sequence[bytes]) -> None:
    """Cut the end off."""
    del data[_place(rng, data) :]


def splice(rng: random.Random, data: bytearray, corpus: Sequence[bytes]) -> None:
    """Go on as another example does."""
    other = rng.choice(corpus)
    data[_place(rng, data) :] = other[rng.randint(0, len(other)) :]


def noise(rng: random.Random, data: bytearray, _corpus: Sequence[bytes]) -> None:
    """Random bytes, nothing of the example."""
    data[:] = rng.randbytes(rng.choice((0, 1, 7, 64, 1024)))


MUTATIONS: tuple[Mutation, ...] = (
    flip,
    replace,
    number,
    insert,
    remove,
    repeat,
    truncate,
    splice,
    noise,
)


def mutated(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """One of the examples after a few mutations; now and then one as it is."""
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
        rng.choice(MUTATIONS)(rng, data, corpus)
        del data[MAX_BYTES:]
    return bytes(data)
