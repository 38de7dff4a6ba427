"""What is fuzzed: for each decoder valid examples, and the law that holds for any bytes.

A law raises for what must not be: any exception but the decoder's own, or a value that does not
survive being written and read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from docs.build.schemas import PUBLISHED
from tests.events.examples import LIMITS, decode, packed, strict_json
from tests.fuzz.mapping_files import law
from tests.harness import debezium
from tests.native.driver import PoolDriver
from tests.native.streams import records
from tests.registry import test_avro as avro
from tests.registry.framing import CONTRACT, UNION, codec
from tests.registry.test_framed import EVENTS as AVRO_EVENTS
from tests.registry.test_framed import as_avro
from worker.coversumm.native import native_module
from worker.errors import FileErrors, SetupError
from worker.events import Ignored, Reason, Record, Rejected, ReviewDetails
from worker.events.bare import Reading, read_json, read_row
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.events.ratings import RatingCounts
from worker.events.reasons import BadEvent
from worker.kafka.reader import Stored
from worker.mapping import TopicMapping, load_mapping
from worker.mapping.contract import ContractWriter
from worker.operations.letter_sending import Sent, UnknownMetadata
from worker.operations.letters import DeadLetter
from worker.processing.config import event_limits
from worker.registry.avro import AvroSchema, BadSchema
from worker.settings import Settings, settings_by_field
from worker.sources.archive import Archive
from worker.sources.columns import CELLS, review_of
from worker.state import rows
from worker.state.errors import CorruptRow, NewerFormats, UnknownFormat
from worker.state.keys import IncarnationKeys, describe, garbage_key, header_key, parse_entity_key
from worker.state.rows import Applied, Header, Output, PublishedSets, ReviewRow
from worker.text.splitting import cap_sentence, split_sentences

Law = Callable[[bytes], object]


class Target(NamedTuple):
    """A decoder under test."""

    corpus: tuple[bytes, ...]
    law: Law


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


# -- Events ----------------------------------------------------------------------------------------

EVENTS = (
    *(_json(example) for published in PUBLISHED for example in published.examples),
    _json(
        {
            "type": "review.upserted",
            "entity_id": "e",
            "review_id": "r",
            "text": "Good. \\ é 😀\u2028",
        }
    ),
    _json(
        {
            "type": "review.upserted",
            "entity_id": "e",
            "review_id": "r",
            "sentences": [
                "Good.",
                {"text": "Bad.", "embedding": [1, -2.5]},
                {"text": "", "embedding": packed(0.5, 1)},
            ],
            "embedding_model": "tiny",
        }
    ),
)


def event(value: bytes) -> None:
    """One result for a record, the same each time; accepted only where another parser reads the
    same.
    """
    record = Record("in", 0, 0, 0, _key_of(value), value)
    (result,) = decode([record], LIMITS)
    again = decode([record], LIMITS)[0]
    if isinstance(result, Rejected):
        assert result == again
        assert result.reason in Reason
        assert result.detail.isprintable()
        return
    assert type(again) is type(result)
    body = strict_json(value)
    assert result.entity_id == body["entity_id"]
    assert result.entity_id.encode() == record.key


USUAL = tuple(
    event.value for event in records(Random(1), 60, 0.0, entities=["e"]) if event.value is not None
)


def usual_event(value: bytes) -> None:
    """The native form refuses an event, or does the same as the Python form."""
    if native_module() is not None:
        driver = PoolDriver()
        driver.run([Record("reviews", 0, 0, 0, _key_of(value), value)])


def _key_of(value: bytes) -> bytes:
    """The key that goes with an event, if one can be read: else nothing would get past the key's
    check.
    """
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return bytes(json.loads(value)["entity_id"].encode())
    return b"e"


def key(value: bytes) -> None:
    """The key of a null value is the entity that it deletes."""
    (result,) = decode([Record("in", 0, 0, 0, value, None)], LIMITS)
    assert isinstance(result, Rejected) or result.entity_id.encode() == value


def line(value: bytes) -> None:
    """A line of a file is an event, a bare review, or what `decode` says is wrong with it."""
    _judge(read_json(value))


def row_of_file(value: bytes) -> None:
    """The same of a row: its cells are lines, one may hold what is no Unicode, and columns are
    floats where they can be.
    """
    cells = [cell.decode("utf-8", "surrogateescape") for cell in value.split(b"\n")]
    row: dict[str, Any] = dict(zip(CELLS, cells, strict=False))
    _judge(review_of(row, {}, set(row)))
    _judge(read_row(row | ({"type": row["type"]} if row.get("type") else {})))
    with suppress(ValueError):
        _judge(read_row(row | {"rating": float(row.get("rating", ""))}))


def _judge(reading: Reading) -> None:
    """One result; a rating that was given is kept, refused or named."""
    key, body = reading.line
    (result,) = decode([Record("file", 0, 0, 0, key, body)], LIMITS)
    assert isinstance(result, Rejected) or result.entity_id.encode() == key
    assert isinstance(result, Rejected) or b'"rating":null' not in body or reading.left_out


def archived(value: bytes) -> None:
    """A line of an archive is a record or a fault, and so is a row of one in CSV; the fault is one
    line.
    """
    with TemporaryDirectory() as folder:
        for name in ("a.jsonl", "a.csv"):
            path = Path(folder, name)
            path.write_bytes(value)
            with suppress(SetupError):
                archive = Archive([str(path)])
                assert all(len(fault.detail) < 1000 for fault in archive.faults())
                for partition in archive.partitions():
                    for record in archive.read(partition):
                        assert -(2**63) <= getattr(record, "timestamp_ms", 0) < 2**63


def text(value: bytes) -> None:
    """Any text has sentences; none is blank or longer than the cap, and splitting is the same each
    time.
    """
    given = value.decode("utf-8", "replace")
    sentences = split_sentences(given, LIMITS.max_sentence_chars)
    assert all(
        sentence.strip() and len(sentence) <= LIMITS.max_sentence_chars for sentence in sentences
    )
    assert split_sentences(given, LIMITS.max_sentence_chars) == sentences
    assert all(len(piece) <= 7 for piece in cap_sentence(given, 7))


# -- Rows ------------------------------------------------------------------------------------------

KEY = header_key(b"hotel")
KEYS = IncarnationKeys(b"hotel", 7)
FRAME_BYTES = 5  # of the version and the checksum
DIMENSION = 3
VECTORS = np.array([[1, -2, 3], [32767, 0, -32767]], np.int16)
TEXTS = ((0, "Good."), (2, "é😀"))
DETAILS = ReviewDetails(4.0, "2026-11-20T12:00:00Z", "de")
RATINGS = RatingCounts({8: 1, 10: 300}, 1, Fraction(0.1))


def row(
    encode: Callable[[bytes, Any], bytes], decode_row: Callable[[bytes, bytes], Any], *examples: Any
) -> Target:
    """A row's decoder under damaged payloads, their checksum made right, and under damaged values.

    An input is the format's version, one byte, and the payload.
    """
    sealed = [encode(KEY, example) for example in examples]
    corpus = tuple(value[:1] + value[FRAME_BYTES:] for value in sealed)

    def law(data: bytes) -> None:
        with suppress(CorruptRow, NewerFormats, UnknownFormat):
            decode_row(KEY, data)  # as if it were the whole value
        try:
            found = decode_row(KEY, rows.seal(KEY, data[1:], data[0] if data else 0))
        except (CorruptRow, NewerFormats, UnknownFormat):
            return
        written = encode(KEY, found)
        assert repr(decode_row(KEY, written)) == repr(found)

    return Target(corpus, law)


def _encode_vectors(key: bytes, found: tuple[tuple[int, ...], bytes]) -> bytes:
    ordinals, data = found
    return rows.encode_vectors(key, ordinals, rows.as_matrix([data], DIMENSION))


def row_key(value: bytes) -> None:
    """Any key can be named; one of an entity's row is parsed or refused."""
    assert describe(value).isprintable()
    with suppress(ValueError):
        parse_entity_key(value)


