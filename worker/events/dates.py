"""Dates as people and exports write them, as RFC 3339: for bare reviews; events carry only RFC
3339.

Only unambiguous dates are read: `03/04/2019` is March in one country and April in another. A time
without a zone is UTC, a day without a time is its midnight.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from worker.events.fields import is_timestamp

_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"
_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|"
    r"aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY: Final = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? +)?"
_DAY: Final = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>[0-9]{4})"
_TIME: Final = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?: ?(?P<zone>z|utc|gmt|[+-][0-9]{2}(?::?[0-9]{2})?))?"
)
_FORMS: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        # 2019-03-04, 2019/3/4, either with a time
        rf"{_YEAR}(?P<sep>[-/])(?P<number>[0-9]{{1,2}})(?P=sep)(?P<day>[0-9]{{1,2}})"
        rf"(?:(?:t| +){_TIME})?",
        # March 4, 2019
        rf"{_WEEKDAY}{_MONTH} +{_DAY},? +{_YEAR}(?:,? +{_TIME})?",
        # 4 March 2019, 04-Mar-2019, and RFC 2822's Mon, 04 Mar 2019 14:05:06 +0000
        rf"{_WEEKDAY}{_DAY}[ -]+{_MONTH},?[ -]+{_YEAR}(?:,? +{_TIME})?",
    )
)
_DIGITS: Final = re.compile(
    r"[0-9]{1,2}([./-])[0-9]{1,2}\1([0-9]{4}|[0-9]{2})"
    r"(?:(,? +|T)([0-9]{1,2}:[0-9]{2})(:[0-9]{2})?( ?[AaPp][Mm])?)?",
    re.ASCII,
)
_NUMBER: Final = re.compile(r"[0-9]{9,13}(?:\.[0-9]+)?", re.ASCII)

_DAY_MS: Final = 86_400_000
_LATEST_MS: Final = 4_102_444_800_000  # the end of 2099: later dates stand for none, as 9999-12-31
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CALENDAR = timedelta(days=146_097)  # of 400 years, after which it repeats itself
_FIRST_SECOND: Final = 2**62
"""Added to seconds since 1970: those of every year are positive, and of eight bytes."""
_SECONDS: Final = range(10**8, 10**10)
"""Seconds since 1970 of the years 1973 to 2286: lower numbers may be years, days or ids."""
_MILLISECONDS: Final = range(10**11, 10**13)


def to_timestamp(value: object, form: str | None = None) -> str | None:
    """The RFC 3339 timestamp that `value` means, or None if it is ambiguous or none.

    Accepted: RFC 3339 (unchanged), the usual variants of ISO dates and times, English dates with
    the month's name, dates of mail headers (RFC 2822), and numbers (also as text) of seconds or
    milliseconds since 1970. Texts of the form of `datetime.strptime` come first, if there is one.

    >>> to_timestamp("2019-03-04 14:05:06"), to_timestamp("March 4, 2019"), to_timestamp(1551708306)
    ('2019-03-04T14:05:06Z', '2019-03-04T00:00:00Z', '2019-03-04T14:05:06Z')
    >>> to_timestamp("03/04/2019")  # March or April
    >>> to_timestamp("03/04/2019", "%d/%m/%Y")
    '2019-04-03T00:00:00Z'
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _since_1970(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    if form is not None and (found := _of_form(text, form)) is not None:
        return found
    if is_timestamp(text):
        return text
    if _NUMBER.fullmatch(text):
        return _since_1970(float(text))
    for pattern in _FORMS:
        if match := pattern.fullmatch(text):
            return _written(match.groupdict())
    return None


def _of_form(text: str, form: str) -> str | None:
    try:
        moment = datetime.strptime(text, form)
    except ValueError:
        return None
    written = moment.isoformat()
    written = written.replace("+00:00", "Z") if moment.tzinfo else f"{written}Z"
    return written if is_timestamp(written) else None


def is_format(form: Any) -> bool:
    """True if it is a form of `datetime.strptime` with a day, a month and a year."""
    day = datetime(2025, 1, 31, tzinfo=UTC)
    try:
        has_year = "%Y" in form or "%y" in form
        return has_year and datetime.strptime(day.strftime(form), form).date() == day.date()
    except (TypeError, ValueError, re.error):
        return False


def formats_of(text: str) -> list[str]:
    """Forms of `datetime.strptime` in which a date of digits can be meant, the usual one first.

    >>> formats_of("10.01.2025 07:33"), formats_of("13/04/19"), formats_of("soon")
    (['%d.%m.%Y %H:%M'], ['%d/%m/%y'], [])
    """
    found = _DIGITS.fullmatch(text.strip())
    if found is None:
        return []
    by, year, gap, time, seconds, half = found.groups("")
    rest = f"{by}{'%Y' if len(year) == 4 else '%y'}{gap}"
    rest += time and ("%I:%M" if half else "%H:%M")
    rest += (seconds and ":%S") + (half and f"{half[:-2]}%p")
    orders = (f"%d{by}%m", f"%m{by}%d")[: 1 if by == "." else 2]
    return [order + rest for order in orders if _of_form(text.strip(), order + rest)]


def _since_1970(number: int | float) -> str | None:
    """Make a date of seconds or milliseconds, to the millisecond."""
    if _SECONDS.start <= number < _SECONDS.stop:
        milliseconds = round(number * 1000)
    elif _MILLISECONDS.start <= number < _MILLISECONDS.stop:
        milliseconds = round(number)
    else:
        return None
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    precision = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _written(parts: dict[str, str | None]) -> str | None:
    """The date in RFC 3339, if such a day and time exist."""
    month = (
        _MONTHS.index(name.lower()[:3]) // 3 + 1
        if (name := parts.get("month"))
        else int(parts["number"] or 0)
    )
    fraction = f".{parts['fraction']}" if parts["fraction"] else ""
    text = (
        f"{parts['year']}-{month:02d}-{int(parts['day'] or 0):02d}"
        f"T{int(parts['hour'] or 0):02d}:{parts['minute'] or '00'}:{parts['second'] or '00'}"
        f"{fraction}{_zone(parts['zone'])}"
    )
    return text if is_timestamp(text) else None


def _zone(zone: str | None) -> str:
    if zone is None or zone[0] not in "+-":
        return "Z"
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return "Z" if digits == "0000" else f"{zone[0]}{digits[:2]}:{digits[2:]}"


def milliseconds(timestamp: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 timestamp; see `microseconds`.

    >>> milliseconds("1970-01-02T01:00:00.5+01:00")
    86400500
    """
    return microseconds(timestamp) // 1000


def is_future(occurred_at: str | None, timestamp_ms: int) -> bool:
    """True if this date is more than a day after the record that says it, or after 2099. A record
    of a file has no time (-1, or 0 where it was sent on).

    >>> is_future("2026-11-22T00:00:00Z", milliseconds("2026-11-20T12:00:00Z"))
    True
    >>> is_future("2099-12-31T23:59:59Z", -1)
    False
    """
    latest = min(timestamp_ms + _DAY_MS, _LATEST_MS) if timestamp_ms > 0 else _LATEST_MS
    return occurred_at is not None and milliseconds(occurred_at) > latest


def microseconds(timestamp: str) -> int:
    """Microseconds since 1970 of an RFC 3339 timestamp, rounded down; a leap second is the one
    before it.
    """
    written = timestamp.upper().replace(":60", ":59")
    cycles = 0
    # a year that the contract knows and `datetime` does not; 400 has the same calendar
    if written.startswith("0000"):
        written, cycles = "0400" + written[4:], 1
    moment = datetime.fromisoformat(written)
    return (moment - _EPOCH - cycles * _CALENDAR) // timedelta(microseconds=1)


def instant(timestamp: str) -> bytes:
    """An RFC 3339 timestamp as bytes that are ordered as the instants are, to the last digit.

    A leap second is the one before it. Equal instants in different zones are equal bytes.

    >>> instant("2026-11-20T12:00:00.50Z") == instant("2026-11-20T13:00:00.5+01:00")
    True
    >>> instant("2026-11-20T12:00:00Z") < instant("2026-11-20T12:00:00.0001Z")
    True
    """
    rest = timestamp[19:]
    digits = rest[1 : len(rest) - len(rest.lstrip(".0123456789"))].rstrip("0")
    zone = rest.lstrip(".0123456789")
    seconds = milliseconds(timestamp[:19] + zone) // 1000 + _FIRST_SECOND
    return seconds.to_bytes(8) + digits.encode()
