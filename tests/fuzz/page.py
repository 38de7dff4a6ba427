"""What docs/connect.md says that a mapping file means, read again without `worker.mapping`: a file
as a dict, and a record, to the events of the contract.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from worker.events.bare import to_boolean
from worker.events.dates import microseconds, to_timestamp
from worker.events.json_codec import decode
from worker.events.reasons import BadEvent

OPTIONAL = ("rating", "occurred_at", "language", "verified", "country", "author_id", "reason")
IDS = ("entity_id", "review_id", "author_id")
UNITS = {"d": 86_400_000_000, "s": 1_000_000, "ms": 1000, "us": 1}
START = datetime(1970, 1, 1, tzinfo=UTC)


class DeadLetter(Exception):
    """The record, or one of its values, cannot be read."""


class Source(NamedTuple):
    """A record of the topic; key and headers are texts."""

    key: str | None
    value: Any
    headers: dict[str, str]
    offset: int
    timestamp: int


class At(NamedTuple):
    """Where paths begin. `key` is read only where a path does."""

    value: Any
    key: Callable[[], Any]
    ce: Any
    headers: dict[str, str]
    item: Any
    source: Source


def events(topic: dict[str, Any], source: Source) -> list[Any]:
    """The events of a record, none if it is ignored. Raises DeadLetter."""
    at = _begin(topic, source)
    if any(_reads("key", path, rule) for rule in topic["rule"] for path in _asked(rule)):
        at.key()
    if at.value is None and not at.ce:
        return _of_tombstone(topic, at)
    for rule in topic["rule"]:
        is_each = "each" in rule
        on_items = [path for path in _asked(rule) if is_each and _reads("item", path, rule)]
        present = [path for path in rule.get("when_present", []) if path.split(".")[0] != "item"]
        if all(_get(path, at) is not None for path in present) and all(
            _holds(rule, path, at) for path in _asked(rule) if path not in on_items
        ):
            if '"key' in json.dumps(list(rule.values())):
                at.key()
            return [_checked(event) for event in _of_rule(rule, on_items, at)]
    raise DeadLetter("no rule applies")


def _begin(topic: dict[str, Any], source: Source) -> At:
    value, ce = source.value, {}
    if '"ce.' in json.dumps(topic["rule"]):
        headers = {name[3:]: text for name, text in source.headers.items() if name[:3] == "ce_"}
        if "specversion" in headers:
            ce = headers
        elif isinstance(value, dict) and "specversion" in value:
            ce, value = value, value.get("data")
    value = _unwrapped(topic, value)
    for path in topic.get("parse", []):
        value = _parsed(value, [] if path == "value" else path.split("."))

    def key() -> Any:
        if source.key is None or topic.get("key", "plain") == "plain":
            return source.key
        with suppress(ValueError):
            return _unwrapped(topic, json.loads(source.key))
        raise DeadLetter("the key is no JSON")

    return At(value, key, ce, source.headers, None, source)


def _unwrapped(topic: dict[str, Any], value: Any) -> Any:
    name = topic.get("unwrap")
    return value[name] if name and isinstance(value, dict) and name in value else value


def _parsed(value: Any, names: list[str]) -> Any:
    found = _below(value, names)
    if not isinstance(found, str):
        return value
    try:
        parsed = json.loads(found)
    except ValueError:
        raise DeadLetter("a text is no JSON") from None
    return _with(value, names, parsed) if names else parsed


def _with(node: Any, names: list[str], value: Any) -> Any:
    place: Any = int(names[0]) if isinstance(node, list) else names[0]
    copy = node.copy()
    copy[place] = _with(node[place], names[1:], value) if len(names) > 1 else value
    return copy


def _of_tombstone(topic: dict[str, Any], at: At) -> list[Any]:
    made = [e for rule in topic["rule"] for e in rule.get("event", [rule]) if e["emit"] != "ignore"]
    are_keys = bool(made) and all(e["entity_id"] in ("key", {"path": "key"}) for e in made)
    given = topic.get("tombstone", "ignore" if "unwrap" in topic else None)
    if given is None and not are_keys:
        raise DeadLetter("a null value has no meaning")
    if given == "ignore":
        return []
    deletion = {"emit": "entity.deleted", "entity_id": "key"}
    return [_checked(_event(deletion | (given if isinstance(given, dict) else {}), at))]


# -- rules


def _asked(rule: dict[str, Any]) -> list[str]:
    return [*rule.get("when", {}), *rule.get("when_present", [])]


def _reads(root: str, path: str, rule: dict[str, Any]) -> bool:
    """True if a condition reads what is below a root."""
    wanted = rule.get("when", {}).get(path)
    paths = [path, wanted["differs"]] if isinstance(wanted, dict) else [path]
    return any(path.split(".")[0] == root for path in paths)


def _holds(rule: dict[str, Any], path: str, at: At) -> bool:
    value = _get(path, at)
    if path in rule.get("when_present", []) and value is None:
        return False
    if path not in rule.get("when", {}):
        return True
    wanted = rule["when"][path]
    if isinstance(wanted, dict):
        other = _get(wanted["differs"], at)
        return None not in (value, other) and not _same(value, other)
    return any(
        _same(value, allowed) for allowed in (wanted if isinstance(wanted, list) else [wanted])
    )


def _same(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _of_rule(rule: dict[str, Any], on_items: list[str], at: At) -> Iterator[dict[str, Any]]:
    given = [one for one in rule.get("event", [rule]) if one["emit"] != "ignore"]
    items: list[Any] = [None]
    if "each" in rule:
        items = _get(rule["each"], at)
        if items is None and _exists(rule["each"], at):
            items = []
        if not isinstance(items, list):
            raise DeadLetter("there is no list")
    for item in items:
        here = at._replace(item=item)
        if all(_holds(rule, path, here) for path in on_items):
            yield from (_event(event, here) for event in given)


def _event(given: dict[str, Any], at: At) -> dict[str, Any]:
    others = ("name", "when", "when_present", "each", "emit", "event")
    event: dict[str, Any] = {"type": given["emit"]}
    for field, expression in given.items():
        if field in others:
            continue
        try:
            value = _value(field, expression, at)
        except DeadLetter:
            if field not in OPTIONAL:
                raise
            continue
        if value is not None:
            event[field] = value
    if given["emit"] == "review.upserted" and "text" not in event:
        is_there = any(_exists(path, at) for path in _paths(given["text"]))
        if "rating" not in event and not is_there:
            raise DeadLetter("there is no text, not even null")
        event["text"] = None
    return event


def _checked(event: dict[str, Any]) -> Any:
    try:
        return decode(json.dumps(event).encode())
    except BadEvent as error:
        raise DeadLetter(str(error.rejected.detail)) from None


# -- paths


def _get(path: str, at: At) -> Any:
    return _below(*_root(path, at))


def _exists(path: str, at: At) -> bool:
    node, names = _root(path, at)
    if path.startswith("header:"):
        return names[0] in at.headers
    above = _below(node, names[:-1])
    if isinstance(above, list):
        return names[-1].isdigit() and int(names[-1]) < len(above)
    return not names or (isinstance(above, dict) and names[-1] in above)


def _root(path: str, at: At) -> tuple[Any, list[str]]:
    if path.startswith("header:"):
        return at.headers, [path.removeprefix("header:")]
    root, *names = path.split(".")
    if root == "key":
        return at.key(), names
    if root in ("ce", "item"):
        return getattr(at, root), names
    return at.value, [root, *names]


def _below(node: Any, names: list[str]) -> Any:
    for name in names:
        if isinstance(node, list):
            node = node[int(name)] if name.isdigit() and int(name) < len(node) else None
        else:
            node = node.get(name) if isinstance(node, dict) else None
    return node


def _paths(expression: Any) -> list[str]:
    if isinstance(expression, str):
        return [expression]
    if isinstance(expression, list):
        return [path for part in expression for path in _paths(part)]
    return _paths(expression.get("join", expression.get("path", [])))


# -- values


def _value(field: str, given: Any, at: At) -> Any:
    """The value of a field; None without one. Raises DeadLetter."""
    if isinstance(given, str):
        return _taken(field, _get(given, at), {})
    if isinstance(given, list):
        return _first(field, given, at)
    if "const" in given:
        return _taken(field, given["const"], {})
    if "join" in given:
        return _joined(field, given, at)
    value: Any
    if "record" in given:
        value, unit = at.source.offset, {}
        if given["record"] == "timestamp":
            value = at.source.timestamp if at.source.timestamp >= 0 else None
            unit = {"epoch": "ms"}
        value = _taken(field, value, unit)
    elif "parts" in given:
        value = _of_parts(*(_get(path, at) for path in given["parts"]))
    else:
        value = _taken(field, _get(given["path"], at), given)
    if "add" in given and type(value) is int:
        value += given["add"]
    if "scale" in given and value is not None:
        low, high = given["scale"]
        if not low <= value <= high:
            raise DeadLetter("a rating outside of its scale")
        value = 1 + 4 * (value - low) / (high - low)
    if given.get("unescape") and isinstance(value, str):
        signs = {"n": "\n", "r": "\r", "t": "\t"}
        value = re.sub(r'\\([nrt"\\])', lambda found: signs.get(found[1], found[1]), value)
    return value


def _first(field: str, given: list[Any], at: At) -> Any:
    unread: DeadLetter | None = None
    for part in given:
        try:
            value = _value(field, part, at)
        except DeadLetter as error:
            unread = unread or error
            continue
        if value is not None and not _is_blank(value):
            return value
    if unread is not None:
        raise unread
    return None


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _joined(field: str, given: dict[str, Any], at: At) -> str | None:
    texts, has_own, between = [], False, given.get("with", " ")
    for part in given["join"]:
        value = _value("const", part, at) if isinstance(part, dict) else _get(part, at)
        if value is None and field in IDS:
            return None
        for item in value if isinstance(value, list) else [value]:
            if item is None and field in IDS:
                return None
            text = "" if item is None else _as_text(item)
            if text.strip() or field in IDS:
                texts.append(text)
                has_own = has_own or isinstance(part, str)
    if not has_own:
        return None
    found = texts[0]
    for before, text in pairwise(texts):
        is_end = before.rstrip().endswith((".", "!", "?")) and field not in IDS
        found += (between.removeprefix(".") if is_end else between) + text
    return found


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if (whole := _whole(value)) is None:
        raise DeadLetter("a part that is no text")
    return str(whole)


def _whole(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and value == int(value) else None


def _taken(field: str, value: Any, how: dict[str, Any]) -> Any:
    """A value as its field takes it."""
    if "decimal" in how:
        value = _decimal(value, how)
    if value is None or (field in OPTIONAL and _is_blank(value)):
        return None
    if "epoch" in how:
        return _since(field, value, UNITS[how["epoch"]])
    if "format" in how:
        time = to_timestamp(value, how["format"]) if isinstance(value, str) else None
        if time is None:
            raise DeadLetter("a date in another form")
        return microseconds(time) if field == "review_version" else time
    if field in ("language", "country", "reason", "text") and not isinstance(value, str):
        raise DeadLetter("no text")
    if field in IDS and not isinstance(value, str):
        if (whole := _whole(value)) is None:
            raise DeadLetter("no id")
        return str(whole)
    takers = {"rating": _rating, "verified": _verified, "occurred_at": _date}
    takers["review_version"] = _version
    return takers[field](value) if field in takers else value


def _rating(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DeadLetter("no rating")
    return value


def _verified(value: Any) -> Any:
    if (found := to_boolean(value)) is None:
        raise DeadLetter("neither yes nor no")
    return found


def _date(value: Any) -> str:
    is_date = isinstance(value, str) and not re.fullmatch(r"[0-9.]*", value)
    if not is_date or (time := to_timestamp(value)) is None:
        raise DeadLetter("no date with one meaning")
    return time


def _version(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch("-?[0-9]+", value):
        value = int(value)
    if isinstance(value, int) and value >= 2**63:
        raise DeadLetter("larger than a version")
    with suppress(DeadLetter):
        return microseconds(_date(value))
    return value


def _since(field: str, value: Any, unit: int) -> Any:
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DeadLetter("no number")
    number = round(value * unit)
    if field == "review_version":
        return number
    try:
        time = START + timedelta(microseconds=number)
    except OverflowError:
        raise DeadLetter("no date") from None
    return time.isoformat().replace("+00:00", "Z")


def _decimal(value: Any, how: dict[str, Any]) -> Any:
    scale = how["decimal"]
    if isinstance(value, dict):
        value, scale = value.get("value"), value.get("scale")
        if not isinstance(value, str) or not isinstance(scale, int):
            raise DeadLetter("no decimal")
    if not isinstance(value, str) or value == "":
        return value or None if isinstance(value, str) else value
    if re.fullmatch(r"\+?[0-9]+(\.[0-9]*)?", value) and "bytes" not in how:
        raise DeadLetter("a number, or base64")
    try:
        raw = base64.b64decode(value, validate=True)
    except ValueError:
        raise DeadLetter("no base64") from None
    number = int.from_bytes(raw, "big", signed=True)
    whole, rest = divmod(number, 10**scale)
    return number / 10**scale if rest else whole


def _of_parts(file: Any, position: Any) -> int | None:
    if file is None or position is None:
        return None
    numbers = []
    for value in (file, position):
        found = re.search(r"(?<![0-9])[0-9]{1,10}$", value) if isinstance(value, str) else None
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if found is None and not is_number:
            raise DeadLetter("no place in a log")
        numbers.append(int(found[0]) if found else value)
    if numbers[0] >= 2**31 or numbers[1] >= 2**32:
        raise DeadLetter("too large a place")
    return numbers[0] << 32 | numbers[1]
