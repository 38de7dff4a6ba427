"""The worker's processing as the corpus calls it. A refactoring changes this module, never a hash.

Each stream is processed as a worker does it: in micro-batches, of which some are cut by a limit,
with restarts on the rows written so far. A replay ends with `finish`, and then a worker continues.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import numpy as np

from tests.frozen.events import DIMENSION, MAPPING, START_MS, Sent, as_json, of_a_shop, packed
from tests.registry.framing import ONE, framed
from worker.events import FacetsChanged, Message, Record, SummaryChanged
from worker.events.codec import DEFAULT
from worker.events.publishing import FACETS
from worker.facets.definitions import parse_definitions
from worker.mapping import load_mapping
from worker.processing.config import ProcessorConfig, RecordSelection, processor_config
from worker.processing.entities import EntityKey
from worker.processing.entity_view import (
    Extent,
    FacetsView,
    Overview,
    ShortView,
    SummaryView,
    read_view,
)
from worker.processing.processor import ProcessedBatch, Processor
from worker.registry.avro import AvroSchema
from worker.registry.contract import TYPES, schema_text
from worker.registry.framed import FramedCodec
from worker.registry.output import AvroOutput
from worker.settings import Settings
from worker.state import MemoryRows

Part = tuple[str, str, bytes]
"""The kind of a part, its place for people, and its bytes."""
OPTIONAL = {"verified", "country", "author_id"}


def _written(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_text(TYPES[name]))
    fields = [field for field in schema["fields"] if field["name"] not in OPTIONAL]
    return {**schema, "fields": fields}


SCHEMAS = {
    (schema := _written(name))["name"]: schema for name in TYPES if not name.endswith(".changed")
}
"""The producer's, which lack three optional fields: its bytes are those of dead letters."""
WRITTEN = {ONE[name]: AvroSchema(json.dumps(schema)) for name, schema in SCHEMAS.items()}
TOPICS = {"summaries": "summaries", "facets": "facets", "letters": "dead letters"}
PARTITIONS = (0, 1)


class Engine:
    """A text's vector is the sum of its words', in whole numbers; `void` has none."""

    model, dimension = "frozen", DIMENSION

    def embed(self, texts: Sequence[str]) -> Any:
        return np.array([self._vector(text) for text in texts], np.float32)

    def _vector(self, text: str) -> list[float]:
        words = text.lower().rstrip(".").split()
        if "void" in words:
            return [float("nan")] * DIMENSION
        each = [sha256(word.encode()).digest()[:DIMENSION] for word in words]
        return [float(sum(of) - 127 * len(of)) for of in zip(*each, strict=True)]


class Setup(NamedTuple):
    """How a stream is processed."""

    emit: str  # with a colon: and the least number of changed sentences
    facets: str  # TOML
    output: str
    distinct: str  # or what else is not the default of copies
    index: str
    given: str
    cuts: str
    k: int
    is_small: bool
    native: str = "off"  # COVERSUMM_NATIVE; changes neither what is published nor what is stored


def run(setup: Setup, events: Sequence[Sent]) -> Iterator[Part]:
    """All that the stream publishes and stores, in order."""
    # The rules of splitting may change on purpose: their version is the same here.
    with TemporaryDirectory() as folder, patch("worker.processing.config.SPLITTER", "frozen"):
        work = _Work(setup, _config(setup, Path(folder)))
        records = list(_records(setup, events))
        if setup.emit.partition(":")[0] not in ("final", "none"):
            yield from work.process(records)
        else:
            yield from work.process(records[:-60])
            yield from work.finish(records[:-60])
            work.restart("every")
            yield from work.process(records[-60:])
        yield from work.end()


