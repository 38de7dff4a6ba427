//! An entity from its rows, if each byte of them is known.
//!
//! `None` stands for all else, damage included: the Python form reads these rows, and names what is
//! wrong.

use crate::entity::{Entity, Sentence};
use crate::facets::Criteria;
use crate::reservoir::Copies;
use crate::review::{
    Counts, Details, Member, RATINGS, Review, ReviewCounts, SentenceId, in_order_of,
};
use crate::rows::{
    DELETED, EMBEDDED, FACET_SETS, FUTURE, PUBLISHED, RATED, REVIEW, SEAL_BYTES, VECTORS, checksum,
    header_key,
};
use crate::vector::Vectors;
use std::collections::HashSet;

/// So many bits of a version are enough, and one more event is far from the last one.
const MOST_VERSION: u64 = 1 << 62;
/// Reviews of an entity in the pool for each live sentence that it may have: deleted ones too.
pub const MOST_REVIEWS: usize = 8;

/// A live sentence: its position, its text, and the facets that take one of its labels.
type Stored = (u32, Box<str>, u64);

/// Reads an entity from its rows in key order.
#[derive(Default)]
pub struct Loader<'a> {
    prefix: Vec<u8>,
    most_sentences: usize,
    has_rows: bool,
    entity: Entity,
    /// By review its texts that no row of vectors was read for.
    texts: Vec<Vec<Stored>>,
    sentences: Vec<Sentence>,
    vectors: Vectors,
    criteria: Option<&'a Criteria>,
    /// The sets of facets last published, with the reviews that mentioned them.
    facet_sets: Vec<(Vec<Member>, u32)>,
}

impl<'a> Loader<'a> {
    pub fn new(
        name: &str,
        dimension: usize,
        k: usize,
        copies: Copies,
        most_sentences: usize,
        criteria: Option<&'a Criteria>,
    ) -> Self {
        let (prefix, entity) = (header_key(name), Entity::new(dimension, k, copies));
        let vectors = Vectors::new(dimension);
        Loader { prefix, most_sentences, entity, vectors, criteria, ..Loader::default() }
    }

    /// The next row.
    pub fn take(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let rest = key.strip_prefix(&*self.prefix)?;
        let is_first = !std::mem::replace(&mut self.has_rows, true);
        let (format, payload) = unsealed(key, value)?;
        let mut payload = Bytes(payload);
        if rest.is_empty() {
            self.entity.exists = is_first;
            return (is_first && format == 2).then(|| self.header(&mut payload))?;
        }
        let (incarnation, rest) = rest.split_first_chunk()?;
        let incarnation = u64::from_be_bytes(*incarnation);
        if !self.entity.exists || incarnation < self.entity.incarnation {
            return Some(()); // of a deleted one, to be removed later
        }
        let (kind, rest) = rest.split_first()?;
        match (*kind, format) {
            _ if incarnation > self.entity.incarnation => None,
            (PUBLISHED, 1) if rest.is_empty() => self.published(&mut payload),
            (FACET_SETS, 1..=2) if rest.is_empty() && self.criteria.is_some() => {
                self.facet_sets(format, &mut payload)
            }
            (REVIEW, 1..=4) => self.review(rest, format, &mut payload),
            (VECTORS, 1) => self.vectors(rest, &mut payload),
            _ => None,
        }
    }

    /// The entity; without rows, or only of deleted incarnations, one that does not exist.
    pub fn finish(mut self) -> Option<Entity> {
        let counts = &self.entity.counts;
        let is_complete = self.texts.iter().all(Vec::is_empty)
            && counts.sentences == self.sentences.len() as u64
            && *counts == counted(&self.entity.reviews, counts.sentences);
        if !is_complete || self.vectors.largest() >= 1 << 31 {
            return None; // numbers might not fit
        }
        self.entity.fill(self.sentences, self.vectors);
        let ranked = self.entity.rank();
        // The set last published is the present one, unless it was made with other settings.
        let now = self.entity.set_of(&ranked);
        self.entity.published = in_order_of(&self.entity.published, &now)?;
        if let Some(criteria) = self.criteria {
            if !criteria.plain.recent.is_empty() {
                self.entity.newest.begin(&mut self.entity.reviews, &criteria.plain.recent);
            }
            let rows = 0..self.entity.sentences.len() as u32;
            let of = rows.map(|row| self.entity.sets_of(criteria, row)).collect();
            self.entity.fill_facets(criteria, of, std::mem::take(&mut self.facet_sets))?;
            for number in 0..self.entity.reviews.len() as u32 {
                let rows = self.entity.sentences_of(number);
                self.entity.count_in_facets(criteria, number, &rows, 1);
            }
        }
        self.entity.mark(&ranked);
        self.entity.measure_reviews(0..self.entity.reviews.len() as u32);
        Some(self.entity)
    }