# -- What operators' tools read --------------------------------------------------------------------

HEADERS = (
    "dlq.reason",
    "dlq.detail",
    "dlq.source.topic",
    "dlq.source.partition",
    "dlq.source.offset",
    "dlq.truncated_bytes",
    "dlq.truncated_key_bytes",
    "dlq.dropped_headers",
    "other",
)


def dead_letter(value: bytes) -> None:
    """Whatever somebody wrote into the dead-letter topic can be listed. A line is a header, the
    last one the value.
    """
    *lines, body = value.split(b"\n")
    headers = dict(zip(HEADERS, lines, strict=False))
    letter = DeadLetter.of(Stored(Record("dlq", 0, 5, 0, body[:3], body), headers))
    json.dumps(letter.describe())
    assert letter.source is None or letter.source.partition >= 0


def sent(value: bytes) -> None:
    """The metadata of an offset commit is read or refused."""
    with suppress(UnknownMetadata):
        found = Sent.parse(3, value.decode("utf-8", "replace"))
        assert 2 in found


# -- Mappings --------------------------------------------------------------------------------------


def mapped(value: bytes) -> None:
    """Any key, headers and value of a mapped topic have one result, the same each time; what a
    bridge writes of a record is read as the record is. The first line is the key, the second one a
    header.
    """
    key, _, rest = value.partition(b"\n")
    header, _, body = rest.partition(b"\n")
    name, _, text = header.partition(b" ")
    headers = (("ce_specversion", b"1.0"), (name.decode("utf-8", "replace"), text))
    for rules, writer in MAPPINGS:
        record = Record(rules.topic, 0, 0, 0, key, body, headers if rules.needs_headers else ())
        (result,) = decode([record], LIMITS, mapping=rules)
        again = decode([record], LIMITS, mapping=rules)[0]
        message = next(iter(writer.write([record]).messages), None)
        if message is None:
            assert result is again is Ignored.BY_MAPPING
        elif message.topic == "dlq":
            assert isinstance(result, Rejected)
            assert result == again
            assert result.detail.isprintable()
        else:
            sent = Record("events", message.partition, 0, 0, message.key, message.value)
            (read,) = decode([sent], LIMITS)
            assert type(read) is type(result) is type(again)
            if isinstance(read, Rejected):
                assert isinstance(result, Rejected)
                assert read.reason == result.reason
            else:
                assert read.entity_id == result.entity_id


