//! Rows of an entity, as `worker.state.rows` and `worker.state.keys` define them.

use crate::entity::Entity;
use crate::message::write_digits;
use crate::review::{Details, Member, Review};
use crate::vector::write_vector;

pub const SEAL_BYTES: usize = 5;
/// Flags of a review.
pub const DELETED: u8 = 1;
pub const RATED: u8 = 2;
pub const EMBEDDED: u8 = 4;
pub const FUTURE: u8 = 8;
pub const PUBLISHED: u8 = b'P';
pub const REVIEW: u8 = b'R';
pub const FACET_SETS: u8 = b'S';
pub const VECTORS: u8 = b'V';
/// A key with its value; `None`: the row is removed.
pub type Row = (Vec<u8>, Option<Vec<u8>>);
/// The rows of an entity, and the newest format of its reviews.
pub type EntityRows = (Vec<Row>, u8);

/// The key of an entity's header; all of its keys begin so.
pub fn header_key(entity: &str) -> Vec<u8> {
    let mut key = vec![b'E'];
    key.extend_from_slice(&(entity.len() as u32).to_be_bytes());
    key.extend_from_slice(entity.as_bytes());
    key
}

/// Writes rows of one incarnation of an entity.
pub struct Writer<'a> {
    entity: &'a Entity,
    header_key: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub fn new(name: &str, entity: &'a Entity) -> Self {
        Writer { entity, header_key: header_key(name) }
    }

    pub fn header(&self) -> Row {
        let counts = &self.entity.counts;
        let rated = || (0_u8..).zip(counts.reviews.ratings).filter(|(_, reviews)| *reviews > 0);
        let mut out = framed(2);
        for number in [counts.reviews.count.into(), counts.sentences, self.entity.incarnation] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(rated().count() as u8);
        for (double, reviews) in rated() {
            out.push(double);
            out.extend_from_slice(&u64::from(reviews).to_le_bytes());
        }
        out.extend_from_slice(&[0; 10]); // no others, so no sum of them
        sealed(self.header_key.clone(), out)
    }

    /// The set last published, by the change of this sequence.
    pub fn published(&self, sequence: u64) -> Row {
        let mut out = framed(1);
        out.extend_from_slice(&sequence.to_le_bytes());
        push_set(&mut out, &self.entity.published);
        sealed(self.key(PUBLISHED), out)
    }

    /// The sets of facets last published, likewise; with the numbers of mentions, or without.
    pub fn facet_sets(&self, sequence: u64, has_mentions: bool) -> Row {
        let published = || self.entity.facets.published();
        let mut out = framed(1 + u8::from(has_mentions));
        out.extend_from_slice(&sequence.to_le_bytes());
        push_u32(&mut out, published().len());
        for (set, _) in published() {
            let mut own = Vec::new();
            push_set(&mut own, set);
            push_u32(&mut out, own.len());
            out.append(&mut own);
        }
        for (_, mentions) in published().filter(|_| has_mentions) {
            out.extend_from_slice(&u64::from(mentions).to_le_bytes());
        }
        sealed(self.key(FACET_SETS), out)
    }

    /// The review's row and its format, then that of its vectors: with sentences written, without
    /// removed if there is one.
    pub fn review(&self, review: &Review, sentences: &[u32]) -> (u8, Vec<Row>) {
        let mut key = self.key(REVIEW);
        key.extend_from_slice(review.id.as_bytes());
        let (format, out) = self.review_value(review, sentences);
        let mut rows = vec![sealed(key, out)];
        let mut key = self.key(VECTORS);
        key.extend_from_slice(&(review.id.len() as u32).to_be_bytes());
        key.extend_from_slice(review.id.as_bytes());
        key.extend_from_slice(&0_u32.to_be_bytes());
        if !sentences.is_empty() {
            let mut out = framed(1);
            push_u32(&mut out, sentences.len());
            for at in sentences {
                push_u32(&mut out, self.entity.sentences[*at as usize].ordinal as usize);
            }
            for at in sentences {
                write_vector(&mut out, self.entity.vectors.get(*at));
            }
            rows.push(sealed(key, out));
        } else if review.has_vectors_row {
            rows.push((key, None));
        }
        (format, rows)
    }

    fn review_value(&self, review: &Review, sentences: &[u32]) -> (u8, Vec<u8>) {
        let details = &review.details;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let rating = details.rating.map_or(0.0, |double| f64::from(double) / 2.0);
        let findings = review.findings();
        let has_found = findings.mentions != 0 || findings.language.is_some();
        let has_more = has_found
            || details.verified.is_some()
            || details.country.is_some()
            || details.author_id.is_some();
        let texts = || sentences.iter().map(|at| &self.entity.sentences[*at as usize]);
        let labelled = || texts().filter(|one| one.labels != 0);
        let has_facts = has_more
            || details.occurred_at.is_some()
            || details.language.is_some()
            || labelled().next().is_some();
        let format = 1 + u8::from(has_facts) + u8::from(has_more) + u8::from(has_found);
        let mut out = framed(format);
        out.extend_from_slice(&review.version.to_le_bytes());
        out.push(
            flag(review.is_deleted, DELETED)
                | flag(details.rating.is_some(), RATED)
                | flag(review.is_embedded, EMBEDDED)
                | flag(review.is_future, FUTURE),
        );
        out.extend_from_slice(&rating.to_le_bytes());
        let chunks = usize::from(!sentences.is_empty());
        push_u32(&mut out, chunks);
        push_u32(&mut out, chunks);
        if has_facts {
            push_short(&mut out, details.occurred_at.as_deref());
            push_short(&mut out, details.language.as_deref());
            push_u32(&mut out, labelled().count());
            for one in labelled() {
                push_u32(&mut out, one.ordinal as usize);
                out.extend_from_slice(&one.labels.to_le_bytes());
            }
        }
        if has_more {
            push_author(&mut out, details);
        }
        if has_found {
            out.extend_from_slice(&findings.mentions.to_le_bytes());
            push_short(&mut out, findings.language.as_deref());
        }
        push_u32(&mut out, sentences.len());
        for one in texts() {
            push_u32(&mut out, one.ordinal as usize);
            push_u32(&mut out, one.text.len());
        }
        for one in texts() {
            out.extend_from_slice(one.text.as_bytes());
        }
        (format, out)
    }

    fn key(&self, kind: u8) -> Vec<u8> {
        let mut key = self.header_key.clone();
        key.extend_from_slice(&self.entity.incarnation.to_be_bytes());
        key.push(kind);
        key
    }
}