    fn header(&mut self, payload: &mut Bytes<'_>) -> Option<()> {
        let (reviews, sentences) = (payload.u64()?, payload.u64()?);
        self.entity.incarnation = payload.u64()?;
        let mut ratings = [0; RATINGS];
        let mut least = 0;
        for _ in 0..payload.u8()? {
            let double = usize::from(payload.u8()?);
            let count = payload.u64()?;
            if double < least || count == 0 {
                return None;
            }
            *ratings.get_mut(double)? = u32::try_from(count).ok()?;
            least = double + 1;
        }
        let has_others = payload.take(10)? != [0; 10];
        self.entity.counts = Counts {
            reviews: ReviewCounts { count: u32::try_from(reviews).ok()?, ratings },
            sentences,
        };
        let is_usual = !has_others && payload.0.is_empty();
        let room = self.most_sentences.min(sentences as usize);
        self.sentences.reserve_exact(room);
        (is_usual && sentences <= self.most_sentences as u64).then_some(())
    }

    fn published(&mut self, payload: &mut Bytes<'_>) -> Option<()> {
        self.entity.sequence = Some(payload.u64()?);
        self.entity.published = payload.set()?;
        payload.0.is_empty().then_some(())
    }

    fn facet_sets(&mut self, format: u8, payload: &mut Bytes<'_>) -> Option<()> {
        self.entity.facets.sequence = Some(payload.u64()?);
        for _ in 0..payload.u32()? {
            let length = payload.u32()?;
            let mut own = Bytes(payload.take(length as usize)?);
            self.facet_sets.push((own.set()?, 0));
            own.0.is_empty().then_some(())?;
        }
        for (_, mentions) in self.facet_sets.iter_mut().filter(|_| format == 2) {
            *mentions = u32::try_from(payload.u64()?).ok()?;
        }
        (payload.0.is_empty() && !self.facet_sets.is_empty()).then_some(())
    }

    fn review(&mut self, id: &[u8], format: u8, payload: &mut Bytes<'_>) -> Option<()> {
        let (version, flags) = (payload.u64()?, payload.u8()?);
        let number = f64::from_le_bytes(payload.take(8)?.try_into().ok()?);
        let chunks = (payload.u32()?, payload.u32()?);
        let (mut details, labels) = payload.details(format)?;
        match flags & RATED {
            0 if number.to_bits() == 0 => (),
            RATED => details.rating = Some(double_of(number)?),
            _ => return None,
        }
        let (mut mentions, mut language) = (0, None);
        if format >= 4 {
            (mentions, language) = (payload.u64()?, payload.short_text()?);
        }
        let mut texts: Vec<Stored> = payload.texts()?;
        for (ordinal, bits) in &labels {
            let at = texts.binary_search_by_key(ordinal, |one| one.0).ok()?;
            texts[at].2 = *bits;
        }
        let is_deleted = flags & DELETED != 0;
        let is_usual = version <= MOST_VERSION
            && flags & !(DELETED | RATED | EMBEDDED | FUTURE) == 0
            && chunks == if texts.is_empty() { (0, 0) } else { (1, 1) }
            && !(is_deleted && (!texts.is_empty() || details != Details::default()))
            && texts.is_sorted_by(|a, b| a.0 < b.0)
            && labels.is_sorted_by(|a, b| a.0 < b.0)
            && labels.iter().all(|(_, bits)| *bits != 0)
            && (self.criteria.is_some() || (labels.is_empty() && format < 4))
            && (mentions == 0 || !texts.is_empty())
            && self.entity.reviews.len() < MOST_REVIEWS * self.most_sentences;
        if !is_usual {
            return None;
        }
        let mut review = Review {
            version,
            is_deleted,
            is_embedded: flags & EMBEDDED != 0,
            is_future: flags & FUTURE != 0,
            details,
            has_vectors_row: !texts.is_empty(),
            ..Review::new(std::str::from_utf8(id).ok()?)
        };
        review.note(language, mentions);
        self.entity.add_review(review);
        self.texts.push(texts);
        Some(())
    }