def _config(setup: Setup, folder: Path) -> ProcessorConfig:
    (folder / "facets.toml").write_text(setup.facets)
    (folder / "mapping.toml").write_text(MAPPING)
    emit, _, least = setup.emit.partition(":")
    engine = Engine() if setup.given in ("texts", "mapped") else None
    settings = Settings(
        input_topic="reviews",
        output_topic="summaries",
        facets_topic="facets",
        dlq_topic="letters",
        facets=str(folder / "facets.toml") if setup.facets else "",
        output_format=setup.output,
        schema_registry_url="http://registry:8081",
        embedder="none",
        dimension=DIMENSION,
        epoch=3,
        k=setup.k,
        distinct=setup.distinct == "distinct",
        weigh="texts" if setup.distinct == "texts" else "reviews",
        emit="coalesced" if emit == "coalesced" else "every",
        emit_min_changes=int(least or 1),
        index=setup.index,
        native=setup.native,  # type: ignore[arg-type]
        cache_bytes=0 if (setup.cuts, setup.index) == ("limits", "flat") else 2**20,
        transaction_records=60 if setup.cuts == "limits" else 50_000,
        max_event_bytes=8192,
        max_text_bytes=400,
        max_sentence_chars=100,
        max_sentences_per_review=40,
        max_sentences_per_deletion=6,
        max_sentences_per_entity=12 if setup.is_small else 5000,
        max_message_bytes=2**21 if "sides" in setup.facets else 2**19,
    )
    unused = parse_definitions(setup.facets, "facets").unused if setup.facets else frozenset()
    avro = AvroOutput({SummaryChanged: 7, FacetsChanged: 8}, unused)
    mapping = load_mapping(folder / "mapping.toml")["reviews"]
    config = processor_config(
        settings,
        len(PARTITIONS),
        engine,
        emit=emit,  # type: ignore[arg-type]
        mapping=mapping if setup.given == "mapped" else None,
        codec=FramedCodec(WRITTEN) if setup.given == "avro" else DEFAULT,
        output=avro if setup.output == "avro" else None,
    )
    config = replace(config, worker_version="frozen")
    if emit not in ("final", "none") or not setup.is_small:
        return config
    span = RecordSelection(entities=frozenset([b"a", "é😀\0".encode()]), since_ms=START_MS + 50_000)
    return replace(config, selection=span)


def _records(setup: Setup, events: Sequence[Sent]) -> Iterator[Record]:
    offsets = [0] * len(PARTITIONS)
    for partition, key, body, timestamp_ms in events:
        value = body if not isinstance(body, dict) else _value(setup.given, body)
        headers = [("trace", b"1"), ("none", None)] if setup.given == "mapped" else []
        yield Record("reviews", partition, offsets[partition], timestamp_ms, key, value, headers)
        offsets[partition] += 1


def _value(given: str, body: dict[str, Any]) -> bytes:
    if given == "mapped":
        return of_a_shop(body)
    if given != "avro":
        return as_json(body, is_base64=given == "base64")
    name = "".join(word.capitalize() for word in body["type"].split("."))
    fields = {name: value for name, value in body.items() if name != "type"}
    if fields.get("sentences"):
        fields["sentences"] = [
            sentence
            | {"embedding": packed(sentence["embedding"]) if sentence.get("embedding") else None}
            for sentence in body["sentences"]
        ]
    return framed(ONE[name], SCHEMAS[name], fields)


