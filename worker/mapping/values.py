"""The values of an event's fields, as closures over a record.

An expression is a path, a list of expressions (the first that is neither null nor blank),
`{ const = ... }`, `{ join = [...], with = " " }`, or a table that says where a value is (`path`,
`record`, `parts`) and how it is written (`epoch`, `decimal`, `scale`, `add`). The field decides
what becomes of the value: numbers become ids, texts become numbers and times, where that has one
meaning. Every other value is left to the event's own rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from sys import float_info
from typing import Any, Final, NamedTuple

from worker.events.bare import to_boolean, unescaped
from worker.events.dates import formats_of, microseconds, to_timestamp
from worker.events.fields import MAX_VERSION
from worker.events.reasons import BadEvent
from worker.mapping.numbers import INTEGER, Take, bad, of_epoch, short, whole
from worker.mapping.paths import UNAVAILABLE, Get, Path, Roots, Unavailable, getter, unavailable

_STOPS: Final = tuple(".!?…。！？؟۔।")
_AFTER_END: Final = " \t\r\n\"'”’»」』)）"  # blanks and closing quotation marks
_NOT_TEXTS: Final = ("sentences", "sentence_ids")
HEX: Final = "hex"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,300}(?:\.[0-9]{1,300})?", re.ASCII)


class Expression(NamedTuple):
    """A checked expression: its closure, all paths that it reads, and those that are parts of a
    joined text: each of these should lead to something in some record. `is_path`: nothing is made
    of what is there.
    """

    get: Get
    paths: tuple[Path, ...]
    joined: tuple[Path, ...] = ()
    is_path: bool = False


def piped(get: Get, paths: Sequence[Path], takes: Sequence[Take]) -> Expression:
    """A value on its way through several steps; null passes them all. Raises Unavailable for what
    Debezium left out.
    """

    def through(roots: Roots) -> Any:
        value = get(roots)
        if value == UNAVAILABLE:
            unavailable(paths[0].text)
        for take in takes:
            if value is not None:
                value = take(value)
        return value

    return Expression(through, tuple(paths))


def of_path(path: Path, take: Take | None) -> Expression:
    """The value at a path."""
    return piped(getter(path), (path,), (take,) if take else ())._replace(is_path=True)


def first_of(parts: Sequence[Expression]) -> Expression:
    """The first of several values that can be read and is neither null nor a blank text. If there
    is none, the first one that cannot be read is the error.
    """
    gets = [part.get for part in parts]

    def get(roots: Roots) -> Any:
        unread: BadEvent | None = None
        for get in gets:
            try:
                value = get(roots)
            except Unavailable:
                raise
            except BadEvent as error:
                unread = unread or error
                continue
            if value is not None and not (type(value) is str and _is_blank(value)):
                return value
        if unread is not None:
            raise unread
        return None

    return Expression(get, _paths(parts))


def const(value: Any) -> Expression:
    """The same value for every record."""
    return Expression(lambda _: value, ())


def join(field: str, parts: Sequence[Expression], between: str) -> Expression:
    """Texts joined, and the texts of lists. Of an id no part may be null, else it is null; of other
    fields null parts and blank ones are left out, constants alone are no text, and no full stop
    follows a part that ends a sentence. The parts are texts by `of_text`.
    """
    whole = field in IDS
    after_end = between if whole else between.lstrip(".。")
    gets = [(part.get, bool(part.paths)) for part in parts]
    has_paths = any(reads for _, reads in gets)

    def get(roots: Roots) -> str | None:
        texts: list[str] = []
        found = not has_paths
        for value_of, reads in gets:
            text = value_of(roots)
            if text is None and whole:
                return None
            for each in text if type(text) is list else (text,):
                if whole or (each and not each.isspace()):
                    texts.append(each)
                    found = found or reads
        if not (found and texts):
            return None
        ends = [each.rstrip(_AFTER_END).endswith(_STOPS) for each in texts[:-1]]
        gaps = [after_end if is_end else between for is_end in ends]
        return "".join(chain(*zip(texts, [*gaps, ""], strict=True)))

    single = (part.paths[0] for part in parts if len(part.paths) == 1)
    return Expression(get, _paths(parts), tuple(single))


def _paths(parts: Sequence[Expression]) -> tuple[Path, ...]:
    return tuple(path for part in parts for path in part.paths)


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


# -- parts of the record itself

RECORD_PARTS: Final = {"review_version": ("offset", "timestamp"), "occurred_at": ("timestamp",)}
"""By field what `record` may name."""


def of_record(part: str, field: str) -> Get:
    """The record's offset, or its timestamp as a time or as a version."""
    if part == "offset":
        return lambda roots: roots.record.offset
    time = of_epoch("ms", field)

    def get(roots: Roots) -> Any:
        milliseconds = roots.record.timestamp_ms
        return time(milliseconds) if milliseconds >= 0 else None  # a record without one

    return get