    fn vectors(&mut self, rest: &[u8], payload: &mut Bytes<'_>) -> Option<()> {
        let (length, rest) = rest.split_first_chunk()?;
        let (id, chunk) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let id = std::str::from_utf8(id).ok()?;
        let number = self.entity.number(id).filter(|_| chunk == [0; 4])?;
        let texts = std::mem::take(&mut self.texts[number as usize]);
        if texts.is_empty() || payload.u32()? as usize != texts.len() {
            return None;
        }
        for (ordinal, text, labels) in texts {
            (payload.u32()? == ordinal).then_some(())?;
            let mut sentence = Sentence::new(number, ordinal, text);
            sentence.labels = labels;
            self.sentences.push(sentence);
        }
        let added = self.sentences.len() - self.vectors.count();
        self.vectors.read(payload.take(2 * self.vectors.dimension * added)?);
        payload.0.is_empty().then_some(())
    }
}

fn counted(reviews: &[Review], sentences: u64) -> Counts {
    let mut counts = Counts { sentences, ..Counts::default() };
    for review in reviews.iter().filter(|review| !review.is_deleted) {
        counts.reviews.add(review.details.rating, 1);
    }
    counts
}

/// The double of a whole or half number from 0 to 10.
fn double_of(number: f64) -> Option<u8> {
    (0..RATINGS as u8).find(|double| (f64::from(*double) / 2.0).to_bits() == number.to_bits())
}

fn filled(text: Box<str>) -> Option<Box<str>> {
    (!text.is_empty()).then_some(text)
}

fn unsealed<'a>(key: &[u8], value: &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (seal, payload) = value.split_at_checked(SEAL_BYTES)?;
    (checksum(key, payload).to_le_bytes() == seal[1..]).then_some((seal[0], payload))
}

/// What is left of a payload.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self, length: usize) -> Option<Box<str>> {
        Some(std::str::from_utf8(self.take(length)?).ok()?.into())
    }

    fn short_text(&mut self) -> Option<Option<Box<str>>> {
        let length = self.u8()?;
        Some(filled(self.text(length.into())?))
    }

    /// The details of a review without its rating, and by ordinal the labels of its sentences.
    fn details(&mut self, format: u8) -> Option<(Details, Vec<(u32, u64)>)> {
        let (mut details, mut labels) = (Details::default(), Vec::new());
        if format >= 2 {
            details.occurred_at = self.short_text()?;
            details.language = self.short_text()?;
            for _ in 0..self.u32()? {
                labels.push((self.u32()?, self.u64()?));
            }
        }
        if format >= 3 {
            let author = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
            let country = self.u8()?;
            details.verified = match self.u8()? {
                1 => None,
                2 => Some(false),
                3 => Some(true),
                _ => return None,
            };
            details.author_id = filled(self.text(author.into())?);
            details.country = filled(self.text(country.into())?);
        }
        Some((details, labels))
    }

    /// The ids and digests of a set.
    fn set(&mut self) -> Option<Vec<Member>> {
        let lengths = (0..self.u32()?).map(|_| self.u32()).collect::<Option<Vec<_>>>()?;
        let text = |length: u32| std::str::from_utf8(self.take(length as usize)?).ok();
        let texts = lengths.into_iter().map(text).collect::<Option<Vec<_>>>()?;
        if texts.iter().collect::<HashSet<_>>().len() != texts.len() {
            return None;
        }
        let member = |text| Some((SentenceId::from_text(text)?, self.take(16)?.try_into().ok()?));
        texts.into_iter().map(member).collect()
    }

    /// A texts section, which is all that is left.
    fn texts(&mut self) -> Option<Vec<Stored>> {
        let numbers = (0..self.u32()?).map(|_| Some((self.u32()?, self.u32()?)));
        let numbers = numbers.collect::<Option<Vec<_>>>()?;
        let text = |(ordinal, length): (u32, u32)| Some((ordinal, self.text(length as usize)?, 0));
        let texts = numbers.into_iter().map(text).collect::<Option<_>>()?;
        self.0.is_empty().then_some(texts)
    }
}
