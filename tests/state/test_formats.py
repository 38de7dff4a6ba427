"""Rows as the worker writes them, byte by byte: what was once written is read for ever, and an
unknown format is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from worker.events import LastFacets, RatingCounts, ReviewDetails
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.state import CorruptRow, MemoryRows, UnknownFormat
from worker.state import rows as formats
from worker.state.errors import NewerFormats
from worker.state.keys import APPLIED, describe
from worker.state.partition import collect_garbage
from worker.state.rows import Applied, Header, Output, PublishedSets, ReviewRow


def read_vectors(key: bytes, value: bytes) -> Any:
    ordinals, data = formats.decode_vectors(key, value, 3)
    return ordinals, formats.as_matrix([data], 3).tolist()


def read_published(topic: OutputTopic) -> Callable[[bytes, bytes], Any]:
    return lambda key, value: formats.decode_published(key, topic, value)


def read_facets(key: bytes, value: bytes) -> Any:
    facets = formats.decode_criteria(key, value)
    return [facet.name for facet in facets.definitions.facets], facets.vectors.tolist()


def read_garbage(key: bytes, value: bytes) -> Any:
    changes: dict[bytes, bytes | None] = {}
    return collect_garbage(MemoryRows({key: value}), changes), changes


# Never change a line: these bytes are in somebody's changelog. A new format is a new line.
WRITTEN: list[tuple[str, Callable[[bytes, bytes], Any], str, str, Any]] = [
    (
        "header 2",
        formats.decode_header,
        "4500000005636166c3a9",
        "02fb0d9e66030000000000000007000000000000000c0000000000000002080100000000000000090200000000000000020000000000"
        "00000300ef",
        Header(3, 7, 12, RatingCounts({8: 1, 9: 2}, 2, Fraction(-17, 8))),
    ),
    (
        "published 1",
        read_published(SUMMARIES),
        "4500000005636166c3a9000000000000000c50",
        "011779c554df03000000000000020000000600000006000000722d38312330722d39233132303132333435363738396162636465666665"
        "6463626139383736353433323130",
        PublishedSets(991, [{b"r-81#0": b"0123456789abcdef", b"r-9#12": b"fedcba9876543210"}]),
    ),
    (
        "review 1",
        formats.decode_review,
        "4500000005636166c3a9000000000000000c52722d3831",
        "014b365aa30500000000000000060000000000001240020000000100000002000000000000000e00000002000000040000004772656174"
        "2070726f647563742e4f6cc3a9",
        ReviewRow(5, False, ReviewDetails(4.5), True, 2, 1, ((0, "Great product."), (2, "Olé"))),
    ),
    (
        "review 2",
        formats.decode_review,
        "4500000005636166c3a9000000000000000c52722d3831",
        "021e96d05e0500000000000000060000000000001240020000000100000016323032362d31312d32305431323a30303a30302e355a05"
        "64652d41540200000000000000050000000000000002000000000000000000008002000000000000000e000000020000000400000047"
        "726561742070726f647563742e4f6cc3a9",
        ReviewRow(
            5,
            False,
            ReviewDetails(4.5, "2026-11-20T12:00:00.5Z", "de-AT"),
            True,
            2,
            1,
            ((0, "Great product."), (2, "Olé")),
            {0: 5, 2: 1 << 63},
        ),
    ),
    (
        "review 2, dated in the future",
        formats.decode_review,
        "4500000005636166c3a9000000000000000c52722d3831",
        "024096461405000000000000000e000000000000124001000000010000000a323033312d30312d303500000000000100000000000000040000"
        "004f6cc3a9",
        ReviewRow(
            5,
            False,
            ReviewDetails(4.5, "2031-01-05"),
            True,
            1,
            1,
            ((0, "Olé"),),
            is_future=True,
        ),
    ),
    (
        "review 3",
        formats.decode_review,
        "4500000005636166c3a9000000000000000c52722d3831",
        "03c77798b40500000000000000060000000000001240020000000100000016323032362d31312d32305431323a30303a30302e355a0001"
        "00000002000000000000000000008004000203c3bc2d374e4c02000000000000000e000000020000000400000047726561742070726f64"
        "7563742e4f6cc3a9",
        ReviewRow(
            5,
            False,
            ReviewDetails(4.5, "2026-11-20T12:00:00.5Z", None, True, "NL", "ü-7"),
            True,
            2,
            1,
            ((0, "Great product."), (2, "Olé")),
            {2: 1 << 63},
        ),
    ),
    (
        "review 4",
        formats.decode_review,
        "4500000005636166c3a9000000000000000c52722d3831",
        "04cc67607d0500000000000000060000000000001240020000000100000016323032362d31312d32305431323a30303a30302e355a0000"
        "00000000000001050000000000008002667202000000000000000e000000020000000400000047726561742070726f647563742e4f6cc3"
        "a9",
        ReviewRow(
            5,
            False,
            ReviewDetails(4.5, "2026-11-20T12:00:00.5Z"),
            True,
            2,
            1,
            ((0, "Great product."), (2, "Olé")),
            {},
            "fr",
            1 << 63 | 5,
        ),
    ),
    (
        "facet sets 1",
        read_published(FACETS),
        "4500000005636166c3a9000000000000000c53",
        "01529fa0b5df03000000000000020000001e0000000100000006000000722d383123303031323334353637383961626364656604000000"
        "00000000",
        PublishedSets(991, [{b"r-81#0": b"0123456789abcdef"}, {}]),
    ),
    (
        "facet sets 2",
        read_published(FACETS),
        "4500000005636166c3a9000000000000000c53",
        "028da2ecc3df03000000000000020000001e0000000100000006000000722d3831233030313233343536373839616263646566040000"
        "000000000008010000000000000000000000000000",
        PublishedSets(991, [{b"r-81#0": b"0123456789abcdef"}, {}], (264, 0)),
    ),
    (
        "facets 1",
        read_facets,
        "44",
        "01d6ee6102590000005b7b226e616d65223a2263726974696373222c22726174696e67223a7b226d6178223a327d2c226b223a357d2c7b"
        "226e616d65223a2270222c22766563746f7273223a5b2241414341507741414141414141414141225d7d5d03000000ff7f0000ffff",
        (["critics", "p"], [[32767, 0, -1]]),
    ),
    ("last facets 1", lambda key, value: formats.decode_last_change(key, FACETS, value),
     "4d0000000165", "01587356d695a1740304c0c4027b7d", LastFacets("t", 3, 4, None, b"{}")),
    ("texts 1", formats.decode_text_chunk,
     "4500000005636166c3a9000000000000000c5400000004722d383100000001",
     "01385451760100000003000000050000004d6f72652e", ((3, "More."),)),
    ("vectors 1", read_vectors, "4500000005636166c3a9000000000000000c5600000004722d383100000000",
     "014da62a340200000000000000020000000100feff0201ff7f01800000",
     ((0, 2), [[1, -2, 258], [32767, -32767, 0]])),
    (
        "applied 2",
        formats.decode_applied,
        "41",
        "02cacb4dc8e003000000000000160000006d61726b6574706c6163652e726576696577732e76317a41634c4d7069365474614f5f756376"
        "34336a495741",
        Applied(992, "marketplace.reviews.v1", "zAcLMpi6TtaO_ucv43jIWA"),
    ),
    (
        "applied 3",
        formats.decode_applied,
        "41",
        "0377f63224e103000000000000160000006d61726b6574706c6163652e726576696577732e7631160000007a41634c4d7069365474614f5f"
        "75637634336a49574102000000060000006865616465720100000031060000007265766965770100000032",
        Applied(993, "marketplace.reviews.v1", "zAcLMpi6TtaO_ucv43jIWA"),
    ),
    (
        "output 1",
        formats.decode_output,
        "4f",
        "01ee146fbf020000001f0000006d61726b6574706c6163652e7265766965772d73756d6d61726965732e76317a41634c4d70693654"
        "74614f5f75637634336a495741",
        Output(2, "marketplace.review-summaries.v1", "zAcLMpi6TtaO_ucv43jIWA"),
    ),
    ("fingerprint 1", formats.decode_fingerprint, "46",
     "010fe135e602000000050000006d6f64656c030000006d4031010000006b020000003230",
     {"model": "m@1", "k": "20"}),
    ("garbage 1", read_garbage, "4700000001650000000000000003", "0199daf095",
     (False, {bytes.fromhex("4700000001650000000000000003"): None})),
    ("min changes 1", formats.decode_min_changes, "48", "017b4b14bc03000000", 3),
]  # fmt: skip
KINDS = pytest.mark.parametrize(
    ("read", "key", "value", "meaning"),
    [
        (read, bytes.fromhex(key), bytes.fromhex(value), meaning)
        for _, read, key, value, meaning in WRITTEN
    ],
    ids=[name for name, *_ in WRITTEN],
)


@KINDS
def test_what_was_once_written_is_read(
    read: Callable[[bytes, bytes], Any], key: bytes, value: bytes, meaning: Any
) -> None:
    assert read(key, value) == meaning


@KINDS
def test_another_format_is_refused_by_the_rows_name(
    read: Callable[[bytes, bytes], Any], key: bytes, value: bytes, meaning: Any
) -> None:
    """Whatever is in it: its frame alone is known."""
    known = {
        formats.decode_applied: (2, 3),
        formats.decode_review: (1, 4),
        formats.decode_header: (2, 2),
    }
    oldest, newest = known.get(read, (1, 2 if key.endswith(b"S") else 1))
    payload = b"\xffwhat nobody knows yet"
    newer = formats.seal(key, payload, newest + 1)
    with pytest.raises(UnknownFormat) as refused:
        read(key, newer)
    message = str(refused.value)
    assert (
        f"({describe(key)}) has format {newest + 1}, the newest that this worker knows is {newest}"
        in message
    )
    assert "run the version of the worker that wrote it" in message
    assert "own COVERSUMM_EPOCH" in message
    assert refused.value.exit_code == 2
    with pytest.raises(UnknownFormat):
        read(key, formats.seal(key, payload, oldest - 1))


@KINDS
def test_a_flip_of_any_byte_is_refused_by_the_rows_name(
    read: Callable[[bytes, bytes], Any], key: bytes, value: bytes, meaning: Any
) -> None:
    """The first one says the format, and no checksum covers it: a flip there must not pass for
    another format.
    """
    for at in range(len(value)):
        for flipped in {value[at] ^ 0xFF, value[at] ^ 1, value[at] ^ 3}:
            damaged = value[:at] + bytes([flipped]) + value[at + 1 :]
            with pytest.raises((CorruptRow, UnknownFormat)) as refused:
                read(key, damaged)
            assert describe(key) in str(refused.value)
            assert "coversumm-worker reset --local" in str(refused.value)


def test_an_applied_row_names_formats_that_older_workers_do_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Older workers are refused when they take over the partition, before they read any row."""
    applied = Applied(993, "reviews", "an id")
    usual = formats.encode_applied(APPLIED, applied)
    assert usual[0] == 2
    monkeypatch.setitem(formats.FORMATS, "review", 5)
    monkeypatch.setitem(formats.FORMATS, "rows to come", 1)
    applied = applied._replace(review_format=5)
    newer = formats.encode_applied(APPLIED, applied)
    assert newer[0] == 3
    assert formats.decode_applied(APPLIED, newer) == applied
    assert formats.decode_applied(APPLIED, usual) == applied._replace(review_format=2)
    monkeypatch.undo()
    with pytest.raises(NewerFormats) as refused:
        formats.decode_applied(APPLIED, newer)
    message = str(refused.value)
    assert "(review: format 5, the newest that this worker knows is 4; rows to come" in message
    assert "header" not in message
    assert "run that version again, or build a new epoch" in message
    assert refused.value.exit_code == 2


def test_the_frame_is_the_same_in_every_format() -> None:
    """An older worker must be able to tell a newer row from a damaged one."""
    assert (
        formats.seal(b"key", b"payload", 9)
        == bytes([9]) + crc32(b"payload", crc32(b"key")).to_bytes(4, "little") + b"payload"
    )


def test_vectors_are_read_into_native_int16() -> None:
    _, _, key, value, _ = next(line for line in WRITTEN if line[0] == "vectors 1")
    _, data = formats.decode_vectors(bytes.fromhex(key), bytes.fromhex(value), 3)
    assert formats.as_matrix([data], 3).dtype == np.int16