class _Work:
    """A worker with rows in memory."""

    def __init__(self, setup: Setup, config: ProcessorConfig) -> None:
        self._setup, self._config = setup, config
        self._rows = {partition: MemoryRows() for partition in PARTITIONS}
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._batches = 0
        self.restart(config.emit)

    def restart(self, emit: Any) -> None:
        """Continue with another process."""
        selection = RecordSelection() if emit == "every" else self._config.selection
        self._config = replace(self._config, emit=emit, selection=selection)
        engine = Engine() if self._config.limits.embeds else None
        processor = self._processor = Processor(self._config, self._rows.__getitem__, engine)
        for partition in PARTITIONS:
            processor.check_partition(partition)
            processor.reads_from(partition, "input-id")
            processor.publishes_to(partition, "output-id")
            if self._config.facets is not None:
                processor.publishes_to(partition, "facets-id", topic=FACETS)
            processor.begin(partition)

    def process(self, records: list[Record]) -> Iterator[Part]:
        """The records in micro-batches."""
        sizes = {"one": (1,), "ten": (3, 17, 8, 1, 30), "all": (150,), "limits": (40,)}
        while records:
            cuts = sizes[self._setup.cuts]
            batch = self._processor.process(records[: cuts[self._batches % len(cuts)]])
            yield from self._commit(batch)
            records = records[batch.taken :]
            if self._setup.cuts in ("ten", "limits") and self._batches % 20 == 0:
                self.restart(self._config.emit)

    def finish(self, records: list[Record]) -> Iterator[Part]:
        """The end of a replay."""
        for partition in PARTITIONS:
            end = sum(record.partition == partition for record in records) + 2  # markers
            while True:
                batch = self._processor.finish(partition, end)
                yield from self._commit(batch)
                if batch.is_end:
                    break

    def end(self) -> Iterator[Part]:
        """The rows, the views of all entities, and how often each outcome was."""
        for partition, rows in self._rows.items():
            for key, value in rows.scan(b""):
                yield f"rows {_kind(key)}", f"{partition} {key!r}", _framed(key, value)
            for entity_id in ("grown", "other", "a", "é😀\0", "b#0"):
                for name, view in self._views(EntityKey(partition, entity_id)):
                    yield f"view {name}", f"{partition} {entity_id!r}", msgspec.json.encode(view)
        yield "outcomes", "", repr(sorted(self._outcomes.items())).encode()

    def _views(self, key: EntityKey) -> Iterator[tuple[str, Any]]:
        def view(*asked: Any) -> Any:
            kind, *extent = asked
            return read_view(self._rows[key.partition], key, kind, self._config, *extent)

        yield "set", view(SummaryView)
        yield "short", view(ShortView, Extent())
        yield "words", view(ShortView, Extent(words=14, threshold=0.5))
        if self._config.facets is not None:
            yield "facets", view(FacetsView)
            yield "overview", view(Overview, Extent(4))

    def _commit(self, batch: ProcessedBatch) -> Iterator[Part]:
        self._batches += 1
        self._outcomes += batch.stats.outcomes
        for partition, changes in batch.rows.items():
            for key, row in changes.items():
                yield "changelog", f"{partition} {key!r}", _framed(b"%d" % partition, key, row)
            self._rows[partition].write(changes)
        self._processor.committed(batch)
        for message in batch.messages:
            yield from _parts(message)


def _parts(message: Message) -> Iterator[Part]:
    kind, place = TOPICS[message.topic], f"{message.partition} {message.key!r}"
    yield "order of topics", place, message.topic.encode()
    yield f"{kind} keys", place, _framed(b"%d" % message.partition, message.key)
    yield f"{kind} values", place, _framed(message.value)
    for name, header in message.headers:
        yield f"{kind} headers", place, _framed(name.encode(), header)


def _kind(key: bytes) -> str:
    """The first byte of a row's key, and for a row of an entity the letter of its kind."""
    if key[:1] != b"E":
        return key[:1].decode()
    rest = key[5 + int.from_bytes(key[1:5], "big") + 8 :]
    return f"E {rest[:1].decode()}" if rest else "E header"


def _framed(*parts: bytes | None) -> bytes:
    """Parts as one, each with its length; -1 for one that is missing."""
    return b"".join(
        struct.pack(">i", -1 if part is None else len(part)) + (part or b"") for part in parts
    )


def unframed(raw: bytes) -> list[bytes]:
    """The parts of a row, none of which is missing."""
    parts = []
    while raw:
        end = 4 + int.from_bytes(raw[:4], "big")
        parts.append(raw[4:end])
        raw = raw[end:]
    return parts
