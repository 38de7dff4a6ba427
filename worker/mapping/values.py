"""The values of an event's fields, as closures over a record.

An expression is a path, a list of expressions (the first that is not null), `{ const = ... }`,
`{ join = [...], with = " " }`, or `{ path = "...", epoch = "ms" }` for a time. The field decides
what becomes of the value: numbers become ids, texts become numbers and times, where that has one
meaning. Every other value is left to the event's own rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

from worker.events.dates import to_timestamp
from worker.events.reasons import BadEvent, Reason, shown
from worker.mapping.paths import Get, Path, Roots, getter

Take = Callable[[Any], Any]
"""A value that is not null, as its field wants it. Raises BadEvent."""

EPOCHS: Final = {"d": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}
"""Microseconds of each unit of a time since 1970."""
UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Debezium's placeholder for a large column that an update did not change."""

_START: Final = date(1970, 1, 1)
_MINUTES: Final = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(24 * 60)]
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,300}(?:\.[0-9]{1,300})?", re.ASCII)


class Expression(NamedTuple):
    """A checked expression: its closure, and all paths that it reads."""

    get: Get
    paths: tuple[Path, ...]


def of_path(path: Path, take: Take | None) -> Expression:
    """The value at a path."""
    get = getter(path)
    if take is None:
        return Expression(get, (path,))

    def taken(roots: Roots) -> Any:
        value = get(roots)
        return None if value is None else take(value)

    return Expression(taken, (path,))


def first_of(parts: Sequence[Expression]) -> Expression:
    """The first of several values that is not null."""
    gets = [part.get for part in parts]

    def get(roots: Roots) -> Any:
        for one in gets:
            value = one(roots)
            if value is not None:
                return value
        return None

    return Expression(get, _paths(parts))


def const(value: Any) -> Expression:
    """The same value for every record."""
    return Expression(lambda _: value, ())


def join(field: str, parts: Sequence[Expression], between: str) -> Expression:
    """Texts joined. Of an id no part may be null, else it is null; of other fields null parts and
    blank ones are left out. The parts are texts by `of_text`.
    """
    gets = [part.get for part in parts]

    def whole(roots: Roots) -> str | None:
        texts = [one(roots) for one in gets]
        return None if None in texts else between.join(texts)

    def get(roots: Roots) -> str | None:
        texts = []
        for one in gets:
            text = one(roots)
            if text and not text.isspace():
                texts.append(text)
        return between.join(texts) if texts else None

    return Expression(whole if field in IDS else get, _paths(parts))


def _paths(parts: Sequence[Expression]) -> tuple[Path, ...]:
    return tuple(path for part in parts for path in part.paths)


# -- what a field takes

IDS: Final = ("entity_id", "review_id")


def taker(field: str) -> Take | None:
    """How values become this field's; None: as they are."""
    if field in IDS:
        return _integer_as_text
    return {
        "review_version": _version,
        "rating": _rating,
        "occurred_at": _time,
        "text": _available,
    }.get(field)


def of_text(field: str) -> Take:
    """A part of a joined text."""

    def take(value: Any) -> str:
        if type(value) is str:
            return value if value != UNAVAILABLE else _unavailable()
        if type(value) is not int:
            raise _bad(f"{field}: a part is neither a text nor a whole number")
        return str(value)

    return take


def of_epoch(unit: str) -> Take:
    """A number since 1970 as RFC 3339."""
    factor = EPOCHS[unit]
    is_fine = unit in ("us", "ns")

    def take(value: Any) -> str:
        number = int(value) if type(value) is str and _INTEGER.fullmatch(value) else value
        if type(number) is int:
            microseconds = number // 1000 if unit == "ns" else number * int(factor)
        elif type(number) is float:
            microseconds = round(number * factor)
        else:
            raise _bad(f"occurred_at: not a number of {unit} since 1970")
        seconds, rest = divmod(microseconds, 1_000_000)
        days, second = divmod(seconds, 86_400)
        try:
            time = f"{_day(days)}T{_MINUTES[second // 60]}:{second % 60:02}"
        except OverflowError:
            raise _bad(f"occurred_at: {number} {unit} since 1970 is not a date") from None
        if not rest:
            return f"{time}Z"
        return f"{time}.{rest:06}Z" if is_fine else f"{time}.{rest // 1000:03}Z"

    return take


@lru_cache(10_000)
def _day(days: int) -> str:
    """The day so many days after 1970-01-01: most events are of few days."""
    return (_START + timedelta(days=days)).isoformat()


def _integer_as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _version(value: Any) -> Any:
    return int(value) if type(value) is str and _INTEGER.fullmatch(value) else value


def _rating(value: Any) -> Any:
    return float(value) if type(value) is str and _NUMBER.fullmatch(value.strip()) else value


def _time(value: Any) -> Any:
    if type(value) is not str:
        raise _bad('occurred_at: a number needs its unit: { path = "...", epoch = "ms" }')
    time = None if value.replace(".", "").isdecimal() else to_timestamp(value)
    if time is None:
        raise _bad(
            f"occurred_at: {shown(value.encode(errors='replace'))} is not a date with one meaning"
        )
    return time


def _available(value: Any) -> Any:
    return value if value != UNAVAILABLE else _unavailable()


def _unavailable() -> NoReturn:
    raise _bad(
        f"text: the source left out an unchanged column ({UNAVAILABLE}): "
        "set REPLICA IDENTITY FULL on its table"
    )


def _bad(detail: str) -> BadEvent:
    return BadEvent(Reason.BAD_FIELD, detail)
