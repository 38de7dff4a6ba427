//! Fields that events share: what is certain of a member's text; see `worker.events.fields`.

use crate::json::{Raw, plain_string, string_of, write_string};

const MAX_TIMESTAMP_CHARS: usize = 64;
/// Of a version, so that it is far from where 64 bits end.
const MAX_VERSION_DIGITS: usize = 18;

/// The value of a member that may be missing or null. `None`: it is not usual.
pub fn optional<'a, T>(
    raw: Option<Raw<'a>>,
    read: impl FnOnce(Raw<'a>) -> Option<T>,
) -> Option<Option<T>> {
    match raw {
        None | Some("null") => Some(None),
        Some(raw) => read(raw).map(Some),
    }
}

pub fn identifier(raw: Raw<'_>, most_chars: usize) -> Option<Box<str>> {
    let text = string_of(raw)?;
    let is_usual = !text.is_empty() && text.chars().count() <= most_chars;
    is_usual.then(|| text.into())
}

pub fn version(raw: Raw<'_>) -> Option<u64> {
    let is_usual = raw.len() <= MAX_VERSION_DIGITS && raw.bytes().all(|byte| byte.is_ascii_digit());
    is_usual.then(|| raw.parse().ok())?
}

/// The double of a whole or half number from 0 to 10.
pub fn rating(raw: Raw<'_>) -> Option<u8> {
    let (whole, fraction) = raw.split_once('.').unwrap_or((raw, "0"));
    let half = match fraction.trim_end_matches('0') {
        "" => 0,
        "5" => 1,
        _ => return None,
    };
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let double = 2 * whole.parse::<u8>().ok().filter(|whole| *whole <= 10)? + half;
    (double <= 20).then_some(double)
}

/// A text that summaries pass on, unless it is empty or takes more bytes of JSON.
pub fn passed_on(raw: Option<Raw<'_>>, most_bytes: usize) -> Option<Option<Box<str>>> {
    let text = optional(raw, string_of)?.filter(|text| {
        let mut written = Vec::new();
        write_string(&mut written, text);
        (1..=most_bytes).contains(&(written.len() - 2))
    });
    Some(text.map(Into::into))
}

/// An RFC 3339 timestamp of a day that exists, as `worker.events.fields.is_timestamp`.
pub fn timestamp(raw: Raw<'_>) -> Option<Box<str>> {
    let text = plain_string(raw)?;
    (text.len() <= MAX_TIMESTAMP_CHARS && is_timestamp(text.as_bytes())).then(|| text.into())
}

fn is_timestamp(text: &[u8]) -> bool {
    let is_shaped = text.len() >= 20
        && matches!(text[10], b'T' | b't')
        && [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')]
            .iter()
            .all(|(at, byte)| text[*at] == *byte);
    let parts = [(0, 4), (5, 2), (8, 2), (11, 2), (14, 2), (17, 2)];
    let mut numbers = [0; 6];
    for (number, (at, length)) in numbers.iter_mut().zip(parts) {
        match is_shaped.then(|| digits(&text[at..at + length])).flatten() {
            Some(found) => *number = found,
            None => return false,
        }
    }
    let [year, month, day, hour, minute, second] = numbers;
    let is_moment =
        (1..=days(year, month)).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    is_moment && is_zone(without_fraction(&text[19..]))
}

/// What follows a fraction of a second.
fn without_fraction(rest: &[u8]) -> &[u8] {
    match rest {
        [b'.', first, ..] if first.is_ascii_digit() => {
            let end = rest[1..].iter().position(|byte| !byte.is_ascii_digit());
            end.map_or(&[], |end| &rest[1 + end..])
        }
        _ => rest,
    }
}

fn is_zone(zone: &[u8]) -> bool {
    match zone {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', hours @ .., b':', ten, one] if hours.len() == 2 => {
            digits(hours).is_some_and(|hours| hours < 24)
                && digits(&[*ten, *one]).is_some_and(|minutes| minutes < 60)
        }
        _ => false,
    }
}

fn digits(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| 10 * number + u32::from(digit - b'0'))
    })
}

/// Of a month, none of others; the year 0 is a leap year.
fn days(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}
