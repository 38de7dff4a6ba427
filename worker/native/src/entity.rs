//! An entity in memory: its reviews, its live sentences with their vectors, and its summary.
//!
//! The summary is that of `worker.coversumm`: the k sentences with the lowest keys
//! `n*|x|^2 - 2*x.S`, S being the sum of the n vectors that count, by id where keys are equal. All
//! numbers are exact integers: |x|^2 is below 2^31 and n at most `MOST`, so 64 bits hold each.

use crate::facet_sets::FacetSets;
use crate::facets::Sets;
use crate::newest::NewestFirst;
use crate::review::{Counts, Details, Findings, Member, Review, SentenceId, TextDigest};
use crate::vector::{AT_ONCE, Row, SCALE, products_of, products_with, square, total};
use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// Reviews that are looked through as fast as a table is asked, and without its memory.
const FEW_REVIEWS: usize = 32;
/// Bytes that an allocation takes beside its own.
const ALLOCATED: usize = 16;
/// Most live sentences of an entity with which all numbers fit: 3*n^2*|x|^2 is below 2^57.
pub const MOST: usize = 4096;
#[derive(Default, Debug)]
pub struct Sentence {
    pub text: Box<str>,
    /// Its number among the reviews.
    pub review: u32,
    pub ordinal: u32,
    /// Facets that take one of its labels, or quote it.
    pub labels: u64,
    /// Facets whose words it has, if that is known.
    pub words: Option<u64>,
    /// Whether the present set has it, with this text.
    pub is_shown: bool,
    /// Whether no other live sentence with its vector has a lower id.
    is_lowest: bool,
    /// How many live sentences have its vector.
    pub support: u32,
    /// Of the text, once it was needed.
    digest: Option<TextDigest>,
    /// The part of it that is the same in every message, while it is shown.
    pub quote: Option<Arc<[u8]>>,
}

impl Sentence {
    pub fn new(review: u32, ordinal: u32, text: Box<str>) -> Self {
        Sentence { text, review, ordinal, is_lowest: true, support: 1, ..Sentence::default() }
    }

    pub fn digest(&mut self) -> TextDigest {
        let text = &self.text;
        *self.digest.get_or_insert_with(|| Blake2b::<U16>::digest(text.as_bytes()).into())
    }
}

/// How often a vector with several live sentences is shown, and counts in the centroid.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub enum Copies {
    #[default]
    Each,
    ShownOnce,
    CountedOnce,
}

/// The centroid S/n of the sentences that count.
#[derive(Clone, Copy, Default, Debug)]
pub struct Centroid {
    pub n: i64,
    /// |S|^2.
    pub total_square: i64,
}

impl Centroid {
    /// The distance of a sentence with this key in millionths, halves up:
    /// sqrt((n*key + |S|^2) / (n*scale)^2).
    pub fn micros(self, key: i64) -> u64 {
        let numerator = (self.n * key + self.total_square) as u128;
        let quadruple = 4_000_000_000_000 * numerator / ((self.n * SCALE) as u128).pow(2);
        (quadruple.isqrt() as u64).div_ceil(2)
    }
}

/// A ranked sentence: its key, and its number among the live ones.
pub type Ranked = (i64, u32);

#[derive(Default, Debug)]
pub struct Entity {
    /// Source offset of the event that created it.
    pub incarnation: u64,
    /// Whether it has rows, or an event of this micro-batch created it.
    pub exists: bool,
    pub counts: Counts,
    pub reviews: Vec<Review>,
    /// By id the numbers of the reviews, if they are more than few.
    numbers: HashMap<Arc<str>, u32>,
    pub newest: NewestFirst,
    pub sentences: Vec<Sentence>,
    copies: Copies,
    pub centroid: Centroid,
    pub dimension: usize,
    /// Of the sentences.
    vectors: Vec<Row>,
    /// |x|^2 of each.
    squares: Vec<i32>,
    /// x.S of each.
    products: Vec<i64>,
    /// Ids and digests of the set last published, in its rank order.
    pub published: Vec<Member>,
    /// Source offset of that change.
    pub sequence: Option<u64>,
    pub facets: FacetSets,
    /// Its number among the entities that a micro-batch touches.
    pub touched: Option<usize>,
    /// The last micro-batch that used it.
    pub used: u64,
    /// Approximate bytes in memory then, with its key.
    pub bytes: usize,
}

impl Entity {
    /// One without reviews.
    pub fn new(dimension: usize, copies: Copies) -> Self {
        Entity { dimension, copies, ..Entity::default() }
    }

