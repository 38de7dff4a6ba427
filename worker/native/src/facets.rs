//! What facets are, and which sentences belong to them: `worker.facets.membership` in integers.

use crate::newest::Recent;
use crate::review::{RATINGS, Review};
use crate::vector::{Vectors, square};
use pyo3::prelude::*;
use std::collections::HashMap;

/// Sets of facets, a bit for each: those of all sentences, of praise, and of complaints.
pub type Sets = [u64; 3];

/// See `worker.facets.plain.PlainRivals`.
#[derive(FromPyObject)]
struct PlainRivals {
    is_exclusive: bool,
    vectors: Vec<u8>,
    thresholds: Vec<(u64, u64)>,
    owners: Vec<u64>,
}

/// See `worker.facets.plain.PlainFacet`.
#[derive(FromPyObject, Debug)]
pub struct Facet {
    pub number: usize,
    pub name: String,
    pub label: String,
    pub k: usize,
    pub has_language: bool,
    pub language: Option<String>,
    pub has_words: bool,
    /// Of its pros and cons; 0 without.
    pub side_k: usize,
}

/// See `worker.facets.plain.PlainFacets`.
#[derive(FromPyObject)]
pub struct PlainFacets {
    rivals: Vec<PlainRivals>,
    without_phrases: u64,
    without_labels: u64,
    /// Those that quote words.
    pub quoting: u64,
    /// By label the facets that take it.
    pub labels: HashMap<String, u64>,
    ratings: Vec<u64>,
    verified: Vec<u64>,
    languages: HashMap<String, u64>,
    countries: HashMap<String, u64>,
    authors: HashMap<String, u64>,
    pub finds_languages: bool,
    pub finds_words: bool,
    /// The visible ones.
    pub facets: Vec<Facet>,
    direction: Vec<i64>,
    beyond: i64,
    rating_signs: Vec<i8>,
    pub recent: Vec<Recent>,
    pub emit_mentions: u64,
}

/// A phrase: its facets, |y|^2, and the least p*|p| / |x|^2 of a product p with a sentence x that
/// is near enough, as a fraction: all comparisons fit 128 bits.
struct Phrase {
    owners: u64,
    square: i128,
    numerator: i128,
    denominator: i128,
}

/// Phrases of which a sentence has at most one, or all that are near enough.
struct Rivals {
    is_exclusive: bool,
    vectors: Vectors,
    phrases: Vec<Phrase>,
}

/// A published set of an entity.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct SetOf {
    /// The number of its facet among those that are visible.
    pub facet: usize,
    /// Which of `Sets` it is in, and its bit there.
    pub part: usize,
    pub bit: u64,
    pub k: usize,
}

impl SetOf {
    pub fn is_in(&self, sets: &Sets) -> bool {
        sets[self.part] & self.bit != 0
    }
}

/// The facets of a partition.
pub struct Criteria {
    rivals: Vec<Rivals>,
    pub plain: PlainFacets,
    visible: u64,
    sided: u64,
    phrased: u64,
    direction: Vec<i32>,
    /// In the order of their row.
    pub sets: Vec<SetOf>,
}

impl Criteria {
    /// `None`: numbers might not fit.
    pub fn new(plain: PlainFacets, dimension: usize) -> Option<Self> {
        let rivals = plain.rivals.iter().map(|one| Rivals::new(one, dimension));
        let rivals: Vec<Rivals> = rivals.collect::<Option<_>>()?;
        let bits = |has: fn(&Facet) -> bool| {
            let facets = plain.facets.iter().filter(|facet| has(facet));
            facets.fold(0, |bits, facet| bits | 1 << facet.number)
        };
        let mut sets = Vec::new();
        let mut add = |part: usize, facet: usize| {
            let Facet { number, k, side_k, .. } = plain.facets[facet];
            let k = if part == 0 { k } else { side_k };
            sets.push(SetOf { facet, part, bit: 1 << number, k });
        };
        (0..plain.facets.len()).for_each(|facet| add(0, facet));
        let sided = (0..plain.facets.len()).filter(|facet| plain.facets[*facet].side_k > 0);
        sided.for_each(|facet| (1..=2).for_each(|part| add(part, facet)));
        let owners = rivals.iter().flat_map(|one| &one.phrases).map(|phrase| phrase.owners);
        let is_complete = plain.ratings.len() == RATINGS + 1
            && plain.rating_signs.len() == RATINGS + 1
            && plain.verified.len() == 3
            && (plain.direction.is_empty() || plain.direction.len() == dimension);
        let direction = plain.direction.iter().map(|number| i32::try_from(*number).ok());
        is_complete.then_some(())?;
        Some(Criteria {
            visible: bits(|_| true),
            sided: bits(|facet| facet.side_k > 0),
            phrased: owners.fold(0, |all, one| all | one),
            direction: direction.collect::<Option<_>>()?,
            rivals,
            sets,
            plain,
        })
    }