# -- what a field takes

IDS: Final = ("entity_id", "review_id", "author_id")
OPTIONAL: Final = frozenset(
    ("rating", "language", "occurred_at", "verified", "country", "author_id", "reason")
)
"""Members that an event goes without if they are blank or cannot be read."""


def taker(field: str) -> Take:
    """The conversion of values for this field. A blank text is null for an optional one."""
    takers: dict[str, Take] = {
        "review_version": _version,
        "rating": _rating,
        "occurred_at": _time,
        "verified": _verified,
    }
    return unless_blank(takers.get(field) or _available(field), field)


def unless_blank(take: Take, field: str) -> Take:
    """The conversion, with null for a blank text of an optional field."""
    if field not in OPTIONAL:
        return take

    def taken(value: Any) -> Any:
        return None if type(value) is str and _is_blank(value) else take(value)

    return taken


def of_escaped(value: Any) -> Any:
    """A text, or those of a list, with the line breaks that a backslash and an n stand for."""
    if type(value) is list:
        return [of_escaped(member) for member in value]
    return unescaped(value) if type(value) is str else value


def of_text(field: str) -> Take:
    """A part of a joined text, or of a list the parts."""
    available = _available(field)

    def take(value: Any) -> str | list[str]:
        if type(value) is str:
            text: str = available(value)
            return text
        if type(value) is list and list not in map(type, value):
            given = value if field in IDS else [member for member in value if member is not None]
            return [str(take(member)) for member in given]
        if type(value := whole(value)) is not int:
            raise bad(f"{field}: a part is neither a text nor a whole number")
        return str(value)

    return take


def _id(field: str) -> Take:
    def take(value: Any) -> Any:
        if type(value := whole(value)) is int:
            return str(value)
        if type(value) is bytes:
            hint = f'set {{ path = "...", bytes = "{HEX}" }}'
            raise bad(f"{field}: {len(value)} bytes that are no text: {hint}")
        return _expected(field, value)

    return take


def of_hex(value: Any) -> Any:
    """Bytes as hexadecimal digits, as an id."""
    return value.hex() if type(value) is bytes else value


def _expected(field: str, value: Any) -> Any:
    """The value, if it is a text. Raises BadEvent."""
    if type(value) is not str:
        raise bad(f"{field}: Expected a text, got {type(value).__name__}")
    return value


def _version(value: Any) -> Any:
    if type(value) is str and INTEGER.fullmatch(value):
        value = int(value)
    is_longer = type(value) is str and value.isascii() and value.isdecimal()
    if is_longer or (type(value) is int and value > MAX_VERSION):
        raise bad(f"review_version: {short(value)} is larger than 2^63-1, a version's largest")
    if type(value) is not str:
        return value
    time = None if value.replace(".", "").isdecimal() else to_timestamp(value)
    return value if time is None else microseconds(time)


def _rating(value: Any) -> Any:
    if type(value) is str and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if type(value) not in (int, float) or not abs(value) <= float_info.max:
        raise bad(f"rating: Expected a number, got {short(value)}")
    return value


def _verified(value: Any) -> Any:
    found = to_boolean(value)
    if found is None:
        raise bad(f"verified: {short(value)} is neither yes nor no")
    return found


def _time(value: Any) -> Any:
    if type(value) is not str:
        raise bad('occurred_at: a number needs its unit: { path = "...", epoch = "ms" }')
    time = None if value.replace(".", "").isdecimal() else to_timestamp(value)
    if time is None:
        formats = " or ".join(f'format = "{form}"' for form in formats_of(value))
        hint = f': set {{ path = "...", {formats} }}' if formats else ""
        raise bad(f"occurred_at: {short(value)} is not a date with one meaning{hint}")
    return time


def of_format(form: str, field: str) -> Take:
    """A date in a form of its own, of which `to_timestamp` tells, as RFC 3339 or as a version."""

    def take(value: Any) -> Any:
        time = to_timestamp(value, form) if type(value) is str else None
        if time is None:
            raise bad(f'{field}: {short(value)} is not a date like "{form}"')
        return time if field == "occurred_at" else microseconds(time)

    return take


def _available(field: str) -> Take:
    """A value that Debezium has not left out, in a list of sentences too."""
    if field in IDS:
        return _id(field)

    def take(value: Any) -> Any:
        if UNAVAILABLE in texts(value):
            unavailable(field)
        return value if field in _NOT_TEXTS else _expected(field, value)

    return take


def texts(value: Any) -> Iterator[str]:
    """The texts in a value; lists of numbers, such as vectors, are passed over."""
    if type(value) is str:
        yield value
    elif type(value) is list and value and type(value[0]) not in (int, float):
        for member in value:
            yield from texts(member)
    elif type(value) is dict:
        for member in value.values():
            yield from texts(member)
