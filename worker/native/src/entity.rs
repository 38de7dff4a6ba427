//! An entity in memory: its reviews, its live sentences with their vectors, and its summary.

use crate::event::Given;
use crate::facet_sets::FacetSets;
use crate::facets::Sets;
use crate::newest::NewestFirst;
use crate::reservoir::{Copies, Live, Ranked, Reservoir};
use crate::review::{Counts, Member, Review, SentenceId, TextDigest};
use crate::vector::{AT_ONCE, Vectors, allocated, push};
use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem::{replace, take};
use std::sync::Arc;

/// Reviews that are looked through as fast as a table is asked, and without its memory.
const FEW_REVIEWS: usize = 32;
/// Most live sentences of an entity with which all numbers fit: |S|^2 is below 2^61.
pub const MOST: usize = 32_768;
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
    /// Of the text, once it was needed.
    digest: Option<TextDigest>,
    /// The part of it that is the same in every message, while it is shown.
    pub quote: Option<Arc<[u8]>>,
}

impl Sentence {
    pub fn new(review: u32, ordinal: u32, text: Box<str>) -> Self {
        Sentence { text, review, ordinal, ..Sentence::default() }
    }

    pub fn digest(&mut self) -> TextDigest {
        let text = &self.text;
        *self.digest.get_or_insert_with(|| Blake2b::<U16>::digest(text.as_bytes()).into())
    }

    /// Approximate bytes in memory beside its own.
    fn measure(&self) -> usize {
        allocated(self.text.len()) + self.quote.as_ref().map_or(0, |quote| allocated(quote.len()))
    }
}

#[derive(Default, Debug)]
pub struct Entity {
    /// Source offset of the event that created it.
    pub incarnation: u64,
    /// Whether it has rows, or an event of this micro-batch created it.
    pub exists: bool,
    pub counts: Counts,
    pub reviews: Vec<Review>,
    /// By id the numbers of the reviews, if they are more than few.
    numbers: BTreeMap<Arc<str>, u32>,
    pub newest: NewestFirst,
    /// At the places of their vectors.
    pub sentences: Vec<Sentence>,
    pub vectors: Vectors,
    copies: Copies,
    pub summary: Reservoir,
    /// The sentences of the present set.
    shown: Vec<u32>,
    /// Approximate bytes of texts and reviews beside their lists.
    held: usize,
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

/// The order of the texts of sentences' ids.
pub fn by_id(sentences: &[Sentence], reviews: &[Review]) -> impl Fn(u32, u32) -> Ordering {
    let part = |row: u32| {
        let one = &sentences[row as usize];
        (&*reviews[one.review as usize].id, one.ordinal)
    };
    move |one, other| {
        let (one, other) = (part(one), part(other));
        let shared = one.0.len().min(other.0.len());
        let text = |(review, ordinal)| format!("{review}#{ordinal}");
        let starts = (&one.0.as_bytes()[..shared], &other.0.as_bytes()[..shared]);
        starts.0.cmp(starts.1).then_with(|| text(one).cmp(&text(other)))
    }
}

impl Entity {
    /// One without reviews.
    pub fn new(dimension: usize, k: usize, copies: Copies) -> Self {
        let (vectors, summary) = (Vectors::new(dimension), Reservoir::new(k, copies));
        Entity { vectors, copies, summary, ..Entity::default() }
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
        self.reviews[review as usize].live.clone()
    }

    // -- sentences

    /// The id of a live sentence.
    fn id(&self, at: u32) -> SentenceId {
        let one = &self.sentences[at as usize];
        let review = &self.reviews[one.review as usize].id;
        SentenceId { review: review.clone(), ordinal: one.ordinal }
    }

    /// Of sentences whose texts these rows have, take the vectors of those over.
    pub fn keep_vectors(&self, rows: &[u32], sentences: &[Given], vectors: &mut [i16]) {
        for (one, x) in sentences.iter().zip(vectors.chunks_exact_mut(self.vectors.dimension)) {
            let has_text = |row: &&u32| self.sentences[**row as usize].text == one.text;
            if let Some(row) = rows.iter().rev().find(has_text) {
                x.copy_from_slice(self.vectors.get(*row));
            }
        }
    }

    /// Add live sentences of a review with these vectors, each of them in these sets of facets.
    pub fn add(&mut self, added: Vec<(Sentence, Sets)>, vectors: &[i16]) {
        let mut added = added.into_iter();
        let dimension = self.vectors.dimension;
        for vectors in vectors.chunks(AT_ONCE * dimension) {
            let vectors: Vec<&[i16]> = vectors.chunks_exact(dimension).collect();
            let insert = |x: &&[i16]| {
                let row = self.vectors.insert((*x).into());
                (row, self.is_counting(row))
            };
            let rows: Vec<(u32, bool)> = vectors.iter().map(insert).collect();
            let all = self.vectors.products_with_all(&vectors);
            for (at, ((row, is_counting), one)) in rows.into_iter().zip(added.by_ref()).enumerate()
            {
                self.add_sentence(row, one, all.get(at).map(Vec::as_slice), is_counting);
            }
        }
    }

    /// Add a sentence whose vector is at this place. `all`: its products with all others, if they
    /// are few.
    fn add_sentence(
        &mut self,
        row: u32,
        (sentence, sets): (Sentence, Sets),
        all: Option<&[i64]>,
        is_counting: bool,
    ) {
        self.held += sentence.measure();
        push(&mut self.reviews[sentence.review as usize].live, row);
        if let Some(place) = self.sentences.get_mut(row as usize) {
            *place = sentence;
        } else {
            push(&mut self.sentences, sentence);
        }
        let by_id = &by_id(&self.sentences, &self.reviews);
        let live = Live { vectors: &self.vectors, by_id };
        self.summary.add(live, row, all, is_counting);
        self.facets.add(live, row, sets, all);
    }