    // -- reviews

    /// The number of a review.
    pub fn number(&self, review: &str) -> Option<u32> {
        if self.numbers.is_empty() {
            return self.reviews.iter().position(|one| *one.id == *review).map(|at| at as u32);
        }
        self.numbers.get(review).copied()
    }

    pub fn add_review(&mut self, review: Review) -> u32 {
        let number = self.reviews.len();
        push(&mut self.reviews, review);
        if number >= FEW_REVIEWS {
            let unnumbered = self.numbers.len()..=number;
            let named = unnumbered.map(|at| (self.reviews[at].id.clone(), at as u32));
            self.numbers.extend(named);
        }
        number as u32
    }

    /// Count a review as a live one (1), as such no more (-1), or leave it (0).
    pub fn count_review(&mut self, number: u32, by: i32) {
        self.counts.reviews.add(self.reviews[number as usize].details.rating, by);
    }

    /// The live sentences of a review, by position in it.
    pub fn sentences_of(&self, review: u32) -> Vec<u32> {
        let live = self.reviews[review as usize].live as usize;
        let own = (0..self.sentences.len()).rev(); // those of a new one are the last
        let own = own.filter(|at| self.sentences[*at].review == review);
        let mut found: Vec<u32> = own.take(live).map(|at| at as u32).collect();
        found.sort_unstable_by_key(|at| self.sentences[*at as usize].ordinal);
        found
    }

    /// Likewise of each of these reviews, which ascend, in any order.
    pub fn sentences_of_each(&self, reviews: &[u32]) -> Vec<Vec<u32>> {
        let mut found = vec![Vec::new(); reviews.len()];
        for (row, one) in (0..).zip(&self.sentences) {
            if let Ok(place) = reviews.binary_search(&one.review) {
                found[place].push(row);
            }
        }
        found
    }

    // -- sentences

    /// The id of a live sentence.
    fn id(&self, at: usize) -> SentenceId {
        let one = &self.sentences[at];
        let review = &self.reviews[one.review as usize].id;
        SentenceId { review: review.clone(), ordinal: one.ordinal }
    }

    /// The order of their texts.
    fn by_id(&self, at: usize, other: usize) -> Ordering {
        self.id(at).to_string().cmp(&self.id(other).to_string())
    }

    pub fn squares(&self) -> impl Iterator<Item = i64> {
        self.squares.iter().map(|square| i64::from(*square))
    }

    pub fn vector(&self, at: u32) -> &[i16] {
        &self.vectors[at as usize]
    }

    /// Add live sentences with these vectors, each of them in these sets of facets.
    pub fn add(&mut self, added: Vec<(Sentence, Sets)>, vectors: &[i16]) {
        make_room(&mut self.vectors, added.len());
        let mut added = added.into_iter();
        for vectors in vectors.chunks(AT_ONCE * self.dimension) {
            let vectors: Vec<&[i16]> = vectors.chunks_exact(self.dimension).collect();
            self.vectors.extend(vectors.iter().map(|vector| Row::from(*vector)));
            let products = products_of(&self.vectors, &vectors);
            for (products, (sentence, sets)) in products.iter().zip(added.by_ref()) {
                self.add_sentence(sentence, sets, products);
            }
        }
    }

    /// Add the next sentence, whose vector is there; `products` are its own with all others.
    fn add_sentence(&mut self, sentence: Sentence, sets: Sets, products: &[i64]) {
        let row = self.sentences.len();
        let (own, products) = (products[row], &products[..row]);
        self.reviews[sentence.review as usize].live += 1;
        push(&mut self.squares, own as i32); // about SCALE squared, below 2^31
        push(&mut self.sentences, sentence);
        let product = match self.count_sentence(row) {
            Some(copy) => self.products[copy],
            None => {
                let counting = products.iter().zip(&self.sentences);
                let counting = counting.filter(|(_, one)| self.is_counting(one));
                let before: i64 = counting.map(|(product, _)| product).sum(); // vector.S
                self.change(products, 1);
                if !self.facets.is_empty() {
                    self.facets.add(sets, products, own);
                }
                self.centroid.total_square += 2 * before + own;
                before + own
            }
        };
        push(&mut self.products, product);
    }

    /// Remove these live sentences.
    pub fn remove(&mut self, mut gone: Vec<u32>) {
        gone.sort_unstable();
        while !gone.is_empty() {
            self.remove_last(gone.split_off(gone.len().saturating_sub(AT_ONCE)));
        }
    }