def mapping_file(value: bytes) -> None:
    """Any text is a mapping, or has errors with their lines."""
    topics, errors = {}, []
    with TemporaryDirectory() as folder:
        file = Path(folder, "mapping.toml")
        file.write_bytes(value)
        try:
            topics = load_mapping(file)
        except FileErrors as error:
            errors = list(error.lines)
    assert topics or errors
    assert all(error.startswith(f"{file}:") and error.isprintable() for error in errors)
    for rules in topics.values():
        decode([Record(rules.topic, 0, 0, 0, b"k", b'{"a":1}')], LIMITS, mapping=rules)


# -- Avro ------------------------------------------------------------------------------------------

REGISTERED = codec()


def avro_event(value: bytes) -> None:
    """Any framed value has one result, the same each time."""
    record = Record("in", 0, 0, 0, b"e", value)
    (result,) = decode([record], LIMITS, REGISTERED)
    again = decode([record], LIMITS, REGISTERED)[0]
    assert type(again) is type(result)
    if isinstance(result, Rejected):
        assert result == again
        assert result.detail.isprintable()
    else:
        assert result.entity_id == "e"


def avro_schema(value: bytes) -> None:
    """Any text is a schema or refused, and any bytes are read by it or refused. The first line is
    the schema, the rest the bytes.
    """
    text, _, payload = value.partition(b"\n")
    with suppress(BadSchema):
        schema = AvroSchema(text.decode("utf-8", "replace"))
        with suppress(BadEvent):
            schema.read(b"\0\0\0\0\1" + payload)


# -- Settings --------------------------------------------------------------------------------------

VARIABLES = [setting.variable for setting in settings_by_field().values()]