fn framed(format: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(&[format, 0, 0, 0, 0]);
    out
}

fn sealed(key: Vec<u8>, mut value: Vec<u8>) -> Row {
    let checksum = checksum(&key, &value[SEAL_BYTES..]);
    value[1..SEAL_BYTES].copy_from_slice(&checksum.to_le_bytes());
    (key, Some(value))
}

pub fn checksum(key: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize()
}

fn push_set(out: &mut Vec<u8>, set: &[Member]) {
    push_u32(out, set.len());
    for (id, _) in set {
        push_u32(out, id.len());
    }
    for (id, _) in set {
        out.extend_from_slice(id.review.as_bytes());
        out.push(b'#');
        write_digits(out, id.ordinal.into(), 1);
    }
    for (_, digest) in set {
        out.extend_from_slice(digest);
    }
}

fn push_author(out: &mut Vec<u8>, details: &Details) {
    let author = details.author_id.as_deref().unwrap_or_default();
    let country = details.country.as_deref().unwrap_or_default();
    out.extend_from_slice(&(author.len() as u16).to_le_bytes());
    out.push(country.len() as u8);
    out.push(details.verified.map_or(1, |verified| 2 + u8::from(verified)));
    out.extend_from_slice(author.as_bytes());
    out.extend_from_slice(country.as_bytes());
}

fn push_short(out: &mut Vec<u8>, text: Option<&str>) {
    let text = text.unwrap_or_default();
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn push_u32(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u32).to_le_bytes());
}
