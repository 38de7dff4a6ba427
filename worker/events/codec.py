"""Codecs: a record's value to the body of an event, and the body of a summary to a message's value.

A codec knows one format and none of the rules. Another one is a module beside `json_codec.py` and
its line in `CODECS`. It need not check fields: one that has read a mapping ends with
`msgspec.convert(mapping, Body)`, which applies the constraints that `inputs.py` declares, and
`json_codec.wrong_field` says in the contract's words what is wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from worker.events import json_codec
from worker.events.inputs import Body
from worker.events.summary import RankedChange, SummaryChanged


class Codec(Protocol):
    """A format of values: a module, or an object."""

    @property
    def CONTENT_TYPE(self) -> bytes:
        """Media type, as the header `content-type` has it."""

    def decode(self, value: bytes) -> Body:
        """The body in `value`: every field of its declared type and form.

        Raises BadEvent: `bad_json` or `bad_wire_format` (not this format), `unknown_type`,
        `bad_field`, `bad_vector`.
        """

    def encode(self, body: SummaryChanged) -> bytes:
        """The value of a summary change: the same bytes for the same body."""

    def quote(self, sentence_id: str, review_id: str, text: str, rating: float | None) -> bytes:
        """What of a sentence is the same in every message it is in, for `encode_ranked`."""

    def encode_ranked(self, changes: Sequence[RankedChange]) -> list[bytes]:
        """What `encode` gives for the bodies of these changes with their sentences in them."""


CODECS: Final[Mapping[str, Codec]] = {"json": json_codec}
DEFAULT: Final[Codec] = CODECS["json"]
"""Reads and writes where nothing chooses another; a setting that does hands its own to `decode` and
`messages.py`.
"""