    /// Remove these live sentences.
    pub fn remove(&mut self, gone: &[u32]) {
        for rows in gone.chunks(AT_ONCE) {
            let vectors: Vec<&[i16]> = rows.iter().map(|row| self.vectors.get(*row)).collect();
            let all = self.vectors.products_with_all(&vectors);
            for (at, row) in rows.iter().enumerate() {
                self.remove_sentence(*row, all.get(at).map(Vec::as_slice));
            }
        }
    }

    fn remove_sentence(&mut self, row: u32, all: Option<&[i64]>) {
        let is_counting = self.is_counting(row);
        let by_id = by_id(&self.sentences, &self.reviews);
        let live = Live { vectors: &self.vectors, by_id: &by_id };
        self.summary.remove(live, row, all, is_counting);
        self.facets.move_to(live, row, Sets::default(), all);
        drop(by_id);
        self.vectors.remove(row);
        let sentence = take(&mut self.sentences[row as usize]);
        self.held -= sentence.measure();
        self.reviews[sentence.review as usize].live.retain(|other| *other != row);
    }

    /// Whether a sentence counts in the centroid, but for copies that are no vectors yet.
    fn is_counting(&self, row: u32) -> bool {
        self.copies != Copies::CountedOnce || !self.vectors.has_copy(row)
    }

    /// Begin with these sentences in an entity without any, each at the place of its vector.
    pub fn fill(&mut self, sentences: Vec<Sentence>, vectors: Vectors) {
        (self.sentences, self.vectors) = (sentences, vectors);
        for (row, one) in (0..).zip(&self.sentences) {
            self.held += one.measure();
            push(&mut self.reviews[one.review as usize].live, row);
        }
        let mut counting: Vec<u32> = (0..self.vectors.places() as u32).collect();
        if self.copies == Copies::CountedOnce {
            let vector = |row: u32| (self.vectors.square(row), self.vectors.get(row));
            counting.sort_unstable_by(|one, other| vector(*one).cmp(&vector(*other)));
            counting.dedup_by(|one, other| vector(*one) == vector(*other));
        }
        let by_id = &by_id(&self.sentences, &self.reviews);
        let live = Live { vectors: &self.vectors, by_id };
        self.summary.begin(live, &[(1, &self.vectors.sum(&counting))], |_| true);
    }

    // -- the summary

    /// The k nearest to the centroid, in rank order.
    pub fn rank(&mut self) -> Vec<Ranked> {
        let by_id = &by_id(&self.sentences, &self.reviews);
        self.summary.rank(Live { vectors: &self.vectors, by_id }, |row| self.vectors.has(row))
    }

    /// Whether these are the sentences of the present set, of so many, as far as that is known.
    pub fn is_shown(&self, ranked: &[Ranked], count: usize) -> bool {
        let is_in = |one: &Ranked| self.sentences[one.row as usize].is_shown;
        ranked.len() == count && ranked.iter().all(is_in)
    }

    /// Ids and digests of these sentences.
    pub fn set_of(&mut self, ranked: &[Ranked]) -> Vec<Member> {
        let mut named = |row: u32| (self.id(row), self.sentences[row as usize].digest());
        ranked.iter().map(|one| named(one.row)).collect()
    }

    /// Note that the present set has these sentences.
    pub fn mark(&mut self, ranked: &[Ranked]) {
        let before = replace(&mut self.shown, ranked.iter().map(|one| one.row).collect());
        for row in &before {
            self.sentences[*row as usize].is_shown = false;
        }
        for row in &self.shown {
            self.sentences[*row as usize].is_shown = true;
        }
        self.drop_quotes(&before);
    }

    /// The part of a sentence that is the same in every message, which is `made` once.
    pub fn quote(&mut self, row: u32, made: impl Fn(&Sentence, &Review) -> Vec<u8>) -> Arc<[u8]> {
        let one = &mut self.sentences[row as usize];
        if let Some(quote) = &one.quote {
            return quote.clone();
        }
        let quote: Arc<[u8]> = made(one, &self.reviews[one.review as usize]).into();
        self.held += allocated(quote.len());
        one.quote.insert(quote).clone()
    }

    /// Forget the quotes of those that no present set has.
    pub fn drop_quotes(&mut self, rows: &[u32]) {
        for row in rows {
            let one = &mut self.sentences[*row as usize];
            if !one.is_shown && !self.facets.shows(*row) {
                self.held -= one.quote.take().map_or(0, |quote| allocated(quote.len()));
            }
        }
    }

    /// Note what these reviews take now.
    pub fn measure_reviews(&mut self, changed: impl IntoIterator<Item = u32>) {
        for number in changed {
            let review = &mut self.reviews[number as usize];
            let bytes = review.measure();
            self.held = self.held + bytes - replace(&mut review.bytes, bytes);
        }
    }

    /// Approximate bytes in memory.
    pub fn measure(&self) -> usize {
        size_of::<Entity>()
            + self.held
            + self.vectors.measure()
            + self.summary.measure()
            + self.sentences.capacity() * size_of::<Sentence>()
            + self.reviews.capacity() * size_of::<Review>()
            + self.numbers.len() * 32
            + self.published.capacity() * size_of::<Member>()
            + self.facets.measure()
    }
}