    /// The facets whose criteria a live review meets.
    pub fn admits(&self, review: &Review) -> u64 {
        let (details, findings) = (&review.details, review.findings());
        let not_recent = !self.plain.recent.iter().fold(0, |bits, one| bits | one.bit);
        let PlainFacets { ratings, verified, languages, countries, authors, .. } = &self.plain;
        let value = |admitted: &HashMap<String, u64>, value: Option<&str>| {
            let found = admitted.get(value.unwrap_or_default()).or_else(|| admitted.get(""));
            found.copied().unwrap_or_default()
        };
        ratings[details.rating.map_or(RATINGS, usize::from)]
            & verified[details.verified.map_or(0, |one| 1 + usize::from(one))]
            & value(languages, findings.language.as_deref())
            & value(countries, details.country.as_deref())
            & value(authors, details.author_id.as_deref())
            & (findings.recent | not_recent)
    }

    /// The labels of a sentence as they are stored: of the facets that quote words those that quote
    /// this sentence. `words`: the facets whose words it has and for which it is quotable.
    pub fn marks(&self, labels: u64, words: u64) -> u64 {
        let quoted = (labels | self.plain.without_labels) & words;
        (labels & !self.plain.quoting) | (quoted & self.plain.quoting)
    }

    /// The sets of a sentence with these labels, of a review that meets the criteria of these
    /// facets.
    pub fn sets_of(&self, vector: &[i16], labels: u64, review: u64, rating: Option<u8>) -> Sets {
        let plain = &self.plain;
        let nearest = if review & self.phrased == 0 { 0 } else { self.nearest(vector) };
        let bits = (plain.without_phrases | nearest)
            & ((plain.without_labels & !plain.quoting) | labels)
            & review
            & self.visible;
        let sided = bits & self.sided;
        match plain.rating_signs[rating.map_or(RATINGS, usize::from)] {
            1 if sided != 0 && self.product(vector) > plain.beyond => [bits, sided, 0],
            -1 if sided != 0 && self.product(vector) < -plain.beyond => [bits, 0, sided],
            _ => [bits, 0, 0],
        }
    }

    /// The facets of the nearest phrases.
    fn nearest(&self, vector: &[i16]) -> u64 {
        let own = i128::from(square(vector));
        self.rivals.iter().fold(0, |found, rivals| found | rivals.nearest(vector, own))
    }

    /// That with the direction from complaints to praise.
    fn product(&self, vector: &[i16]) -> i64 {
        vector.iter().zip(&self.direction).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum()
    }
}

impl Rivals {
    fn new(plain: &PlainRivals, dimension: usize) -> Option<Self> {
        let count = plain.owners.len();
        if plain.thresholds.len() != count || plain.vectors.len() != 2 * count * dimension {
            return None;
        }
        let mut vectors = Vectors::new(dimension);
        vectors.read(&plain.vectors);
        let phrase = |(at, owners): (usize, &u64)| {
            let (above, below) = plain.thresholds[at];
            let square = vectors.square(at as u32);
            let fits = below <= 1_000_000_000 && above <= below && square < 1 << 31;
            fits.then(|| Phrase {
                owners: *owners,
                square: square.into(),
                numerator: i128::from(above).pow(2) * i128::from(square),
                denominator: i128::from(below).pow(2),
            })
        };
        let phrases = plain.owners.iter().enumerate().map(phrase).collect::<Option<_>>()?;
        Some(Rivals { is_exclusive: plain.is_exclusive, vectors, phrases })
    }

    /// The facets of the phrase with the highest cosine, the first of equals; 0 if it is below that
    /// phrase's threshold. Or those of all phrases that are near enough. `own`: |x|^2.
    fn nearest(&self, vector: &[i16], own: i128) -> u64 {
        let products = self.vectors.products(0..self.phrases.len() as u32, vector);
        let is_near = |(signed, phrase): &(i128, &Phrase)| {
            signed * phrase.denominator >= phrase.numerator * own
        };
        if !self.is_exclusive {
            let signed = products.iter().map(|one| i128::from(*one) * i128::from(one.abs()));
            let near = signed.zip(&self.phrases).filter(is_near);
            return near.fold(0, |all, (_, phrase)| all | phrase.owners);
        }
        let mut best: Option<(i128, &Phrase)> = None;
        for (product, phrase) in products.iter().zip(&self.phrases) {
            let signed = i128::from(*product) * i128::from(product.abs());
            let is_nearer =
                |(other, of): (i128, &Phrase)| signed * of.square > other * phrase.square;
            if best.is_none_or(is_nearer) {
                best = Some((signed, phrase));
            }
        }
        best.filter(is_near).map_or(0, |(_, phrase)| phrase.owners)
    }
}
