//! The sets of an entity's facets, ranked as the summary is, each by the sentences that it takes.

use crate::entity::{Entity, by_id};
use crate::facet_sets::FacetSets;
use crate::facets::{Criteria, Sets};
use crate::reservoir::{Centroid, Copies, Live, Ranked, Reservoir};
use crate::review::{Member, in_order_of};
use crate::vector::Sum;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::mem::{replace, take};

/// Sentences that are moved in the time in which a set begins again.
const ONE_BY_ONE: usize = 8;

/// The sentences of a set in rank order, and their centroid.
pub type RankedSet = (Vec<Ranked>, Centroid);

/// What an event did to the sets of an entity.
pub struct Changed {
    /// By set, whether it has other sentences than before, or its mentions are due.
    pub sets: Vec<bool>,
    /// Of those whose sentences changed.
    pub rankings: Vec<Option<RankedSet>>,
}

impl Entity {
    /// Begin with sets of these sentences, all that the entity has. `published`: the sets last
    /// published, with their mentions; `None`: they are not the present ones.
    pub fn fill_facets(
        &mut self,
        criteria: &Criteria,
        of: Vec<Sets>,
        published: Vec<(Vec<Member>, u32)>,
    ) -> Option<()> {
        let none = vec![Sets::default(); of.len()];
        let (sequence, shown) = (self.facets.sequence, none.clone());
        self.facets = FacetSets { of: none, shown, sequence, ..FacetSets::new(criteria) };
        self.move_at_once(&(0..).zip(of).collect::<Vec<_>>());
        self.rank_facets();
        let sets = &mut self.facets.sets;
        if published.is_empty() {
            return sets.iter().all(|set| set.now.is_empty()).then_some(());
        }
        if published.len() != sets.len() {
            return None;
        }
        for (set, (stored, mentions)) in sets.iter_mut().zip(published) {
            let stored = in_order_of(&stored, &set.now)?;
            set.published_mentions = mentions;
            set.stored = (stored != set.now).then_some(stored);
        }
        Some(())
    }

    /// Move the sentences of reviews that join or leave facets of the newest ones.
    pub fn settle_newest(&mut self, criteria: &Criteria) {
        let moved = self.newest.moved(&self.reviews, &criteria.plain.recent);
        if moved.is_empty() {
            return;
        }
        let (numbers, bits): (Vec<u32>, Vec<u64>) = moved.into_iter().unzip();
        let own: Vec<_> = numbers.iter().map(|number| self.sentences_of(*number)).collect();
        let mut moved = Vec::new();
        for ((number, rows), bits) in numbers.iter().zip(&own).zip(bits) {
            self.count_in_facets(criteria, *number, rows, -1);
            self.reviews[*number as usize].findings_mut().recent = bits;
            let sets = rows.iter().map(|row| (*row, self.sets_of(criteria, *row)));
            moved.extend(sets.filter(|(row, sets)| self.facets.of[*row as usize] != *sets));
        }
        self.move_sentences(&moved);
        for (number, rows) in numbers.iter().zip(&own) {
            self.count_in_facets(criteria, *number, rows, 1);
        }
    }

    /// Move live sentences to these sets of facets, which are others than theirs.
    fn move_sentences(&mut self, moved: &[(u32, Sets)]) {
        if moved.len() > ONE_BY_ONE * self.facets.sets.len() {
            return self.move_at_once(moved);
        }
        let by_id = &by_id(&self.sentences, &self.reviews);
        for (row, sets) in moved {
            self.facets.move_to(Live { vectors: &self.vectors, by_id }, *row, *sets, None);
        }
    }

    /// Likewise: each set that changes begins again, from those that stay or from those that move,
    /// whichever are fewer. The same ones move between many sets: their sum is that of all these.
    fn move_at_once(&mut self, moved: &[(u32, Sets)]) {
        let mut facets = take(&mut self.facets);
        let mut alike = BTreeMap::<(Sets, Sets), (Vec<u32>, OnceCell<Sum>)>::new();
        for (row, sets) in moved {
            let before = replace(&mut facets.of[*row as usize], *sets);
            alike.entry((before, *sets)).or_default().0.push(*row);
        }
        let by_id = &by_id(&self.sentences, &self.reviews);
        let live = Live { vectors: &self.vectors, by_id };
        for set in &mut facets.sets {
            let has = |sets| i64::from(set.of.is_in(sets));
            let moves = alike.iter().map(|((before, now), of)| (has(now) - has(before), of));
            let moves: Vec<_> = moves.filter(|(sign, _)| *sign != 0).collect();
            let is_in = |row: u32| set.of.is_in(&facets.of[row as usize]);
            let gone = moves.iter().filter(|(sign, _)| *sign < 0);
            let gone: usize = gone.map(|(_, (rows, _))| rows.len()).sum();
            let staying: Vec<u32> = (0..facets.of.len() as u32).filter(|row| is_in(*row)).collect();
            if staying.len() < gone {
                set.nearest = Reservoir::new(set.of.k, Copies::Each);
                set.nearest.begin(live, &[(1, &self.vectors.sum(&staying))], is_in);
            } else if !moves.is_empty() {
                let summed = moves
                    .iter()
                    .map(|(sign, (rows, sum))| (*sign, sum.get_or_init(|| self.vectors.sum(rows))));
                set.nearest.begin(live, &summed.collect::<Vec<_>>(), is_in);
            }
            set.is_touched |= !moves.is_empty();
        }
        self.facets = facets;
    }

