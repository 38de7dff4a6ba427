//! The live reviews of an entity by date, and the facets of the newest; see `worker.facets.newest`.

use crate::review::{DAY, Instant, Review};
use pyo3::prelude::*;
use std::cmp::Ordering;

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
    pub fn moved(&mut self, reviews: &[Review], facets: &[Recent]) -> Vec<(u32, u64)> {
        let joined = self.joined.take();
        let (mut bits, lengths) = (Vec::new(), self.lengths(reviews, facets));
        let recent = |at: usize| reviews[self.order[at] as usize].findings().recent;
        let is_other = |at: &usize| Some(self.order[*at]) != joined;
        for (one, length) in facets.iter().zip(&lengths) {
            let has = |at: &usize| recent(*at) & one.bit != 0;
            let come = (0..*length).rev().filter(is_other).take_while(|at| !has(at));
            let gone = (*length..self.order.len()).filter(is_other).take_while(has);
            bits.extend(come.chain(gone).map(|at| (at, one.bit)));
        }
        bits.sort_by_key(|(at, _)| *at); // runs, one or two a facet
        let of_review = |bits: &[(usize, u64)]| {
            let at = bits[0].0;
            (self.order[at], bits.iter().fold(recent(at), |recent, (_, bit)| recent ^ bit))
        };
        let mut moved: Vec<_> = bits.chunk_by(|a, b| a.0 == b.0).map(of_review).collect();
        if let Some((number, Ok(place))) = joined.map(|one| (one, self.place(reviews, one))) {
            let admitting = facets.iter().zip(lengths).filter(|(_, most)| place < *most);
            let bits = admitting.fold(0, |bits, (one, _)| bits | one.bit);
            if bits != 0 {
                moved.push((number, bits));
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
