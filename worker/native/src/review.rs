//! What the other modules share: reviews, what is counted of them, and sets of their sentences.

use crate::vector::allocated;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

pub const RATINGS: usize = 21;
pub const DAY: i64 = 86_400;
const LATEST_MS: i64 = 4_102_444_800_000;

pub type TextDigest = [u8; 16];
/// A sentence of a set, and the digest of its text.
pub type Member = (SentenceId, TextDigest);

/// `review#ordinal`, whose text is made where it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentenceId {
    pub ordinal: u32, // compared first
    pub review: Arc<str>,
}

impl SentenceId {
    /// `None`: no worker wrote this.
    pub fn from_text(text: &str) -> Option<Self> {
        let (review, ordinal) = text.rsplit_once('#')?;
        let id = SentenceId { review: review.into(), ordinal: ordinal.parse().ok()? };
        (id.len() == text.len()).then_some(id)
    }

    /// Bytes of its text.
    pub fn len(&self) -> usize {
        self.review.len() + 2 + self.ordinal.checked_ilog10().unwrap_or(0) as usize
    }
}

impl Display for SentenceId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}#{}", self.review, self.ordinal)
    }
}

/// The present set in the order of the stored one, so that its ids are those of its reviews. `None`:
/// it is another set.
pub fn in_order_of(stored: &[Member], now: &[Member]) -> Option<Vec<Member>> {
    let present = stored.iter().map(|one| now.iter().find(|other| *other == one).cloned());
    present.collect::<Option<Vec<_>>>().filter(|_| stored.len() == now.len())
}

/// What messages say of a sentence's review.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Details {
    /// Its double.
    pub rating: Option<u8>,
    pub occurred_at: Option<Box<str>>,
    pub language: Option<Box<str>>,
    pub verified: Option<bool>,
    pub country: Option<Box<str>>,
    pub author_id: Option<Box<str>>,
}

#[derive(Default, Debug)]
pub struct Review {
    pub id: Arc<str>,
    pub version: u64,
    pub is_deleted: bool,
    /// As `ReviewRow.embedded`.
    pub is_embedded: bool,
    /// As `ReviewRow.is_future`.
    pub is_future: bool,
    pub details: Details,
    pub findings: Option<Box<Findings>>,
    /// The places of its live sentences, by position in it.
    pub live: Vec<u32>,
    /// What it took in memory when it was last measured.
    pub bytes: usize,
    /// Whether the rows before this micro-batch have a row of its vectors.
    pub has_vectors_row: bool,
    /// Whether this micro-batch writes it.
    pub is_written: bool,
}

/// What is found out about a review where facets depend on it. Most reviews have nothing of it.
#[derive(Debug, Default)]
pub struct Findings {
    pub language: Option<Box<str>>,
    /// Facets whose words its sentences have.
    pub mentions: u64,
    /// Its date, and the facets of the newest reviews that it is in, if there are such facets.
    pub instant: Option<Instant>,
    pub recent: u64,
}

static NOTHING: Findings = Findings { language: None, mentions: 0, instant: None, recent: 0 };

impl Review {
    /// One of which nothing is known.
    pub fn new(id: &str) -> Self {
        Review { id: id.into(), ..Review::default() }
    }

    pub fn findings(&self) -> &Findings {
        self.findings.as_deref().unwrap_or(&NOTHING)
    }

    /// Those to change.
    pub fn findings_mut(&mut self) -> &mut Findings {
        self.findings.get_or_insert_default()
    }

    /// Approximate bytes in memory beside its own.
    pub fn measure(&self) -> usize {
        let of_findings = |one: &Findings| {
            let language = one.language.as_deref().map_or(0, str::len);
            allocated(size_of::<Findings>()) + allocated(language)
        };
        let Details { occurred_at, language, country, author_id, .. } = &self.details;
        let texts = [occurred_at, language, country, author_id];
        allocated(self.id.len() + 16)
            + allocated(4 * self.live.capacity())
            + self.findings.as_deref().map_or(0, of_findings)
            + texts.into_iter().flatten().map(|text| allocated(text.len())).sum::<usize>()
    }

    /// Note its language, and the facets whose words its sentences have.
    pub fn note(&mut self, language: Option<Box<str>>, mentions: u64) {
        if self.findings.is_some() || language.is_some() || mentions != 0 {
            let findings = self.findings_mut();
            (findings.language, findings.mentions) = (language, mentions);
        }
    }
}

/// Some reviews, and by the double of a rating how many have it.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct ReviewCounts {
    pub count: u32,
    pub ratings: [u32; RATINGS],
}

impl ReviewCounts {
    /// Count a review of this rating once more (1), or no more (-1).
    pub fn add(&mut self, rating: Option<u8>, by: i32) {
        let change = |count: &mut u32| *count = count.wrapping_add_signed(by);
        change(&mut self.count);
        if let Some(double) = rating {
            change(&mut self.ratings[usize::from(double)]);
        }
    }
}

/// The part of an entity that its header row has.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Counts {
    /// Live ones.
    pub reviews: ReviewCounts,
    pub sentences: u64,
}

/// A moment, to the last digit: seconds since 1970, and the digits of a fraction without zeros at
/// the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub i64, pub Box<str>);

impl Instant {
    /// Of an RFC 3339 timestamp. A leap second is the one before it.
    pub fn of(timestamp: &str) -> Option<Self> {
        let number = |from: usize, to: usize| timestamp.get(from..to)?.parse::<i64>().ok();
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let rest = timestamp.get(19..)?;
        let zone = rest.trim_start_matches(|one: char| one == '.' || one.is_ascii_digit());
        let digits = rest[..rest.len() - zone.len()].strip_prefix('.').unwrap_or_default();
        let east = match zone.split_at_checked(1)? {
            ("Z" | "z", "") => 0,
            (sign @ ("+" | "-"), offset) => {
                let (hours, minutes) = offset.split_once(':')?;
                let minutes = 60 * hours.parse::<i64>().ok()? + minutes.parse::<i64>().ok()?;
                if sign == "+" { minutes } else { -minutes }
            }
            _ => return None,
        };
        let minutes = 60 * (24 * days_since_1970(year, month, day) + hour) + minute - east;
        Some(Instant(60 * minutes + second.min(59), digits.trim_end_matches('0').into()))
    }
}

/// As `worker.events.dates.is_future`.
pub fn is_future(occurred_at: &str, timestamp_ms: i64) -> bool {
    let latest = if timestamp_ms > 0 { timestamp_ms.saturating_add(1000 * DAY) } else { i64::MAX };
    let first = latest.min(LATEST_MS) + 1; // millisecond that is too late
    let digits = format!("{:03}", first % 1000);
    let first = Instant(first / 1000, digits.trim_end_matches('0').into());
    Instant::of(occurred_at).is_some_and(|date| date >= first)
}

/// By the years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    146_097 * cycle + 365 * of_cycle + of_cycle / 4 - of_cycle / 100 + of_year - 719_468
}
