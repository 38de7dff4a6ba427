"""Dates of bare reviews: one meaning or none."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.events.dates import formats_of, is_format, is_future, milliseconds, to_timestamp
from worker.events.fields import is_timestamp


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2019-03-04T14:05:06Z", "2019-03-04T14:05:06Z"),
        ("2019-03-04T14:05:06.7+01:00", "2019-03-04T14:05:06.7+01:00"),
        ("2019-03-04 14:05:06", "2019-03-04T14:05:06Z"),
        ("2019-03-04 14:05:06 UTC", "2019-03-04T14:05:06Z"),
        ("2019-03-04 14:05:06.123456+0130", "2019-03-04T14:05:06.123456+01:30"),
        ("2019-03-04 9:05", "2019-03-04T09:05:00Z"),
        ("2019-03-04", "2019-03-04T00:00:00Z"),
        ("2019/3/4", "2019-03-04T00:00:00Z"),
        ("March 4, 2019", "2019-03-04T00:00:00Z"),
        ("Mar. 4 2019", "2019-03-04T00:00:00Z"),
        ("Monday, March 4th, 2019", "2019-03-04T00:00:00Z"),
        ("4 March 2019", "2019-03-04T00:00:00Z"),
        ("04-Mar-2019", "2019-03-04T00:00:00Z"),
        ("Mon, 04 Mar 2019 14:05:06 +0000", "2019-03-04T14:05:06Z"),
        ("Mon, 4 Mar 2019 14:05:06 GMT", "2019-03-04T14:05:06Z"),
        (1551708306, "2019-03-04T14:05:06Z"),
        ("1551708306", "2019-03-04T14:05:06Z"),
        (1551708306.5, "2019-03-04T14:05:06.500Z"),
        (1551708306123, "2019-03-04T14:05:06.123Z"),
    ],
)
def test_common_forms(written: object, meant: str) -> None:
    assert to_timestamp(written) == meant


@pytest.mark.parametrize(
    "written",
    ["03/04/2019", "3.4.2019", "04-03-2019", "March 2019", "2019", 2019, 20190304, "yesterday", "",
     None, True, [],
     "2019-02-30", "2019-13-01", "2019-00-03", "2019-03-04 25:00", "30 Feb 2019", 10**400,
     float("nan"), float("inf")],
)  # fmt: skip
def test_what_has_two_meanings_or_none_is_not_guessed(written: object) -> None:
    assert to_timestamp(written) is None


@pytest.mark.parametrize(
    ("written", "form", "meant"),
    [
        ("10.01.2025 07:33", "%d.%m.%Y %H:%M", "2025-01-10T07:33:00Z"),
        ("03/04/2019", "%d/%m/%Y", "2019-04-03T00:00:00Z"),
        (" 3/4/19 11:05 pm ", "%m/%d/%y %I:%M %p", "2019-03-04T23:05:00Z"),
        ("10.01.2025 07:33 +0200", "%d.%m.%Y %H:%M %z", "2025-01-10T07:33:00+02:00"),
        ("2019-03-04", "%d.%m.%Y", "2019-03-04T00:00:00Z"),
        ("31.02.2025", "%d.%m.%Y", None),
        ("13/04/2019", "%m/%d/%Y", None),
    ],
)
def test_a_date_of_a_form_of_its_own(written: str, form: str, meant: str | None) -> None:
    assert is_format(form)
    assert to_timestamp(written, form) == meant


@pytest.mark.parametrize(
    "form", ["", "%d.%m.", "%H:%M %Y", "%d.%m.%Y %", "%Y%Y%m%d", "%d.%Q.%Y", 5]
)
def test_a_form_without_a_day_is_none(form: object) -> None:
    assert not is_format(form)


@pytest.mark.parametrize(
    ("written", "forms"),
    [
        ("10.01.2025 07:33", ["%d.%m.%Y %H:%M"]),
        ("03/04/2019, 7:33:01 PM", ["%d/%m/%Y, %I:%M:%S %p", "%m/%d/%Y, %I:%M:%S %p"]),
        ("13-04-19", ["%d-%m-%y"]),
        ("04/13/2019", ["%m/%d/%Y"]),
        ("13.13.2019", []),
        ("0000-00-00", []),
    ],
)
def test_forms_that_a_date_can_have(written: str, forms: list[str]) -> None:
    assert formats_of(written) == forms
    assert all(to_timestamp(written, form) for form in forms)


@given(
    st.text()
    | st.integers()
    | st.floats()
    | st.from_regex(r"[0-9]{1,4}[-/ ]\w{1,9}[-/ ,]+[0-9]{1,4}( [0-9:+]{3,12})?")
)
def test_whatever_comes_out_is_a_timestamp_that_stays(written: object) -> None:
    found = to_timestamp(written)
    assert found is None or (is_timestamp(found) and to_timestamp(found) == found)


@given(
    st.datetimes(datetime(1980, 1, 1), datetime(2200, 1, 1)).map(
        lambda time: time.replace(microsecond=0, tzinfo=UTC)
    )
)
def test_all_forms_of_a_moment_mean_it(moment: datetime) -> None:
    meant = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    seconds = int(moment.timestamp())
    forms = (
        "%Y-%m-%d %H:%M:%S",
        "%B %d, %Y %H:%M:%S",
        "%d %b %Y %H:%M:%S UTC",
        "%a, %d %b %Y %H:%M:%S +0000",
    )
    for form in (*map(moment.strftime, forms), seconds, str(seconds), seconds * 1000):
        assert to_timestamp(form) == meant, form


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
    st.integers(-23 * 60, 23 * 60),
)
def test_milliseconds_are_those_of_the_instant(moment: datetime, minutes: int) -> None:
    """Whatever the offset it is written with, and however many decimals."""
    instant = moment.replace(tzinfo=UTC)
    local = instant.astimezone(timezone(timedelta(minutes=minutes)))
    wanted = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert milliseconds(local.isoformat()) == wanted
    assert milliseconds(local.isoformat().lower()) == wanted


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1970-01-01T00:00:00.0019999999999z", 1), ("2016-12-31T23:59:60Z", 1_483_228_799_000)],
)
def test_milliseconds_of_the_odd_ones(written: str, meant: int) -> None:
    assert milliseconds(written) == meant


@pytest.mark.parametrize("written", ["2026-02-31T00:00:00Z"])
def test_what_is_on_no_calendar_has_no_milliseconds(written: str) -> None:
    with pytest.raises(ValueError, match="range"):
        milliseconds(written)


def test_the_year_0_lies_before_the_year_1() -> None:
    """It is a leap year: an event may say so, and must not end whoever reads it."""
    assert is_timestamp("0000-02-29T00:00:00Z")
    last, first = milliseconds("0000-12-31T23:59:59.999Z"), milliseconds("0001-01-01T00:00:00Z")
    assert first - last == 1
    assert first - milliseconds("0000-01-01T00:00:00Z") == 366 * 86_400_000


@pytest.mark.parametrize(
    ("occurred_at", "timestamp_ms", "future"),
    [
        (None, 1, False),
        ("1970-01-02T00:00:00.001Z", 1, False),
        ("1970-01-02T00:00:00.0019Z", 1, False),
        ("1970-01-02T00:00:00.002Z", 1, True),
        ("1970-01-02T05:30:00.002+05:30", 1, True),
        ("2099-12-31T23:59:60Z", 0, False),
        ("2100-01-01T00:00:00Z", -1, False),
        ("2100-01-01T00:00:00.001Z", -1, True),
        ("2106-02-07T06:28:15Z", 2**62, True),
        ("9999-12-31T23:59:59-23:59", 1_795_200_000_000, True),
        ("0000-01-01T00:00:00+23:59", 1, False),
    ],
)
def test_dates_of_the_future(occurred_at: str | None, timestamp_ms: int, future: bool) -> None:
    assert is_future(occurred_at, timestamp_ms) is future