    /// The sets that a live sentence belongs to.
    pub fn sets_of(&self, criteria: &Criteria, row: u32) -> Sets {
        let one = &self.sentences[row as usize];
        let review = &self.reviews[one.review as usize];
        let bits = criteria.admits(review);
        criteria.sets_of(self.vectors.get(row), one.labels, bits, review.details.rating)
    }

    /// Find the facets that a review mentions from the words of its sentences, which are these.
    pub fn find_mentions(&mut self, number: u32, rows: &[u32]) {
        let words = rows.iter().filter_map(|row| self.sentences[*row as usize].words);
        let mentions = words.fold(0, |bits, one| bits | one);
        let review = &mut self.reviews[number as usize];
        if mentions != review.findings().mentions {
            review.findings_mut().mentions = mentions;
        }
    }

    /// Count a review in the facets of its sentences, which are these, and in those that it
    /// mentions: once more (1), or no more (-1).
    pub fn count_in_facets(&mut self, criteria: &Criteria, number: u32, rows: &[u32], by: i32) {
        let review = &self.reviews[number as usize];
        if review.is_deleted || review.live.is_empty() {
            return;
        }
        let mentions = match review.findings().mentions {
            0 => 0,
            bits => bits & criteria.admits(review),
        };
        self.facets.count(criteria, rows, mentions, review.details.rating, by);
    }

    /// Rank the sets whose sentences changed; which are other sets now, and these rankings.
    pub fn rank_facets(&mut self) -> Changed {
        let mut facets = take(&mut self.facets);
        let mut changed = Changed { sets: Vec::new(), rankings: Vec::new() };
        let mut unmarked = Vec::new();
        for set in &mut facets.sets {
            let mut is_changed = false;
            let ranking = replace(&mut set.is_touched, false).then(|| {
                let is_in = |row: u32| set.of.is_in(&facets.of[row as usize]);
                let by_id = by_id(&self.sentences, &self.reviews);
                let live = Live { vectors: &self.vectors, by_id: &by_id };
                let ranked = set.nearest.rank(live, is_in);
                drop(by_id);
                facets.encoded[set.of.facet] = None;
                let is_shown = |one: &Ranked| set.of.is_in(&facets.shown[one.row as usize]);
                if ranked.len() != set.now.len() || !ranked.iter().all(is_shown) {
                    let now = self.set_of(&ranked);
                    for row in &set.shown {
                        facets.shown[*row as usize][set.of.part] &= !set.of.bit;
                    }
                    unmarked.append(&mut set.shown);
                    for one in &ranked {
                        facets.shown[one.row as usize][set.of.part] |= set.of.bit;
                        set.shown.push(one.row);
                    }
                    is_changed = !is_same(&now, &set.now);
                    let before = replace(&mut set.now, now);
                    if !is_changed && set.now != before {
                        set.stored.get_or_insert(before);
                    }
                }
                (ranked, set.nearest.centroid)
            });
            changed.sets.push(is_changed);
            changed.rankings.push(ranking);
        }
        self.facets = facets;
        self.drop_quotes(&unmarked);
        changed
    }

    /// As `rank_facets`, after which sets with due mentions count as changed too.
    pub fn with_due_mentions(&self, mut changed: Changed, percent: u64) -> Changed {
        for (is_changed, set) in changed.sets.iter_mut().zip(&self.facets.sets) {
            *is_changed |= self.facets.are_mentions_due(set, percent);
        }
        changed
    }

    /// The ranking of a set that did not change since it was ranked.
    pub fn ranking_of(&self, set: usize) -> RankedSet {
        let nearest = &self.facets.sets[set].nearest;
        let by_id = &by_id(&self.sentences, &self.reviews);
        (nearest.nearest(Live { vectors: &self.vectors, by_id }), nearest.centroid)
    }
}

/// Whether the sets have the same sentences, in any order.
fn is_same(ours: &[Member], others: &[Member]) -> bool {
    ours.len() == others.len() && ours.iter().all(|one| others.contains(one))
}
