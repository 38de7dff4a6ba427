"""The codec of flat rows: JSON whose nested values are JSON text, for sinks that write columns."""

from collections.abc import Sequence
from typing import Final

import msgspec

from worker.events import json_codec
from worker.events.json_codec import CONTENT_TYPE, encode_facet, quote
from worker.events.outputs import FacetsChanged, RankedChange, SummaryChanged

__all__ = [
    "CONTENT_TYPE",
    "encode",
    "encode_facet",
    "encode_facets",
    "encode_ranked",
    "quote",
    "to_json",
]

NESTED: Final = frozenset(
    {"sentences", "added", "removed", "changed", "facets", "cause", "ratings"}
)

_text: Final = msgspec.json.Decoder(str).decode
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


def encode(body: SummaryChanged | FacetsChanged) -> bytes:
    """The fields of the JSON form in their order; those of NESTED are strings with their JSON."""
    return _row(json_codec.encode(body))


def encode_ranked(changes: Sequence[RankedChange]) -> list[bytes]:
    """The values of many changes."""
    return [_row(value) for value in json_codec.encode_ranked(changes)]


def encode_facets(body: FacetsChanged, facets: Sequence[bytes]) -> bytes:
    """The value of a change of facets, from a body without them and the parts of
    `encode_facet`.
    """
    return _row(json_codec.encode_facets(body, facets))


def to_json(value: bytes) -> bytes:
    """The JSON form of a summary or facets in either form. Raises msgspec.DecodeError if it is no
    object.
    """
    fields = ((name, bytes(raw)) for name, raw in _fields(value).items())
    return _encode({name: msgspec.Raw(_nested(name, raw)) for name, raw in fields})


def _nested(name: str, raw: bytes) -> bytes:
    return _text(raw).encode() if name in NESTED and raw[:1] == b'"' else raw


def _row(value: bytes) -> bytes:
    fields = ((name, bytes(raw)) for name, raw in _fields(value).items())
    return _encode(
        {name: raw.decode() if name in NESTED else msgspec.Raw(raw) for name, raw in fields}
    )
