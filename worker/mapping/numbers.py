"""Numbers as sources write them: times since 1970, decimals without a point, places in a log."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from worker.events.reasons import BadEvent, Reason, shown
from worker.mapping.paths import UNAVAILABLE, Get, Path, Roots, getter, unavailable

Take = Callable[[Any], Any]
"""A value that is not null, as its field wants it. Raises BadEvent."""

EPOCHS: Final = {"d": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}
"""Microseconds of each unit of a time since 1970."""
BY_SCHEMA: Final = "schema"
"""The scale of a decimal is the one that the record's schema says."""
BASE64: Final = "base64"
_PLAIN: Final = re.compile(r"[+]?[0-9]+(?:\.[0-9]*)?", re.ASCII)
MAX_SCALE: Final = 100
"""Most digits after the point of a decimal."""
_MAX_DECIMAL_BYTES: Final = 64
_EXACT: Final = 2**53
"""Below it a float is one whole number."""

_START: Final = date(1970, 1, 1)
_MINUTES: Final = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(24 * 60)]
INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_LAST_NUMBER: Final = re.compile(r"(?:^|[^0-9])([0-9]{1,10})$", re.ASCII)


def of_epoch(unit: str, field: str = "occurred_at") -> Take:
    """A number since 1970 as RFC 3339, or for a version as microseconds."""
    factor = EPOCHS[unit]
    is_fine = unit in ("us", "ns")

    def since(value: Any) -> int:
        number = int(value) if type(value) is str and INTEGER.fullmatch(value) else value
        if type(number) is int:
            return number // 1000 if unit == "ns" else number * int(factor)
        if type(number) is float and isfinite(microseconds := number * factor):
            return round(microseconds)
        raise bad(f"{field}: not a number of {unit} since 1970")

    def take(value: Any) -> str:
        seconds, rest = divmod(since(value), 1_000_000)
        days, second = divmod(seconds, 86_400)
        try:
            time = f"{_day(days)}T{_MINUTES[second // 60]}:{second % 60:02}"
        except OverflowError:
            raise bad(f"{field}: {short(value)} {unit} since 1970 is not a date") from None
        if not rest:
            return f"{time}Z"
        return f"{time}.{rest:06}Z" if is_fine else f"{time}.{rest // 1000:03}Z"

    return take if field == "occurred_at" else since


@lru_cache(10_000)
def _day(days: int) -> str:
    """The day so many days after 1970-01-01: most events are of few days."""
    return (_START + timedelta(days=days)).isoformat()


def decimal(field: str, get: Get, path: Path, scale: int | None, is_base64: bool) -> Get:
    """A number from the bytes of an integer without its point, also in base64; with scale None as
    the record's schema says. `{scale, value}`, as of Avro and of Connect, says its own.

    A text of digits may be a number as well as base64: it is refused unless `is_base64` or the
    schema decides. An empty text is null.
    """

    def number(roots: Roots) -> Any:
        value = get(roots)
        if type(value) is dict:
            return _unscaled(field, value.get("value"), value.get("scale"))
        if type(value) not in (str, bytes):
            return value
        if type(value) is str and value == UNAVAILABLE:
            unavailable(field)
        if scale is not None:
            if type(value) is str and _PLAIN.fullmatch(value) and not is_base64:
                raise bad(
                    f"{field}: {short(value)} looks like a number, not like base64: leave decimal "
                    f'out, or set bytes = "{BASE64}" if it is base64'
                )
            return _unscaled(field, value, scale)
        kind = _schema_at(roots.schemas.get(path.root), path.names)
        if kind is None:
            raise bad(f"{field}: the record has no schema of {path.text}: set decimal to its scale")
        parameters = kind.get("parameters")
        found = parameters.get("scale") if type(parameters) is dict else None
        return value if found is None else _unscaled(field, value, found)

    return number


def _schema_at(schema: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """A Kafka Connect schema's description of a member."""
    for name in names:
        fields = schema.get("fields") if type(schema) is dict else None
        if type(fields) is not list:
            return None
        found = (field for field in fields if type(field) is dict and field.get("field") == name)
        schema = next(found, None)
    return schema if type(schema) is dict else None


def _unscaled(field: str, value: Any, scale: Any) -> Any:
    try:
        raw = value if type(value) is bytes else base64.b64decode(value, validate=True)
        places = int(scale)
    except (TypeError, ValueError, OverflowError):  # binascii.Error is one; an infinite scale
        raise bad(f"{field}: {short(value)} is not a decimal in base64") from None
    if value == "":
        return None
    if len(raw) > _MAX_DECIMAL_BYTES or abs(places) > MAX_SCALE:
        raise bad(f"{field}: a decimal of {len(raw)} bytes and scale {places} is too large")
    return _number(int.from_bytes(raw, "big", signed=True), places)


def _number(unscaled: int, places: int) -> Any:
    """Exact if it is whole, else the nearest float."""
    if places <= 0:
        return unscaled * 10**-places
    whole, rest = divmod(unscaled, 10**places)
    return unscaled / 10**places if rest else whole


def rescaled(low: float, high: float) -> Take:
    """A rating from `low` to `high` as one from 1 to 5."""

    def take(value: Any) -> Any:
        if type(value) not in (int, float):
            return value  # the event's own rules refuse it
        if not low <= value <= high:
            raise bad(f"rating: {short(value)} is outside of scale = [{low:g}, {high:g}]")
        return 1 + 4 * (value - low) / (high - low)

    return take


def added(number: int) -> Take:
    """A version with a number added: greater than all of an earlier database."""
    return lambda value: value + number if type(value) is int else value


def of_parts(file: Path, position: Path) -> Get:
    """A version of a log's file and the position in it: MySQL's begins again with each file."""
    get_file, get_position = getter(file), getter(position)

    def get(roots: Roots) -> int | None:
        values = get_file(roots), get_position(roots)
        if None in values:
            return None
        high, low = (_last_number(value) for value in values)
        if high >= 2**31 or low >= 2**32:
            raise bad(f"review_version: the parts {high} and {low} are too large for one number")
        return high << 32 | low

    return get


def _last_number(value: Any) -> int:
    """The number at the end of a log's name, or the number itself."""
    if type(value) is int and value >= 0:
        return value
    if type(value) is str and (found := _LAST_NUMBER.search(value)):
        return int(found[1])
    raise bad(f"review_version: {short(value)} does not end with a number")


def whole(value: Any) -> Any:
    """A whole float as an integer: sources whose numbers are all floats write 81.0."""
    is_whole = type(value) is float and value.is_integer() and abs(value) < _EXACT
    return int(value) if is_whole else value


def short(value: Any) -> str:
    """A value for a detail."""
    return shown(str(value).encode(errors="replace"))


def bad(detail: str) -> BadEvent:
    """The rejection of a field's value."""
    return BadEvent(Reason.BAD_FIELD, detail)