def settings(value: bytes) -> None:
    """Any environment is accepted or refused in one sentence. Lines are a variable and its text."""
    environment = {"COVERSUMM_DATA_DIR": "/nowhere"}
    for part in value.decode("utf-8", "surrogateescape").replace("\0", "").split("\n"):
        name, _, text = part.partition(" ")
        known = (
            name
            if name.startswith("COVERSUMM_")
            else VARIABLES[sum(map(ord, name)) % len(VARIABLES)]
        )
        environment[known] = text
    with suppress(SetupError):
        made = Settings.from_environment(environment)
        assert event_limits(made)


CLOUD = """
[topic.t]
[[topic.t.rule]]
when_present = ["ce.subject"]
emit = "review.upserted"
entity_id = "ce.subject"
review_id = { join = ["after.id", { const = 5 }] }
language = "header:entity"
text = ["after.title", { join = ["after.body", "after.status"], with = "" }]
sentences = "after.sentences"
occurred_at = ["ce.time", { path = "after.updated_at", epoch = "ns" }]
[[topic.t.rule]]
emit = "sentences.deleted"
entity_id = "key"
sentence_ids = "after.ids"
"""


def _mappings() -> list[tuple[TopicMapping, ContractWriter]]:
    with TemporaryDirectory() as folder:
        found = [
            debezium.mapping(Path(folder), text, topic)
            for text, topic in ((debezium.MAPPING, debezium.TOPIC), (CLOUD, "t"))
        ]
    return [
        (
            kind_of,
            ContractWriter(kind_of, "events", lambda _: 0, "dlq", LIMITS.max_event_bytes, LIMITS),
        )
        for kind_of in found
    ]


MAPPINGS = _mappings()
ROW = debezium.row(5, 3, sentences=["Good.", {"text": "Bad.", "embedding": [1, -2.5]}])
RECORDS = [
    debezium.key(ROW) + b"\nce_subject B00X\n" + debezium.change(op, ROW, 7, schemas=schemas)
    for op in "cd"
    for schemas in (True, False)
]
NINES = b"9" * 5000
BARE = {"entity_id": "e", "review_id": "r", "text": "Good."}
ARCHIVED = (
    b"topic,partition,offset,timestamp,entity_id,review_id,text,rating\nt,0,1,%s,e,r,Good.,%s\n"
)
DIGESTS = {b"r#0": b"0" * 16, b"r#1": b"1" * 16}


def published_row(
    topic: OutputTopic, *sets: dict[bytes, bytes], mentions: tuple[int, ...] = ()
) -> Target:
    """The sets last published to a topic."""
    return row(
        lambda key, row: rows.encode_published(key, topic, row),
        lambda key, value: rows.decode_published(key, topic, value),
        PublishedSets(9, list(sets), mentions),
    )


