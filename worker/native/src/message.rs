//! Messages: the bytes of `summary.changed` and its id and time, as the Python form writes them.

use crate::entity::{Entity, Sentence};
use crate::event::{Change, Event, Origin};
use crate::json::write_string;
use crate::reservoir::{Centroid, Ranked};
use crate::review::{Counts, Member, RATINGS, Review, SentenceId};
use sha1::{Digest, Sha1};
use std::io::Write;
use std::sync::Arc;

/// The published changes of an entity: each; the net one of each micro-batch; none.
#[derive(Clone, Copy, PartialEq)]
pub enum Emit {
    Every,
    Coalesced,
    None,
}

/// What is the same in all messages.
pub struct Publication {
    pub emit: Emit,
    pub epoch: u64,
    pub k: usize,
    pub model: Option<String>,
    pub input_topic: String,
}

/// A set as its messages have it, after an event.
pub struct ShownSet {
    centroid: Centroid,
    /// Quote, key and support by rank.
    sentences: Vec<(Arc<[u8]>, i64, u32)>,
}

/// Likewise a summary.
pub struct Shown {
    pub counts: Counts,
    pub set: ShownSet,
}

impl ShownSet {
    /// Keeps the quotes.
    pub fn of(entity: &mut Entity, ranked: &[Ranked], centroid: Centroid) -> Self {
        let show = |one: &Ranked| (entity.quote(one.row, quote), one.key, one.support);
        ShownSet { sentences: ranked.iter().map(show).collect(), centroid }
    }

    /// Appends the sentences.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (rank, (quote, key, support)) in self.sentences.iter().enumerate() {
            out.extend_from_slice(if rank > 0 { b",{\"rank\":" } else { &b"{\"rank\":"[..] });
            write_digits(out, rank as u64, 1);
            out.extend_from_slice(quote);
            write_millionths(out, self.centroid.micros(*key));
            out.extend_from_slice(b",\"support\":");
            write_digits(out, u64::from(*support), 1);
            out.push(b'}');
        }
    }
}

/// A change of a summary or of facets, for the record of this index.
pub struct Message {
    pub index: usize,
    pub is_of_facets: bool,
    pub partition: i32,
    pub entity: Arc<str>,
    pub value: Vec<u8>,
    pub id: String,
    pub time: Option<String>,
}

/// Ids that a change names, in order.
pub struct Difference {
    pub added: Vec<SentenceId>,
    pub removed: Vec<SentenceId>,
}

