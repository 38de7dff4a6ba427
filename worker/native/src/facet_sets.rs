//! The facets of an entity: which of its sentences are in which sets, and the counts of reviews.
//!
//! The rules are those of `worker.processing.facets` and `worker.processing.tracked_sets`.

use crate::facets::{Criteria, SetOf, Sets};
use crate::reservoir::{Copies, Live, Reservoir};
use crate::review::{Member, ReviewCounts};

#[derive(Default, Debug)]
pub struct Set {
    pub of: SetOf,
    pub nearest: Reservoir,
    /// The sentences of the present set when it became that.
    pub shown: Vec<u32>,
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
    /// By place of a live sentence.
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
        let set = |of: &SetOf| Set {
            of: *of,
            nearest: Reservoir::new(of.k, Copies::Each),
            ..Set::default()
        };
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

    /// A sentence comes. `all`: its products with all others, if they are few.
    pub fn add(&mut self, live: Live, row: u32, sets: Sets, all: Option<&[i64]>) {
        if !self.is_empty() {
            let places = self.of.len().max(row as usize + 1);
            self.of.resize(places, Sets::default());
            self.shown.resize(places, Sets::default());
            self.shown[row as usize] = Sets::default();
            self.move_to(live, row, sets, all);
        }
    }

    /// A sentence leaves sets and joins others.
    pub fn move_to(&mut self, live: Live, row: u32, sets: Sets, all: Option<&[i64]>) {
        for set in &mut self.sets {
            let (was_in, is_in) = (set.of.is_in(&self.of[row as usize]), set.of.is_in(&sets));
            if was_in && !is_in {
                set.nearest.remove(live, row, all, true);
            } else if is_in && !was_in {
                set.nearest.add(live, row, all, true);
            }
            set.is_touched |= was_in != is_in;
        }
        if let Some(of) = self.of.get_mut(row as usize) {
            *of = sets;
        }
    }

    /// Whether a present set has the sentence.
    pub fn shows(&self, row: u32) -> bool {
        self.shown.get(row as usize).is_some_and(|shown| *shown != Sets::default())
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
        self.sets[facet].nearest.centroid.n
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
        let set = |set: &Set| size_of::<Set>() + set.nearest.measure() + members(set);
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
}