    /// Remove these, from the last one to the first.
    fn remove_last(&mut self, mut gone: Vec<u32>) {
        let vectors: Vec<&[i16]> = gone.iter().map(|row| self.vector(*row)).collect();
        let mut products = products_of(&self.vectors, &vectors);
        while let (Some(at), Some(own)) = (gone.pop(), products.pop()) {
            let row = at as usize;
            if self.uncount_sentence(row) {
                self.centroid.total_square += own[row] - 2 * self.products[row];
                self.change(&own, -1);
                if !self.facets.is_empty() {
                    self.facets.remove(row, &own, own[row]);
                }
            }
            let sentence = self.sentences.swap_remove(row);
            self.reviews[sentence.review as usize].live -= 1;
            self.squares.swap_remove(row);
            self.products.swap_remove(row);
            self.vectors.swap_remove(row);
            for others in &mut products {
                others.swap_remove(row);
            }
        }
    }

    /// Add the products with a vector, `sign` times, to those of the live sentences.
    fn change(&mut self, products: &[i64], sign: i64) {
        for (of_all, product) in self.products.iter_mut().zip(products) {
            *of_all += sign * product;
        }
    }

    /// Its products with all live sentences.
    pub fn products_with(&self, row: u32) -> Vec<i64> {
        products_of(&self.vectors, &[self.vector(row)]).swap_remove(0)
    }

    /// Fill in the products x.S of these sentences, S being their sum, and return |S|^2.
    pub fn products_of(&self, rows: &[usize], products: &mut [i64]) -> i64 {
        let vectors: Vec<&[i16]> = rows.iter().map(|row| &*self.vectors[*row]).collect();
        let total = total(&vectors, self.dimension);
        for (row, product) in rows.iter().zip(products_with(&vectors, &total)) {
            products[*row] = product;
        }
        total.iter().map(|sum| i64::from(*sum).pow(2)).sum()
    }

    /// Begin with these sentences in an entity without any. `None`: a vector is too long.
    pub fn fill(&mut self, sentences: Vec<Sentence>, vectors: Vec<Row>) -> Option<()> {
        let squares = vectors.iter().map(|vector| i32::try_from(square(vector)).ok());
        self.squares = squares.collect::<Option<_>>()?;
        (self.sentences, self.vectors) = (sentences, vectors);
        let all: Vec<&[i16]> = self.vectors.iter().map(|row| &**row).collect();
        let mut total = total(&all, self.dimension);
        for at in 0..self.sentences.len() {
            if self.count_sentence(at).is_some() {
                total
                    .iter_mut()
                    .zip(&self.vectors[at])
                    .for_each(|(sum, number)| *sum -= i32::from(*number));
            }
        }
        let all: Vec<&[i16]> = self.vectors.iter().map(|row| &**row).collect();
        self.products = products_with(&all, &total);
        self.centroid.total_square = total.iter().map(|sum| i64::from(*sum).pow(2)).sum();
        Some(())
    }

    // -- copies

    /// Those of the first `rows` sentences, but this one, that have its vector.
    pub fn copies_of(&self, at: usize, rows: usize) -> Vec<usize> {
        let (own, vector) = (self.squares[at], self.vector(at as u32));
        let alike = self.squares[..rows].iter().enumerate().filter(|(_, other)| **other == own);
        let copies = alike.map(|(row, _)| row).filter(|row| *row != at);
        copies.filter(|row| self.vector(*row as u32) == vector).collect()
    }

    /// Whether a live sentence counts in the centroid.
    fn is_counting(&self, one: &Sentence) -> bool {
        one.is_lowest || self.copies != Copies::CountedOnce
    }

    /// Count a sentence with the copies before it; one that counts in the centroid for it.
    fn count_sentence(&mut self, at: usize) -> Option<usize> {
        let copies = self.copies_of(at, at);
        for row in copies.iter().chain([&at]) {
            self.sentences[*row].support = copies.len() as u32 + 1;
        }
        let lowest = copies.into_iter().find(|row| self.sentences[*row].is_lowest);
        if let Some(row) = lowest {
            let is_lower = self.by_id(at, row).is_lt();
            self.sentences[if is_lower { row } else { at }].is_lowest = false;
        }
        let counting = lowest.filter(|_| self.copies == Copies::CountedOnce);
        self.centroid.n += i64::from(counting.is_none());
        counting
    }

