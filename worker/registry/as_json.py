"""Published messages in Avro as the same messages in JSON, for readers of output topics."""

from __future__ import annotations

from worker.errors import SetupError
from worker.events.frame import is_framed
from worker.events.inputs import Record
from worker.events.reasons import BadEvent
from worker.registry.avro import check_fastavro
from worker.registry.client import SchemaRegistry
from worker.registry.lookup import SchemaLookup
from worker.settings import Settings


class AsJson:
    """Turns records of output topics into JSON. It asks the registry only for framed ones."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lookup: SchemaLookup | None = None

    def __call__(self, record: Record) -> Record:
        """The record in JSON. Raises SetupError if its schema cannot be had or is of no change."""
        value = record.value
        if value is None or not is_framed(value):
            return record
        place = f"the message at offset {record.offset} of {record.topic} [{record.partition}]"
        if self._lookup is None:
            if self._settings.schema_registry_url is None:
                raise SetupError(f"{place} is Avro: set COVERSUMM_SCHEMA_REGISTRY_URL")
            check_fastavro()
            self._lookup = SchemaLookup(SchemaRegistry.of(self._settings))
        self._lookup.require([record])
        try:
            return record._replace(value=self._lookup.codec.to_json(value))
        except BadEvent as bad:
            raise SetupError(f"{place}: {bad.rejected.detail}") from None
        except ValueError as error:
            raise SetupError(f"{place} is no summary or facets change: {error}") from None
