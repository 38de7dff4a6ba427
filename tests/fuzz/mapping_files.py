"""Random mapping files and records of their topics: a bridge writes the events that `page` gives.

`python -m tests.fuzz.mapping_files 0 7000` tries these seeds, a file with 60 records each.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tests.events.examples import LIMITS
from tests.fuzz import page
from worker.errors import FileErrors
from worker.events import Record
from worker.events.json_codec import decode
from worker.mapping import load_mapping
from worker.mapping.contract import ContractWriter

RECORDS = 60
TIME = "2025-11-20T12:00:00Z"
SCALARS = (
    *(
        None,
        None,
        "",
        " ",
        "a",
        "B00X",
        "Good.",
        "Is it?",
        "é",
        0,
        1,
        3,
        81.0,
        4.5,
        -1,
        True,
        False,
    ),
    *("42", " 4.5 ", "n/a", "yes", TIME, "2025-11-20", "03/04/2019", "20.11.2025 07:33", 2**63),
    *(
        1_763_640_000_000,
        20_000,
        "1763640000000",
        "AQ==",
        "Sw==",
        "1234",
        "bin.000003",
        str(2**63),
        r"a\nb\\",
    ),
    *('{"x": "in"}', '{"y": 1}', "[1]", "{"),
)
NAMES = ("a", "b", "c", "d")
PATHS = (*NAMES, *NAMES, "a.x", "b.y", "c.0", "d.0.x", "key", "key.x", "header:h", "header:i")
USUAL = {"entity_id": ("key", "a", "a"), "review_id": ("a",), "text": ("b",), "rating": ("c",),
    "sentence_ids": ("e",), "review_version": ("c",)}  # fmt: skip
OFTEN: dict[str, tuple[Any, ...]] = {
    "a": ("B00X", 3, 81.0, "42", "AQ=="),
    "b": ("Good.", "Is it?", r"a\nb", "x", None),
    "c": (1, 4.5, "4.5", "n/a", TIME, 7, 1_763_640_000_000),
    "e": (["r#0"], [{"x": "B0", "y": 3}, {"x": None, "y": "Good."}], []),
}
"""Values of members in most records, so that many of them have events; `USUAL`: who reads them."""
NEEDED = {
    "review.upserted": ("entity_id", "review_id", "text"),
    "review.deleted": ("entity_id", "review_id"),
    "sentences.deleted": ("entity_id", "sentence_ids"),
    "entity.deleted": ("entity_id",),
}
MORE = {
    "review.upserted": (
        *("review_version", "rating", "language", "occurred_at", "verified", "country"),
        "author_id",
    ),
    "review.deleted": ("review_version", "reason", "occurred_at"),
    "sentences.deleted": ("occurred_at",),
    "entity.deleted": ("occurred_at",),
}
TEXTS = ("entity_id", "review_id", "author_id", "text", "language", "country", "reason")


class Files:
    """Random files and records."""

    def __init__(self, seed: bytes) -> None:
        self.random = Random(seed)
        self.reads_ce = self.chance(0.15)
        self._in_items = False

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def topic(self) -> dict[str, Any]:
        """The table of a topic."""
        table: dict[str, Any] = {"key": "json"} if self.chance(0.4) else {}
        if self.chance(0.2):
            table["unwrap"] = "payload"
        if self.chance(0.1):
            table["parse"] = self.random.sample(["a", "b", "a.x", "value"], 2)
        if self.chance(0.3):
            own = {"emit": "review.deleted", "entity_id": "key", "review_id": "header:h"}
            choice = ["ignore", "entity.deleted", {"entity_id": "key.x"}, own]
            table["tombstone"] = self.random.choice(choice)
        table["rule"] = [self.rule() for _ in range(self.random.randint(1, 3))]
        if self.chance(0.6):
            for name in ("when", "when_present"):
                table["rule"][-1].pop(name, None)
        return table

    def rule(self) -> dict[str, Any]:
        rule: dict[str, Any] = {}
        if self.chance(0.2) and not self.reads_ce:
            rule["each"], self._in_items = self.random.choice(("e", "e", "e", "a", "b.y")), True
        if self.chance(0.8):
            paths = self.random.sample(NAMES, 2)
            rule["when"] = {path: self.condition() for path in paths[: self.random.randint(1, 2)]}
        if self.reads_ce and self.chance(0.7):
            rule["when"] = {"ce.type": self.random.choice(("a", ["a", "b"]))}
        if self.chance(0.3):
            rule["when_present"] = [self.path()]
        if self.chance(0.2):
            rule["event"] = [self.event() for _ in range(self.random.randint(1, 3))]
        else:
            rule |= self.event()
        self._in_items = False
        return rule

    def condition(self) -> Any:
        known = [value for value in SCALARS if value is not None and value != 2**63]
        if self.chance(0.2):
            return {"differs": self.path()}
        return self.random.choice(known) if self.chance(0.2) else self.random.sample(known, 20)

    def path(self, field: str = "") -> str:
        if field in USUAL and self.chance(0.7):
            return self.random.choice(USUAL[field])
        if self._in_items and self.chance(0.5):
            return self.random.choice(("item.x", "item.y", "item"))
        if self.reads_ce and self.chance(0.3):
            return self.random.choice(("ce.subject", "ce.time", "ce.type"))
        return self.random.choice(PATHS)

    def event(self) -> dict[str, Any]:
        kind = self.random.choice((*NEEDED, "review.upserted", "review.upserted"))
        more = MORE[kind]
        names = (*NEEDED[kind], *self.random.sample(more, self.random.randint(0, len(more))))
        return {"emit": kind, **{name: self.value(name) for name in names}}

    def value(self, name: str, *, is_part: bool = False) -> Any:
        """An expression of a field."""
        number = self.random.random()
        if number < 0.55 or name == "sentence_ids":
            return self.path(name)
        if number < 0.6 and not is_part:
            return [self.value(name, is_part=True) for _ in range(self.random.randint(1, 3))]
        if number < 0.75 and name in TEXTS:
            parts = [self.path(name) for _ in range(self.random.randint(1, 3))]
            parts += [{"const": "Fine."}] if self.chance(0.3) and name == "text" else []
            return {"join": parts, "with": self.random.choice((" ", ". ", "-", ""))}
        if number < 0.8 and name in ("language", "country"):
            return {"const": "nl"}
        return {**self.at_path(name)}

    def at_path(self, name: str) -> dict[str, Any]:
        """A path with how its value is written, or a part of the record."""
        path: dict[str, Any] = {"path": self.path(name)}
        forms: list[dict[str, Any]] = [path]
        if name in ("occurred_at", "review_version"):
            forms.append({**path, "epoch": self.random.choice(("d", "s", "ms", "us"))})
            forms.append({**path, "format": "%d.%m.%Y %H:%M"})
            forms.append({"record": "timestamp"})
        if name in ("entity_id", "review_id", "author_id", "review_version", "rating"):
            forms.append(path)
            forms.append({**path, "decimal": self.random.randint(0, 2)})
            forms.append({**path, "decimal": 1, "bytes": "base64"})
        if name == "review_version":
            forms += [{"record": "offset"}, {"parts": [self.path(), self.path()]}]
        found = {**self.random.choice(forms)}
        if name == "review_version" and self.chance(0.3):
            found["add"] = 1000
        if name == "rating" and self.chance(0.5):
            found["scale"] = [0, 10]
        if name == "text" and self.chance(0.5):
            found["unescape"] = True
        return found

    # -- records

    def source(self) -> page.Source:
        headers = {name: "h" for name in ("h", "i") if self.chance(0.4)}
        value = None if self.chance(0.05) else self.object()
        if self.reads_ce and self.chance(0.7):
            ce = {"specversion": "1.0", "type": self.random.choice("ab"), "subject": "S"}
            ce |= {"time": TIME} if self.chance(0.5) else {}
            if self.chance(0.5):
                headers |= {f"ce_{name}": text for name, text in ce.items()}
            else:
                value = ce | ({"data": value} if self.chance(0.8) else {})
        elif self.chance(0.2):
            value = {"payload": value}
        key = self.random.choice((None, "K", "3", '"K"', '{"x": 7}', '{"payload": {"x": "P"}}'))
        offset = self.random.randint(0, 2**40)
        return page.Source(key, value, headers, offset, self.random.choice((-1, 1763640000000)))

    def object(self) -> dict[str, Any]:
        found = {name: self.member(2) for name in NAMES if self.chance(0.85)}
        usual = {name: self.random.choice(values) for name, values in OFTEN.items()}
        return found | (usual if self.chance(0.7) else {})

    def member(self, depth: int) -> Any:
        if depth and self.chance(0.15):
            return [self.member(depth - 1) for _ in range(self.random.randint(0, 3))]
        if depth and self.chance(0.2):
            return {name: self.member(depth - 1) for name in ("x", "y") if self.chance(0.8)}
        if self.chance(0.05):
            return {"scale": 1, "value": "Sw=="}
        return self.random.choice(SCALARS)


def toml(value: Any) -> str:
    """A value of TOML."""
    if isinstance(value, dict):
        parts = (f"{json.dumps(name)} = {toml(member)}" for name, member in value.items())
        return f"{{ {', '.join(parts)} }}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def law(seed: bytes, records: int = RECORDS) -> Counter[str]:
    """The outcomes of some records by the random file of a seed. Raises AssertionError for one that
    the page does not give.
    """
    files, outcomes = Files(seed), Counter[str]()
    topic = files.topic()
    with TemporaryDirectory() as folder:
        file = Path(folder, "mapping.toml")
        file.write_text(f"topic = {{ t = {toml(topic)} }}\n")
        try:
            rules = load_mapping(file)["t"]
        except FileErrors as error:
            if refusals := [line for line in error.lines if "never applies" not in line]:
                raise AssertionError(refusals) from error
            return Counter(["refused file"])
    writer = ContractWriter(rules, "events", lambda _: 0, "dlq", 10**6, LIMITS)
    for _ in range(records):
        source = files.source()
        value = None if source.value is None else json.dumps(source.value).encode()
        headers = tuple((name, text.encode()) for name, text in source.headers.items())
        key = None if source.key is None else source.key.encode()
        record = Record("t", 0, source.offset, source.timestamp, key, value, headers)
        messages = writer.write([record]).messages
        found = [
            _known(decode(message.value or b""))
            for message in messages
            if message.topic == "events"
        ]
        why = [
            dict(message.headers)["dlq.detail"].decode()
            for message in messages
            if message.topic == "dlq"
        ]
        assert "internal_error" not in str([message.headers for message in messages])
        try:
            expected = [_known(body) for body in page.events(topic, source)]
        except page.DeadLetter as error:
            expected, outcome = [], f"dead letter: {error}"
            assert why, (topic, source, "an event where the page gives", outcome, found)
        else:
            assert not why, (topic, source, expected, "was refused:", why)
        assert found == expected, (topic, source, "written", found, "by the page", expected)
        outcomes["dead letter" if why else "events" if found else "ignored"] += 1
    return outcomes


def _known(body: Any) -> dict[str, Any]:
    """The members of an event, its time as an instant in milliseconds."""
    members: dict[str, Any] = msgspec.to_builtins(body)
    if time := members.get("occurred_at"):
        members["occurred_at"] = re.sub(r"(\.[0-9]{0,3})[0-9]*", r"\1", time).replace(".000", "")
    return {name: value for name, value in members.items() if value is not None}


if __name__ == "__main__":
    total: Counter[str] = Counter()
    for number in range(*map(int, sys.argv[1:3])):
        try:
            total += law(b"%d" % number)
        except AssertionError as error:
            print(number, error)
            total["failure"] += 1
    print(dict(total))
