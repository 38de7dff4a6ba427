//! The facets of an entity: which of its sentences are in which sets, and the counts of reviews.
//!
//! The rules are those of `worker.processing.facets` and `worker.processing.tracked_sets`.

use crate::facets::{Criteria, SetOf, Sets};
use crate::review::{Member, ReviewCounts};

/// One set; a list has a number for each live sentence of the entity, in its order.
#[derive(Default, Debug)]
pub struct Set {
    pub of: SetOf,
    pub n: i64,
    /// x.S of each that is in it.
    pub products: Vec<i64>,
    /// |S|^2.
    pub total_square: i64,
    /// The present set, which is that last published: ids and digests.
    pub now: Vec<Member>,
    /// Likewise in the order of then, if it was another.
    pub stored: Option<Vec<Member>>,
    pub published_mentions: u32,
    /// Whether its sentences changed since it was ranked.
    pub is_touched: bool,
}

/// The sets of an entity in the order of their row; none without facets.
#[derive(Default, Debug)]
pub struct FacetSets {
    pub sets: Vec<Set>,
    /// Of each live sentence.
    pub of: Vec<Sets>,
    /// Likewise those whose present set has it, with this text.
    pub shown: Vec<Sets>,
    /// By visible facet, the reviews with such a sentence.
    pub reviews: Vec<ReviewCounts>,
    /// Likewise those with its words.
    pub mentions: Vec<ReviewCounts>,
    /// Likewise how messages have it, until it changes.
    pub encoded: Vec<Option<Box<[u8]>>>,
    /// Source offset of the last change that was published.
    pub sequence: Option<u64>,
}

impl FacetSets {
    pub fn new(criteria: &Criteria) -> Self {
        let set = |of: &SetOf| Set { of: *of, ..Set::default() };
        let facets = criteria.plain.facets.len();
        FacetSets {
            sets: criteria.sets.iter().map(set).collect(),
            reviews: vec![ReviewCounts::default(); facets],
            mentions: vec![ReviewCounts::default(); facets],
            encoded: vec![None; facets],
            ..FacetSets::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// A sentence comes last; `products` are its own with the others, `square` with itself.
    pub fn add(&mut self, sets: Sets, products: &[i64], square: i64) {
        for set in &mut self.sets {
            let is_in = set.of.is_in(&sets);
            let before = if is_in { set.change(&self.of, products, 1) } else { 0 };
            if is_in {
                set.n += 1;
                set.total_square += 2 * before + square;
            }
            set.products.push(before + square);
        }
        self.of.push(sets);
        self.shown.push(Sets::default());
    }

    /// A sentence goes, and the last one takes its place.
    pub fn remove(&mut self, row: usize, products: &[i64], square: i64) {
        for set in &mut self.sets {
            if set.of.is_in(&self.of[row]) {
                set.n -= 1;
                set.total_square += square - 2 * set.products[row];
                set.change(&self.of, products, -1);
            }
            set.products.swap_remove(row);
        }
        self.of.swap_remove(row);
        self.shown.swap_remove(row);
    }

    /// A sentence leaves sets and joins others.
    pub fn move_to(&mut self, row: usize, sets: Sets, products: &[i64], square: i64) {
        for set in &mut self.sets {
            match (set.of.is_in(&self.of[row]), set.of.is_in(&sets)) {
                (true, false) => {
                    set.n -= 1;
                    set.total_square += square - 2 * set.products[row];
                    set.change(&self.of, products, -1);
                }
                (false, true) => {
                    let before = set.change(&self.of, products, 1);
                    set.n += 1;
                    set.total_square += 2 * before + square;
                    set.products[row] = before + square;
                }
                _ => (),
            }
        }
        self.of[row] = sets;
    }

    /// Whether a present set has the sentence.
    pub fn shows(&self, row: usize) -> bool {
        self.shown.get(row).is_some_and(|shown| *shown != Sets::default())
    }

    /// Count a review of these live sentences, which mentions these facets.
    pub fn count(
        &mut self,
        criteria: &Criteria,
        rows: &[u32],
        mentions: u64,
        rating: Option<u8>,
        by: i32,
    ) {
        let joined = rows.iter().fold(0, |bits, row| bits | self.of[*row as usize][0]);
        for (at, facet) in criteria.plain.facets.iter().enumerate() {
            for (bits, counts) in [(joined, &mut self.reviews), (mentions, &mut self.mentions)] {
                if bits >> facet.number & 1 == 1 {
                    counts[at].add(rating, by);
                    self.encoded[at] = None;
                }
            }
        }
    }

    /// By facet its mentions, where changes of them may be published.
    pub fn mentions_if(&self, criteria: &Criteria) -> Vec<u32> {
        let counts = self.mentions.iter().filter(|_| criteria.plain.emit_mentions > 0);
        counts.map(|reviews| reviews.count).collect()
    }

    /// Ids and digests of each set last published, and the reviews that mentioned its facet then.
    pub fn published(&self) -> impl ExactSizeIterator<Item = (&[Member], u32)> {
        self.sets.iter().map(|set| (set.published(), set.published_mentions))
    }

    /// The present sets and mentions are those last published.
    pub fn on_published(&mut self, sequence: u64) {
        self.sequence = Some(sequence);
        for set in &mut self.sets {
            set.stored = None;
            set.published_mentions =
                if set.of.part == 0 { self.mentions[set.of.facet].count } else { 0 };
        }
    }

    /// Of a visible facet the sentences that it takes.
    pub fn sentences(&self, facet: usize) -> i64 {
        self.sets[facet].n
    }

    /// The sets of this facet: all, praise, complaints.
    pub fn of_facet(&self, facet: usize) -> impl Iterator<Item = usize> {
        (0..self.sets.len()).filter(move |at| self.sets[*at].of.facet == facet)
    }

    /// Facets whose mentions differ from those last published by at least so many percent.
    pub fn are_mentions_due(&self, set: &Set, percent: u64) -> bool {
        let count = if set.of.part == 0 { self.mentions[set.of.facet].count } else { 0 };
        let (now, before) = (u64::from(count), u64::from(set.published_mentions));
        percent > 0 && now != before && 100 * now.abs_diff(before) >= percent * before
    }

    pub fn measure(&self) -> usize {
        let members = |set: &Set| {
            let all = set.now.iter().chain(set.stored.iter().flatten());
            size_of::<Member>() * all.count()
        };
        let set = |set: &Set| size_of::<Set>() + 8 * set.products.capacity() + members(set);
        let encoded = self.encoded.iter().flatten().map(|one| one.len()).sum::<usize>();
        self.sets.iter().map(set).sum::<usize>()
            + 2 * size_of::<Sets>() * self.of.capacity()
            + self.reviews.len() * (2 * size_of::<ReviewCounts>() + 16)
            + encoded
    }
}

impl Set {
    fn published(&self) -> &[Member] {
        self.stored.as_ref().unwrap_or(&self.now)
    }

    /// Add the products with a sentence that comes (1) or goes (-1) to those of all others, and
    /// return their sum.
    fn change(&mut self, of: &[Sets], products: &[i64], sign: i64) -> i64 {
        let mut sum = 0;
        for ((own, sets), product) in self.products.iter_mut().zip(of).zip(products) {
            if self.of.is_in(sets) {
                *own += sign * product;
                sum += product;
            }
        }
        self.is_touched = true;
        sum
    }
}