impl Difference {
    /// From a set to the next one: ids that one of them lacks, or has with another text.
    pub fn between(before: &[Member], now: &[Member]) -> Self {
        let without = |ours: &[Member], others: &[Member]| {
            let is_in = |(id, digest): &Member| {
                others.iter().any(|(other, of)| of == digest && other == id)
            };
            let missing = ours.iter().filter(|one| !is_in(one));
            missing.map(|(id, _)| id.clone()).collect()
        };
        Difference { added: without(now, before), removed: without(before, now) }
    }

    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl Publication {
    /// The message about a new set, caused by this event, after that of `previous`.
    pub fn message(
        &self,
        event: &Event,
        shown: &Shown,
        difference: &Difference,
        previous: Option<u64>,
    ) -> Message {
        let mut out = Vec::with_capacity(1024 + 512 * shown.set.sentences.len());
        self.write_head(&mut out, "summary.changed", &event.origin, previous);
        out.extend_from_slice(b",\"sentences\":[");
        shown.set.write(&mut out);
        write_ids(&mut out, "],\"added\":[", &difference.added);
        write_ids(&mut out, "],\"removed\":[", &difference.removed);
        write(&mut out, "],\"review_count\":", shown.counts.reviews.count);
        write(&mut out, ",\"sentence_count\":", shown.counts.sentences);
        write(&mut out, ",\"k\":", self.k);
        self.finished(out, event, &shown.counts, "")
    }

    /// The first members of a change.
    pub fn write_head(
        &self,
        out: &mut Vec<u8>,
        kind: &str,
        origin: &Origin,
        previous: Option<u64>,
    ) {
        write(out, "{\"type\":\"", kind);
        out.extend_from_slice(b"\",\"entity_id\":");
        write_string(out, &origin.entity);
        write(out, ",\"epoch\":", self.epoch);
        write(out, ",\"sequence\":", origin.offset);
        let previous = previous.map_or_else(|| "null".into(), |number| number.to_string());
        write(out, ",\"previous_sequence\":", previous);
    }

    /// The message with its last members; `suffix` is that of its id.
    pub fn finished(
        &self,
        mut out: Vec<u8>,
        event: &Event,
        counts: &Counts,
        suffix: &str,
    ) -> Message {
        let origin = &event.origin;
        write(&mut out, ",\"cause\":{\"type\":\"", event.change.name());
        out.extend_from_slice(b"\",\"topic\":");
        write_string(&mut out, &self.input_topic);
        write(&mut out, ",\"partition\":", origin.partition);
        write(&mut out, ",\"offset\":", origin.offset);
        write_text(&mut out, ",\"review_id\":", review_of(&event.change));
        write_text(&mut out, "},\"occurred_at\":", origin.occurred_at.as_deref());
        write_text(&mut out, ",\"embedding_model\":", self.model.as_deref());
        out.extend_from_slice(b",\"algorithm\":\"coversumm/1\",\"ratings\":");
        write_ratings(&mut out, &counts.reviews.ratings);
        out.push(b'}');
        let name = format!("coversumm:{}:{}:{}{suffix}", origin.entity, self.epoch, origin.offset);
        Message {
            index: origin.index,
            is_of_facets: !suffix.is_empty(),
            partition: origin.partition,
            entity: origin.entity.clone(),
            value: out,
            id: uuid5(&name),
            time: match &origin.occurred_at {
                Some(time) => Some(time.to_string()),
                None => timestamp(origin.timestamp_ms),
            },
        }
    }
}

fn review_of(change: &Change) -> Option<&str> {
    match change {
        Change::Upsert(upsert) => Some(&upsert.review),
        Change::DeleteReview { review, .. } => Some(review),
        Change::DeleteSentences(_) => None,
    }
}

/// The part of a sentence that is the same in every message: from the rank to the distance.
fn quote(sentence: &Sentence, review: &Review) -> Vec<u8> {
    let (mut out, details) = (Vec::with_capacity(256), &review.details);
    let id = format!("{}#{}", review.id, sentence.ordinal);
    write_text(&mut out, ",\"sentence_id\":", Some(&id));
    write_text(&mut out, ",\"review_id\":", Some(&review.id));
    write_text(&mut out, ",\"text\":", Some(&sentence.text));
    let rating = details.rating.map(|double| format!("{:?}", f64::from(double) / 2.0));
    write(&mut out, ",\"rating\":", rating.as_deref().unwrap_or("null"));
    write_fact(&mut out, ",\"occurred_at\":", &details.occurred_at);
    write_fact(&mut out, ",\"language\":", &details.language);
    if let Some(verified) = details.verified {
        write(&mut out, ",\"verified\":", verified);
    }
    write_fact(&mut out, ",\"country\":", &details.country);
    write_fact(&mut out, ",\"author_id\":", &details.author_id);
    out.extend_from_slice(b",\"distance\":");
    out
}

/// Those of reviews, by the double of a rating.
pub fn write_ratings(out: &mut Vec<u8>, ratings: &[u32; RATINGS]) {
    let counts = ratings.iter().map(|reviews| u64::from(*reviews));
    let rated = || counts.clone().enumerate().filter(|(_, reviews)| *reviews > 0);
    let count: u64 = rated().map(|(_, reviews)| reviews).sum();
    let doubled: u64 = rated().map(|(double, reviews)| double as u64 * reviews).sum();
    write(out, "{\"count\":", count);
    out.extend_from_slice(b",\"mean\":");
    match count {
        0 => out.extend_from_slice(b"null"),
        _ => write_number(out, doubled as f64 / (2 * count) as f64),
    }
    out.extend_from_slice(b",\"histogram\":{");
    for (position, (double, reviews)) in rated().enumerate() {
        let comma = if position > 0 { "," } else { "" };
        let half = if double % 2 == 1 { ".5" } else { "" };
        write(out, comma, format_args!("\"{}{half}\":{reviews}", double / 2));
    }
    out.extend_from_slice(b"}}");
}

// -- parts

pub fn write(out: &mut Vec<u8>, before: &str, value: impl std::fmt::Display) {
    // a vector takes all that is written to it
    let _ = write!(out, "{before}{value}");
}

/// A number with at least so many digits, in less time than `write` takes.
pub fn write_digits(out: &mut Vec<u8>, mut number: u64, least: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 || digits.len() - at < least {
        at -= 1;
        digits[at] += (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

pub fn write_text(out: &mut Vec<u8>, before: &str, text: Option<&str>) {
    out.extend_from_slice(before.as_bytes());
    match text {
        Some(text) => write_string(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

fn write_fact(out: &mut Vec<u8>, before: &str, fact: &Option<Box<str>>) {
    if fact.is_some() {
        write_text(out, before, fact.as_deref());
    }
}

fn write_ids(out: &mut Vec<u8>, before: &str, ids: &[SentenceId]) {
    out.extend_from_slice(before.as_bytes());
    for (position, id) in ids.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_string(out, &id.to_string());
    }
}

/// A number from 0 to 10: its shortest digits, with an exponent below 0.00001.
fn write_number(out: &mut Vec<u8>, number: f64) {
    match number {
        1e-5..1e-4 => write(out, "", number),
        _ => write(out, "", format_args!("{number:?}")),
    }
}

/// So many millionths, as `write_number` does.
fn write_millionths(out: &mut Vec<u8>, millionths: u64) {
    if (1..10).contains(&millionths) {
        return write(out, "", format_args!("{millionths}e-6"));
    }
    write_digits(out, millionths / 1_000_000, 1);
    out.push(b'.');
    let (mut digits, mut left) = (6, millionths % 1_000_000);
    while digits > 1 && left % 10 == 0 {
        (digits, left) = (digits - 1, left / 10);
    }
    write_digits(out, left, digits);
}

/// UUIDv5 in the URL namespace.
fn uuid5(name: &str) -> String {
    const NAMESPACE: [u8; 16] = 0x6ba7b811_9dad_11d1_80b4_00c04fd430c8_u128.to_be_bytes();
    let digest = Sha1::new().chain_update(NAMESPACE).chain_update(name).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let part = |from: usize, to: usize| &digits[from..to];
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// RFC 3339 in UTC; `None` if Kafka has no timestamp (-1) or one beyond the year 9999.
fn timestamp(milliseconds: i64) -> Option<String> {
    if !(0..253_402_300_800_000).contains(&milliseconds) {
        return None;
    }
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    let (year, month, day) = date(seconds / 86_400);
    let second = seconds % 60;
    Some(format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{second:02}.{rest:03}Z"))
}

/// Year, month and day of a day since 1970, by the years that begin in March.
fn date(since_1970: i64) -> (i64, i64, i64) {
    let days = since_1970 + 719_468; // since 0000-03-01
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March
    let of_january = i64::from(month >= 10);
    (400 * cycle + year + of_january, month + 3 - 12 * of_january, day - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers() {
        for (millionths, text) in [
            (0, "0.0"),
            (1, "1e-6"),
            (9, "9e-6"),
            (10, "0.00001"),
            (120, "0.00012"),
            (500_000, "0.5"),
            (1_000_000, "1.0"),
            (1_000_001, "1.000001"),
        ] {
            assert_eq!(written(|out| write_millionths(out, millionths)), text);
            assert_eq!(written(|out| write_number(out, millionths as f64 / 1e6)), text);
        }
        assert_eq!(written(|out| write_number(out, 1.5e-6)), "1.5e-6");
        assert_eq!(written(|out| write_number(out, 9.75e-5)), "0.0000975");
        assert_eq!(written(|out| write_number(out, 4.0 / 3.0)), "1.3333333333333333");
    }

    #[test]
    fn ids_and_times() {
        // uuid.uuid5(uuid.NAMESPACE_URL, "coversumm:e:7:0")
        assert_eq!(uuid5("coversumm:e:7:0").len(), 36);
        for (milliseconds, text) in [
            (0, Some("1970-01-01T00:00:00.000Z")),
            (951_782_400_001, Some("2000-02-29T00:00:00.001Z")),
            (1_709_251_199_999, Some("2024-02-29T23:59:59.999Z")),
            (253_402_300_799_999, Some("9999-12-31T23:59:59.999Z")),
            (253_402_300_800_000, None),
            (-1, None),
        ] {
            assert_eq!(timestamp(milliseconds).as_deref(), text);
        }
    }
}
