"""The outcome of a mapping for sample records of a file or of its topics."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from worker.errors import SetupError
from worker.events import Limits, Record, Rejected, decode
from worker.events.decode import Decoded, check_several
from worker.events.internal_errors import internal_error
from worker.events.notes import EMPTY, FILLED, LEFT_OUT, NOTES
from worker.events.reasons import BadEvent
from worker.kafka.reader import TopicReader
from worker.kafka.topic_mapping import refusing_strays, with_schemas
from worker.kafka.topics import reached
from worker.mapping import TopicMapping
from worker.mapping.contract import members_of
from worker.mapping.paths import is_there
from worker.mapping.rules import Rule
from worker.registry.lookup import SchemaLookup
from worker.settings import Settings
from worker.sources.mapped import mapping_of, record_of
from worker.sources.opened import OpenedFile

IGNORED: Final = "ignored"
DEAD_LETTER: Final = "dead letter"


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """The outcome of a record: an event's type, `ignored` or `dead letter`, and by which rule.

    `event` is its body, `detail` why it is a dead letter. `place` is a line, or partition:offset.
    """

    place: str
    topic: str
    rule: str | None
    becomes: str
    detail: str | None = None
    event: dict[str, Any] | None = None


@dataclass
class MappingCheck:
    """Judges records, and counts for each rule how many it took and which fields they had."""

    topics: dict[str, TopicMapping]
    limits: Limits
    for_bridge: bool = False  # it takes events that a worker refuses in one record
    schemas: dict[str, SchemaLookup] = field(default_factory=dict)  # by topic with framed records
    taken: Counter[tuple[str, str]] = field(default_factory=Counter)  # by topic and rule
    filled: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By topic, rule and field: events that have it."""
    upserted: set[str] = field(default_factory=set)  # entities that have an upsert
    deletions: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """By topic, rule and entity: the place of the first deletion."""
    strange: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """By topic, rule and what is strange about an event: the place of the first one."""
    noted: dict[tuple[str, str, str, str], tuple[int, str]] = field(default_factory=dict)
    """By topic, rule, kind of note and name, see `worker.events.notes`: the number, the first."""
    joined: dict[tuple[str, str], dict[str, bool]] = field(default_factory=dict)
    """By topic and rule: for each part of a joined text whether a record has it, possibly null."""

    def judge(self, place: str, record: Record) -> list[SampleOutcome]:
        """The outcomes of a record of one of the topics: several events, or one other outcome.
        Raises SetupError for another topic.
        """
        mapping = mapping_of(self.topics, record.topic, place, "name one with --topic")
        self.topics.setdefault(record.topic, mapping)
        if record.topic in self.schemas:
            self.schemas[record.topic].require([record])
        rule = mapping.rule_of(record)
        name = None if rule is None else rule.name
        if name is not None:
            self.taken[record.topic, name] += 1
        found: Decoded
        events: list[dict[str, Any]] = []
        NOTES.take()
        try:
            bodies = mapping.read_all(record)
            self._note(place, record.topic, str(name))
            self._note_joined(mapping, record)
            if self.for_bridge and len(bodies) > 1:
                found = check_several(bodies, self.limits)
                if isinstance(found, Rejected):
                    found = mapping.explain(record, found)
            else:
                (found,) = decode([record], self.limits, mapping=mapping.refusing(None))
            value = msgspec.json.encode([members_of(body) for body in bodies])
            events = msgspec.json.decode(value)
        except BadEvent as bad:
            found = mapping.explain(record, bad.rejected)
        except Exception as error:
            found = internal_error(error)
        if isinstance(found, Rejected):
            detail = f"{found.reason}: {found.detail}"
            return [SampleOutcome(place, record.topic, name, DEAD_LETTER, detail)]
        if not events:
            return [SampleOutcome(place, record.topic, name, IGNORED)]
        return [self._event(place, record.topic, str(name), event) for event in events]

    def _event(self, place: str, topic: str, rule: str, event: dict[str, Any]) -> SampleOutcome:
        self.filled.update((topic, rule, field) for field in event)
        if event["type"] == "review.upserted":
            self.upserted.add(event["entity_id"])
        else:
            self.deletions.setdefault((topic, rule, event["entity_id"]), place)
        for doubt in _doubts_of(event):
            self.strange.setdefault((topic, rule, doubt), place)
        return SampleOutcome(place, topic, rule, event["type"], None, event)

    def _note(self, place: str, topic: str, rule: str) -> None:
        """Note the members that the record's events lack, and lists of which the rule took none."""
        for (kind, member), number in NOTES.counts.items():
            at = topic, rule, kind, member
            before, first = self.noted.get(at, (0, f"{NOTES.details[kind, member]} ({place})"))
            self.noted[at] = before + number, first

    def _note_joined(self, mapping: TopicMapping, record: Record) -> None:
        """Note which parts of joined texts the record has."""
        for rule, roots in mapping.decided(record):
            seen = self.joined.setdefault((record.topic, rule.name), {})
            paths = [
                p for event in rule.events for field in event.fields.values() for p in field.joined
            ]
            for _, at in rule.members(roots):
                for path in paths:
                    seen[path.text] = seen.get(path.text, False) or is_there(path, at)

    def doubts(self) -> Iterator[str]:
        """Rules that took no record, fields that no event of a rule has, parts of joined texts that
        no record has, events that are strange, and deletions in entities that have no upsert.
        """
        for topic, mapping in self.topics.items():
            if not any(of == topic for of, _ in self.taken):
                continue
            for rule in mapping.rules:
                yield from self._doubts_of(topic, rule)
            for rule in mapping.all_rules:
                yield from self._strange_deletions(topic, rule.name)
        for (topic, name, doubt), place in self.strange.items():
            yield f"{topic}: {name}: {doubt} ({place})"

    def _doubts_of(self, topic: str, rule: Rule) -> Iterator[str]:
        if not self.taken[topic, rule.name]:
            yield f"{topic}: {rule.name} took none of these records"
            return
        names = dict.fromkeys(name for event in rule.events for name in event.fields)
        empty = [name for name in names if not self.filled[topic, rule.name, name]]
        if empty and self.filled[topic, rule.name, "type"]:  # it made an event
            yield f"{topic}: {rule.name} found no {', '.join(empty)} in any of these records"
        kinds = {kind for of, by, kind, _ in self.noted if (of, by) == (topic, rule.name)}
        if EMPTY in kinds and FILLED not in kinds:
            paths = ", ".join(path.text for items in rule.of_items for path in items.paths)
            yield f"{topic}: {rule.name} took no member of any list: is {paths} misspelt?"
        for (*by, kind, name), (number, first) in self.noted.items():
            if (*by, kind) == (topic, rule.name, LEFT_OUT):
                out = f"left {name} out of {number:,} events, such as {first}"
                yield f"{topic}: {rule.name} {out}"
        for path, is_seen in self.joined.get((topic, rule.name), {}).items():
            if not is_seen:
                yield f"{topic}: {rule.name} found nothing at {path} in any of these records"

    def _strange_deletions(self, topic: str, rule: str) -> Iterator[str]:
        """A deletion with a wrong entity id deletes nothing, and nobody notices."""
        found = {
            entity: place
            for (of_topic, of_rule, entity), place in self.deletions.items()
            if (of_topic, of_rule) == (topic, rule) and entity not in self.upserted
        }
        if found:
            first = next(iter(found))
            more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
            yield (
                f"{topic}: {rule} deletes in entity {first!r} ({found[first]}){more}, of which "
                "these records have no upsert: check its entity_id; a table that Debezium captures "
                "needs REPLICA IDENTITY FULL or USING INDEX"
            )