    /// Count a sentence no more; whether none counts in the centroid for it.
    fn uncount_sentence(&mut self, at: usize) -> bool {
        let copies = self.copies_of(at, self.sentences.len());
        for row in &copies {
            self.sentences[*row].support = copies.len() as u32;
        }
        let lowest = copies.into_iter().min_by(|a, b| self.by_id(*a, *b));
        if let Some(row) = lowest {
            self.sentences[row].is_lowest = true;
        }
        let is_last = lowest.is_none() || self.copies != Copies::CountedOnce;
        self.centroid.n -= i64::from(is_last);
        is_last
    }

    // -- the summary

    /// The k nearest to the centroid, in rank order.
    pub fn rank(&self, k: usize) -> Vec<Ranked> {
        let (n, is_each) = (self.centroid.n, self.copies == Copies::Each);
        let numbers = self.squares().zip(&self.products).zip(0..);
        let ranked = numbers
            .filter(|(_, at)| is_each || self.sentences[*at as usize].is_lowest)
            .map(|((own, product), at)| (n * own - 2 * product, at))
            .collect();
        self.nearest(ranked, k)
    }

    /// The k lowest keys in order, by id where keys are equal.
    pub fn nearest(&self, mut ranked: Vec<Ranked>, k: usize) -> Vec<Ranked> {
        let by_id = |a: &Ranked, b: &Ranked| self.by_id(a.1 as usize, b.1 as usize);
        let order = |a: &Ranked, b: &Ranked| a.0.cmp(&b.0).then_with(|| by_id(a, b));
        if k < ranked.len() {
            ranked.select_nth_unstable_by(k, order);
            ranked.truncate(k);
        }
        ranked.sort_unstable_by(order);
        ranked
    }

    /// Whether these are the sentences of the present set, of so many, as far as that is known.
    pub fn is_shown(&self, ranked: &[Ranked], count: usize) -> bool {
        let is_in = |one: &Ranked| self.sentences[one.1 as usize].is_shown;
        ranked.len() == count && ranked.iter().all(is_in)
    }

    /// Ids and digests of these sentences.
    pub fn set_of(&mut self, ranked: &[Ranked]) -> Vec<Member> {
        let mut named = |at: u32| {
            let id = self.id(at as usize);
            (id, self.sentences[at as usize].digest())
        };
        ranked.iter().map(|(_, at)| named(*at)).collect()
    }

    /// Note that the present set has these sentences.
    pub fn mark(&mut self, ranked: &[Ranked]) {
        for one in &mut self.sentences {
            one.is_shown = false;
        }
        for (_, at) in ranked {
            self.sentences[*at as usize].is_shown = true;
        }
        for (row, one) in self.sentences.iter_mut().enumerate() {
            if !one.is_shown && !self.facets.shows(row) {
                one.quote = None;
            }
        }
    }

    /// Approximate bytes in memory.
    pub fn measure(&self) -> usize {
        let allocated = |bytes: usize| if bytes == 0 { 0 } else { bytes + ALLOCATED };
        let of_sentence = |one: &Sentence| {
            let quote = one.quote.as_ref().map_or(0, |quote| quote.len() + ALLOCATED);
            allocated(one.text.len()) + allocated(quote)
        };
        let of_findings = |one: &Findings| {
            let language = one.language.as_deref().map_or(0, str::len);
            allocated(size_of::<Findings>()) + allocated(language)
        };
        let of_review = |one: &Review| {
            let Details { occurred_at, language, country, author_id, .. } = &one.details;
            let texts = [occurred_at, language, country, author_id];
            allocated(one.id.len() + 16)
                + one.findings.as_deref().map_or(0, of_findings)
                + texts.into_iter().flatten().map(|text| allocated(text.len())).sum::<usize>()
        };
        size_of::<Entity>()
            + self.vectors.capacity() * size_of::<Row>()
            + self.vectors.len() * allocated(2 * self.dimension)
            + self.squares.capacity() * size_of::<i32>()
            + self.products.capacity() * size_of::<i64>()
            + self.sentences.capacity() * size_of::<Sentence>()
            + self.sentences.iter().map(of_sentence).sum::<usize>()
            + self.reviews.capacity() * size_of::<Review>()
            + self.reviews.iter().map(of_review).sum::<usize>()
            + self.numbers.capacity() * 32
            + self.published.capacity() * size_of::<Member>()
            + self.facets.measure()
    }
}

/// Room for so many more, and an eighth: there are many small entities.
fn make_room<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() < list.len() + more {
        list.reserve_exact(list.len() / 8 + more);
    }
}

fn push<T>(list: &mut Vec<T>, one: T) {
    make_room(list, 1);
    list.push(one);
}
