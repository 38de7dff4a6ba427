//! The live reviews of an entity by date, and the facets of the newest; see `worker.facets.newest`.

use crate::review::{DAY, Instant, Review};
use pyo3::prelude::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A facet of the newest live reviews: a number of them, or those within days of the newest.
#[derive(FromPyObject)]
pub struct Recent {
    pub bit: u64,
    pub newest: Option<usize>,
    pub within_days: Option<i64>,
}

/// The live reviews, the newest first, where facets depend on it.
#[derive(Default, Debug)]
pub struct NewestFirst {
    order: Vec<u32>,
    /// The one that joined last, until its facets are found.
    joined: Option<u32>,
}

impl NewestFirst {
    fn place(&self, reviews: &[Review], number: u32) -> Result<usize, usize> {
        let own = &reviews[number as usize];
        self.order.binary_search_by(|other| compare(&reviews[*other as usize], own))
    }

    /// A review is no longer live, or its date is about to change.
    pub fn leave(&mut self, reviews: &mut [Review], number: u32) {
        if let Ok(at) = self.place(reviews, number) {
            self.order.remove(at);
        }
        if let Some(findings) = &mut reviews[number as usize].findings {
            (findings.recent, findings.instant) = (0, None);
        }
    }

    /// A review is live, with this date.
    pub fn join(&mut self, reviews: &mut [Review], number: u32) {
        find_instant(&mut reviews[number as usize]);
        if let Err(at) = self.place(reviews, number) {
            self.order.insert(at, number);
            self.joined = Some(number);
        }
    }

    /// Begin with all live reviews, whose facets are not filled yet.
    pub fn begin(&mut self, reviews: &mut [Review], facets: &[Recent]) {
        for (number, review) in (0..).zip(&mut *reviews).filter(|(_, one)| !one.is_deleted) {
            find_instant(review);
            self.order.push(number);
        }
        let of = |number: &u32| &reviews[*number as usize];
        self.order.sort_unstable_by(|one, other| compare(of(one), of(other)));
        for (one, length) in facets.iter().zip(self.lengths(reviews, facets)) {
            for number in &self.order[..length] {
                reviews[*number as usize].findings_mut().recent |= one.bit;
            }
        }
    }

    /// Of each facet how many of the order it has.
    fn lengths(&self, reviews: &[Review], facets: &[Recent]) -> Vec<usize> {
        let of = |number: &u32| reviews[*number as usize].findings().instant.as_ref();
        let newest = self.order.first().and_then(of);
        let length = |one: &Recent| {
            let most = one.newest.map_or(self.order.len(), |most| most.min(self.order.len()));
            let Some(days) = one.within_days else { return most };
            let Some(Instant(seconds, fraction)) = newest else { return 0 };
            let end = Instant(seconds - DAY * days, fraction.clone());
            let is_within = |number: &u32| of(number).is_some_and(|own| *own >= end);
            most.min(self.order.partition_point(is_within))
        };
        facets.iter().map(length).collect()
    }

    /// The reviews that other facets admit now, with these. Those that a facet admitted were the
    /// first of the order, but for the one that joined it.
    pub fn moved(&mut self, reviews: &[Review], facets: &[Recent]) -> BTreeMap<u32, u64> {
        let joined = self.joined.take();
        let (mut moved, lengths) = (BTreeMap::new(), self.lengths(reviews, facets));
        let recent = |number: u32| reviews[number as usize].findings().recent;
        for (one, length) in facets.iter().zip(&lengths) {
            let has = |number: &u32| recent(*number) & one.bit != 0;
            let others = |number: &&u32| Some(**number) != joined;
            let (inside, outside) = self.order.split_at(*length);
            let come = inside.iter().rev().filter(others).take_while(|number| !has(number));
            let gone = outside.iter().filter(others).take_while(|number| has(number));
            for number in come.chain(gone) {
                *moved.entry(*number).or_insert_with(|| recent(*number)) ^= one.bit;
            }
        }
        if let Some((number, Ok(place))) = joined.map(|one| (one, self.place(reviews, one))) {
            let admitting = facets.iter().zip(lengths).filter(|(_, most)| place < *most);
            let bits = admitting.fold(0, |bits, (one, _)| bits | one.bit);
            if bits != 0 {
                moved.insert(number, bits);
            }
        }
        moved
    }
}

/// Later ones first, those without a date last, by id where dates are equal.
fn compare(one: &Review, other: &Review) -> Ordering {
    other.findings().instant.cmp(&one.findings().instant).then_with(|| one.id.cmp(&other.id))
}

fn find_instant(review: &mut Review) {
    let date = review.details.occurred_at.as_deref().filter(|_| !review.is_future);
    review.findings_mut().instant = date.and_then(Instant::of);
}