def _doubts_of(event: Mapping[str, Any]) -> Iterator[str]:
    """Doubtful parts of an event, which may still be right."""
    if event["entity_id"] == "0":
        yield "entity_id is 0: does the source fill it in where it knows none?"
    if event["entity_id"][0] in '{["':
        yield f'entity_id is {event["entity_id"]!r:.60}, which looks like JSON: set key = "json"?'
    if str(event.get("occurred_at", "")).startswith(("1969-", "1970-")):
        yield f"occurred_at is {event['occurred_at']}: is the unit of its epoch right?"
    if r"\n" in str(event.get("text")):
        yield "text has a backslash and an n: if they are a line break, set unescape = true"


def records_of_file(path: str, topics: Mapping[str, TopicMapping]) -> Iterator[tuple[str, Record]]:
    """The records of a file of JSON lines, plain or packed, each with its place, with the frames
    that keys of its topic have: the file has decoded records.

    A line is a record with `value`, and possibly `key`, `headers`, `topic`, as `kcat -J` and
    archives write it, or else a record's value. A line that names no topic is of the only one.
    Raises SetupError.
    """
    with OpenedFile(path, path, {}) as file:
        if file.format.kind != "json":
            raise SetupError(f"{path} is not a file of JSON lines: write a record on each")
        for number, line in enumerate(file.lines(), start=1):
            if line is None or not line.strip():
                continue
            yield f"line {number}", record_of(line, number - 1, topics)


def records_of_topics(
    judge: MappingCheck, settings: Settings, file: Path | None, limit: int
) -> Iterator[tuple[str, Record]]:
    """The last records of each topic, at most `limit`, with their places. `judge` knows their
    schemas then. With the mapping's `file`, records outside their entity's partition are refused,
    as a worker does.
    """
    clients = reached(settings)
    for name, mapping in list(judge.topics.items()):
        with TopicReader(clients, name, settings.app_id) as reader:
            own, schemas = with_schemas(settings, mapping)
            judge.topics[name] = mapping = own or mapping
            if file is not None:
                judge.topics[name] = refusing_strays(mapping, file, len(reader.partitions))
            if schemas is not None:
                judge.schemas[name] = schemas
            each = max(1, limit // len(reader.partitions))
            for partition in reader.partitions:
                for record, headers in reader.read(partition, reader.bounds(partition).stop - each):
                    place = f"{partition}:{record.offset}"
                    refused = record.refused if mapping.reads_headers else None
                    yield place, record._replace(headers=tuple(headers.items()), refused=refused)
