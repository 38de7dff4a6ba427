"""Codecs: a record's value to an event's body, a summary's body to a message's value.

A codec knows one format and no rules. To add one, write a module beside `json_codec.py`, and add it
to `OUTPUTS` if it writes. It need not check fields: `json_codec.body_of` applies the constraints of
`inputs.py`, and describes an error in the contract's words.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from msgspec import ValidationError
from msgspec.json import Decoder

from worker.events import json_codec, json_row
from worker.events.inputs import Body, ReviewDetails
from worker.events.outputs import (
    FacetsChanged,
    FacetSummary,
    RankedChange,
    RankedQuotes,
    SummaryChanged,
)
from worker.events.reasons import BadEvent, Reason, shown

T = TypeVar("T")


class InputCodec(Protocol):
    """A format of events: a module, or an object."""

    def decode(self, value: bytes) -> Body:
        """The body in `value`, with every field of its declared type and form.

        Raises BadEvent: `bad_json` or `bad_wire_format` (not this format), `unknown_type`,
        `bad_field`, `bad_vector`.
        """


class OutputCodec(Protocol):
    """A format of summaries and facets: a module, or an object."""

    @property
    def CONTENT_TYPE(self) -> bytes:
        """Media type for the header `content-type`."""

    def encode(self, body: SummaryChanged | FacetsChanged) -> bytes:
        """The value of a complete body; deterministic."""

    def quote(self, sentence_id: str, review_id: str, text: str, details: ReviewDetails) -> bytes:
        """The part of a sentence that is the same in every message, for `encode_ranked`."""

    def encode_ranked(self, changes: Sequence[RankedChange]) -> list[bytes]:
        """The result of `encode` for each of these changes with its sentences."""

    def encode_facet(
        self, facet: FacetSummary, sentences: RankedQuotes, sides: Sequence[RankedQuotes] = ()
    ) -> bytes:
        """A facet, given without its sentences, for `encode_facets`; `sides` are those of SIDES, if
        it has them.
        """

    def encode_facets(self, body: FacetsChanged, facets: Sequence[bytes]) -> bytes:
        """The value of a change of facets, from a body without them; deterministic."""


DEFAULT: Final = json_codec  # reads and writes unless another is passed
OUTPUTS: Final[Mapping[str, OutputCodec]] = {"json": json_codec, "json-row": json_row}
"""By value of COVERSUMM_OUTPUT_FORMAT."""

_decode: Final[Callable[[bytes], SummaryChanged | FacetsChanged]] = Decoder(
    SummaryChanged | FacetsChanged
).decode


def decode_change(value: bytes) -> SummaryChanged | FacetsChanged:
    """The body of a published message, in JSON or flat rows. Raises msgspec.DecodeError."""
    try:
        return _decode(value)
    except ValidationError:
        return _decode(json_row.to_json(value))


# -- values that a schema registry describes: a zero byte and a schema id, then the payload

FRAME_BYTES: Final = 5
MAX_SCHEMA_ID: Final = 2**31 - 1

_LONG_FRAME_BYTES: Final = 9
"""Of Apicurio's serializers: an id of eight bytes, of which four are zero."""
_GLUE_FRAME_BYTES: Final = 18
"""Of AWS Glue's serializers: version, compression, a UUID."""
_AS_CONFLUENT: Final = "apicurio.registry.as-confluent=true and apicurio.registry.use-id=contentId"
_NO_HEADERS: Final = f"apicurio.registry.headers.enabled=false, {_AS_CONFLUENT}"
_APICURIO: Final = ("globalId", "contentId", "contentHash", "artifactId")
_REMEDIES: Final = {
    part: {
        **{f"apicurio.{part}.{name}": _NO_HEADERS for name in _APICURIO},
        f"__{part}_schema_id": f"{part}.schema.id.serializer="
        "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer (the default)",
    }
    for part in ("key", "value")
}
"""By part of a record and name of a header with a schema id: settings of the serializer."""


def is_framed(raw: bytes) -> bool:
    """True if it begins like a frame: no JSON does."""
    return raw[:1] == b"\0"


def is_frame(raw: bytes) -> bool:
    """True if it begins with a complete frame, with an id that a registry may give."""
    return is_framed(raw) and len(raw) >= FRAME_BYTES and 0 < schema_id(raw) <= MAX_SCHEMA_ID


def check_frame(raw: bytes) -> None:
    """Raise BadEvent unless `is_frame`."""
    if not is_frame(raw):
        raise BadEvent(
            Reason.BAD_WIRE_FORMAT, f"{shown(raw[:8])} is not a zero byte and a schema id"
        )


def schema_id(raw: bytes) -> int:
    """The id in a complete frame."""
    return int.from_bytes(raw[1:FRAME_BYTES], "big")


def decoded(
    decode: Callable[[bytes], T], raw: bytes, part: str, headers: Sequence[tuple[str, bytes | None]]
) -> T:
    """The decoded part of a record, "key" or "value". Raises BadEvent, which names a
    known format that is not read.
    """
    if headers and is_framed(raw) and (unread := _unread(raw, part, headers)):
        raise unread
    try:
        return decode(raw)
    except BadEvent as bad:
        is_format = bad.rejected.reason in (Reason.BAD_JSON, Reason.BAD_WIRE_FORMAT)
        unread = _unread(raw, part, headers) if is_format else None
        if unread is None and decode in (json_codec.decode, json_codec.parse) and is_frame(raw):
            unread = unread_frame(raw, f', and {part} = "framed" in a mapping')
        raise unread or bad from None


def unread_frame(raw: bytes, more: str = "") -> BadEvent:
    """The error for a complete frame where no registry is asked; `more` is to be done beside it."""
    what = f"a frame with schema id {schema_id(raw)}: set COVERSUMM_SCHEMA_REGISTRY_URL{more}"
    return BadEvent(Reason.BAD_JSON, what)


def id_header(part: str, headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    """The header that has the schema id of a part of a record; None if none has."""
    return next((name for name, _ in headers if name in _REMEDIES[part]), None)


def _unread(raw: bytes, part: str, headers: Sequence[tuple[str, bytes | None]]) -> BadEvent | None:
    if (name := id_header(part, headers)) is not None:
        what = f"the schema id is in the header {name}: set {_REMEDIES[part][name]} at the producer"
    elif raw[:FRAME_BYTES] == bytes(FRAME_BYTES) and len(raw) > _LONG_FRAME_BYTES:
        what = f"the schema id has eight bytes, as Apicurio's: set {_AS_CONFLUENT} at the producer"
    elif raw[:2] in (b"\3\0", b"\3\5") and len(raw) >= _GLUE_FRAME_BYTES:
        what = (
            "it has a frame of AWS Glue, whose registry is not read: let the producer write JSON, "
            "or use a registry with Confluent's API"
        )
    else:
        return None
    return BadEvent(Reason.BAD_WIRE_FORMAT, what)