TARGETS = {
    "event": Target(EVENTS, event),
    "usual-event": Target(USUAL, usual_event),
    "key": Target((b"B00X", "é".encode(), b"a" * 1024), key),
    "line": Target(
        (
            *EVENTS,
            _json(
                {
                    "entity_id": "e",
                    "review_id": "r",
                    "text": "Good.",
                    "created_at": "2026-11-20T12:00:00Z",
                }
            ),
            *(
                _json(BARE | {"rating": "9" * digits + rest})
                for digits, rest in ((5000, ""), (400, ".0"))
            ),
            b'{"entity_id":"e","review_id":7,"text":"Good.","rating":1e999}',
        ),
        line,
    ),
    "row-of-file": Target(
        (
            b"e\nr\nGood.\n4.5\nen\n2026-11-20T12:00:00Z",
            b"e\nr\nGood.\n" + NINES,
            b"e\nr\nGood.\n" + b"9" * 400 + b".0",
            b"e\xff\nr\nGood.\n5",
        ),
        row_of_file,
    ),
    "archive": Target(
        (
            b'{"topic":"t","partition":0,"offset":1,"timestamp":5,"key":"e","value":"{}"}\n',
            ARCHIVED % (b"2026-11-20T12:00:60Z", b"5"),
            ARCHIVED % (NINES, NINES),
        ),
        archived,
    ),
    "text": Target(
        (b"Good. Bad! <p>See www.example.com, Dr. No.</p>", "Très bon. 很好。不错。😀".encode()),
        text,
    ),
    "row-header": row(
        rows.encode_header, rows.decode_header, Header(3, 4, 5), Header(3, 4, 5, RATINGS)
    ),
    "row-published": published_row(SUMMARIES, DIGESTS),
    "row-facet-sets": published_row(FACETS, DIGESTS, {}),
    "row-facet-sets-mentions": published_row(FACETS, DIGESTS, {}, mentions=(3, 0)),
    "row-review": row(
        rows.encode_review,
        rows.decode_review,
        ReviewRow(3, False, ReviewDetails(4.5), True, 1, 1, TEXTS),
        ReviewRow(1, True, ReviewDetails(), False, 0, 0, ()),
        ReviewRow(1, False, ReviewDetails(-0.0), False, 1, 1, TEXTS[:1]),
        ReviewRow(1, False, DETAILS, True, 1, 1, TEXTS[:1], {0: 5}),
        ReviewRow(1, False, DETAILS._replace(verified=False), True, 1, 1, TEXTS[:1], {0: 5}),
        ReviewRow(1, False, ReviewDetails(country="é", author_id="\0"), True, 1, 1, TEXTS),
    ),
    "row-texts": row(rows.encode_text_chunk, rows.decode_text_chunk, TEXTS, TEXTS[:1]),
    "row-vectors": row(
        _encode_vectors,
        lambda key, value: rows.decode_vectors(key, value, DIMENSION),
        ((0, 2), VECTORS.tobytes()),
        ((5,), VECTORS[:1].tobytes()),
    ),
    "row-applied": row(rows.encode_applied, rows.decode_applied, Applied(7, "reviews")),
    "row-output": row(rows.encode_output, rows.decode_output, Output(2, "summaries", "an id")),
    "row-min-changes": row(rows.encode_min_changes, rows.decode_min_changes, 3),
    "row-fingerprint": row(
        rows.encode_fingerprint, rows.decode_fingerprint, {"model": "m", "k": "20"}
    ),
    "row-key": Target(
        (
            KEY,
            *KEYS.published.values(),
            KEYS.review(b"r"),
            KEYS.text_chunk(b"r", 1),
            KEYS.vector_chunk(b"r", 0),
            garbage_key(b"e", 3),
        ),
        row_key,
    ),
    "dead-letter": Target(
        (
            b"bad_json\nnot UTF-8\nreviews\n3\n991\n17\n4\nmore\n{}",
            "bad_field\né\nreviews\n0\n0".encode(),
            b"\n\n\n" + b"9" * 4301,
        ),
        dead_letter,
    ),
    "mapped": Target((*RECORDS, b'B00X\nentity 1\n{"after":{"ids":["r#0"]}}'), mapped),
    "mapping-file": Target((debezium.MAPPING.encode(), CLOUD.encode()), mapping_file),
    "mapping-page": Target((b"0", b"1", b"2"), lambda seed: law(seed, 12)),
    "avro-event": Target(
        tuple(as_avro(schema, kind) for schema in AVRO_EVENTS for kind in (0, UNION)), avro_event
    ),
    "avro-schema": Target(
        (
            _json(avro.CHANGE) + b"\n\0\2\6\0\2\1\0ab\2\2a\2\2b\0\0",
            _json(CONTRACT) + b"\n\0\2e\2r\0\0\0\0\0\0\0",
        ),
        avro_schema,
    ),
    "sent": Target((b"", b"1:AQECAw==", b"1:gAGAAQ=="), sent),
    "settings": Target(
        (
            b"COVERSUMM_K 5\nCOVERSUMM_CACHE_BYTES 1MiB\nCOVERSUMM_DISTINCT true",
            b"KAFKA_BOOTSTRAP_SERVERS host:9092,other:9093\nCOVERSUMM_WEB_ADVERTISED_URL http://x:1/",
            b"COVERSUMM_SECURITY_PROTOCOL SASL_SSL\nCOVERSUMM_SASL_MECHANISM PLAIN\n"
            b"COVERSUMM_SASL_PASSWORD x",
            b"COVERSUMM_DATA_DIR ~nobody-is-called-so\nCOVERSUMM_EPOKH 2",
            b"COVERSUMM_SECURITY_PROTOCOL SSL\nCOVERSUMM_SSL_CA_LOCATION " + b"a" * 300,
        ),
        settings,
    ),
}
