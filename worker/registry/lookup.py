"""Schemas of records, fetched before the records are decoded.

Decoding itself waits for nothing. An id stands for one schema for ever, so a schema that was found
is kept. A registry that does not answer is waited for: it says nothing of the records. An id or a
reference that it does not know becomes known if its producer was faster than a follower of the
registry. After `GRACE_SECONDS` its records are refused, and it is asked for again at most every
`AGAIN_SECONDS`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from worker.clock import Clock
from worker.errors import SetupError
from worker.events.codec import FRAME_BYTES, id_header, is_frame, is_framed, schema_id
from worker.events.inputs import Record
from worker.events.reasons import BadEvent
from worker.registry.avro import AvroSchema, BadSchema, check_fastavro
from worker.registry.client import (
    TIMEOUT_SECONDS,
    Outage,
    RegistryMisconfigured,
    RegistryRefused,
    RegistryUnreachable,
    SchemaRegistry,
    SchemaTexts,
    patiently,
)
from worker.registry.framed import RECORDS, FramedCodec, JsonSchema, KnownSchema, UnusableSchema
from worker.settings import Settings

GRACE_SECONDS: Final = 10.0
"""Seconds that records wait for a schema that the registry does not know."""
AGAIN_SECONDS: Final = 60.0  # seconds from one request for such a schema to the next
UNKNOWN: Final = "the registry does not know it"
MAX_UNKNOWN: Final = 10_000  # unknown ids that are remembered


class SchemaLookup:
    """The schemas that records need, by id. One thread at a time may fetch; any may read.

    Attributes:
        codec: reads values by these schemas.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        clock: Clock = time,
        *,
        in_values: bool = True,
        in_keys: bool = False,
    ) -> None:
        """`in_values`, `in_keys`: where records have frames."""
        self._registry = registry
        self._clock = clock
        self._in_values, self._in_keys = in_values, in_keys
        self._schemas: dict[int, KnownSchema] = {}
        self._unknown: dict[int, float] = {}  # by id, when it was asked for first
        self._expiry: dict[int, float] = {}  # by id of a refused one, when to ask again
        self._asking: tuple[int, float] | None = None  # an id, and since when requests go on
        self._outage = Outage(clock)
        self.codec = FramedCodec(self._schemas)

    @property
    def waiting(self) -> str | None:
        """Why the registry gives no answer, in words; None while it does."""
        asking, timeout = self._asking, TIMEOUT_SECONDS
        if asking is not None and (seconds := self._clock.monotonic() - asking[1]) > timeout:
            return f"the schema registry takes {seconds:.0f} s and more for schema id {asking[0]}"
        return self._outage.waiting

    def missing(self, records: Sequence[Record]) -> list[int]:
        """The ids in these records that have to be fetched before they are decoded."""
        frames: set[bytes] = set()
        for part, has_frames in (("value", self._in_values), ("key", self._in_keys)):
            if has_frames:
                frames |= {
                    raw[:FRAME_BYTES]
                    for record in records
                    if (raw := getattr(record, part))
                    and is_framed(raw)
                    and not id_header(part, record.headers)
                }
        ids = {schema_id(raw) for raw in frames if is_frame(raw)}
        now = self._clock.monotonic() if self._expiry else 0.0
        return sorted(
            identifier
            for identifier in ids
            if identifier not in self._schemas or self._expiry.get(identifier, now) < now
        )

    def require(self, records: Sequence[Record]) -> None:
        """Fetch what these records need, for a command: an unknown id is refused at once.

        Raises SetupError if the registry does not answer a few times.
        """
        for identifier in self.missing(records):
            self._schemas[identifier], _ = patiently(partial(self._answer, identifier))

    def fetch(self, ids: Sequence[int]) -> None:
        """Ask once for each of these ids."""
        since = self._clock.monotonic()
        for identifier in ids:
            self._asking = identifier, since
            try:
                schema, is_final = self._answer(identifier)
            except RegistryUnreachable as cause:
                self._outage.lasts(str(cause))
                break
            self._keep(identifier, schema, is_final=is_final)
            self._outage.ends()
        self._asking = None

    def _answer(self, identifier: int) -> tuple[KnownSchema, bool]:
        """The schema of an id, or why it has none, and whether that is final.

        A refusal of any form is one of this id if the registry answers another request. Raises
        RegistryUnreachable if it does not.
        """
        try:
            found = self._registry.schema(identifier)
        except RegistryRefused as refused:
            return UnusableSchema(str(refused)), not refused.code
        except RegistryMisconfigured as refused:
            with suppress(RegistryRefused):  # an answer too
                self._registry.ask()
            return UnusableSchema(f"{refused}"), False
        return (UnusableSchema(UNKNOWN), False) if found is None else (usable(found), True)

    def _keep(self, identifier: int, schema: KnownSchema, *, is_final: bool) -> None:
        if is_final:
            self._schemas[identifier] = schema
            self._unknown.pop(identifier, None)
            self._expiry.pop(identifier, None)
            return
        now = self._clock.monotonic()
        if now - self._unknown.setdefault(identifier, now) >= GRACE_SECONDS:
            self._schemas[identifier] = schema
            self._expiry[identifier] = now + AGAIN_SECONDS
            if len(self._expiry) > MAX_UNKNOWN:
                oldest = next(iter(self._expiry))
                del self._expiry[oldest], self._unknown[oldest], self._schemas[oldest]


def usable(found: SchemaTexts) -> KnownSchema:
    """The uses of a schema."""
    if found.schema_type == "JSON":
        return JsonSchema()
    if found.schema_type != "AVRO":
        return UnusableSchema(f"{found.schema_type} is neither Avro nor JSON Schema")
    try:
        return AvroSchema(found.text, found.referred, RECORDS)
    except BadSchema as bad:
        return UnusableSchema(str(bad))


@dataclass(slots=True)
class AsJson:
    """Published messages in Avro as the same messages in JSON, for readers of output topics. It
    asks the registry only for framed ones.
    """

    settings: Settings
    _lookup: SchemaLookup | None = field(init=False, default=None)

    def __call__(self, record: Record) -> Record:
        """The record in JSON. Raises SetupError without its schema, or if it is of no change."""
        value = record.value
        if value is None or not is_framed(value):
            return record
        place = f"the message at offset {record.offset} of {record.topic} [{record.partition}]"
        if self._lookup is None:
            if self.settings.schema_registry_url is None:
                raise SetupError(f"{place} is Avro: set COVERSUMM_SCHEMA_REGISTRY_URL")
            check_fastavro()
            self._lookup = SchemaLookup(SchemaRegistry.of(self.settings))
        self._lookup.require([record])
        try:
            return record._replace(value=self._lookup.codec.to_json(value))
        except BadEvent as bad:
            raise SetupError(f"{place}: {bad.rejected.detail}") from None
        except ValueError as error:
            raise SetupError(f"{place} is not a summary or facets change: {error}") from None
