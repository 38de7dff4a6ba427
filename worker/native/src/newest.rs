//! The newest live reviews of an entity, and the facets of these; see `worker.facets.newest`.

use crate::entity::{Entity, Review};
use crate::facets::Criteria;
use pyo3::prelude::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;

const DAY: i64 = 86_400;
const LATEST_MS: i64 = 4_102_444_800_000;

/// A moment, to the last digit: seconds since 1970, and the digits of a fraction without zeros at
/// the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(i64, Box<str>);

/// A facet of the newest live reviews: a number of them, or those within days of the newest.
#[derive(FromPyObject)]
pub struct Recent {
    pub bit: u64,
    pub newest: Option<usize>,
    pub within_days: Option<i64>,
}

impl Instant {
    /// Of an RFC 3339 timestamp. A leap second is the one before it.
    pub fn of(timestamp: &str) -> Option<Self> {
        let number = |from: usize, to: usize| timestamp.get(from..to)?.parse::<i64>().ok();
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let rest = timestamp.get(19..)?;
        let zone = rest.trim_start_matches(|one: char| one == '.' || one.is_ascii_digit());
        let digits = rest[..rest.len() - zone.len()].strip_prefix('.').unwrap_or_default();
        let east = match zone.split_at_checked(1)? {
            ("Z" | "z", "") => 0,
            (sign @ ("+" | "-"), offset) => {
                let (hours, minutes) = offset.split_once(':')?;
                let minutes = 60 * hours.parse::<i64>().ok()? + minutes.parse::<i64>().ok()?;
                if sign == "+" { minutes } else { -minutes }
            }
            _ => return None,
        };
        let minutes = 60 * (24 * days_since_1970(year, month, day) + hour) + minute - east;
        Some(Instant(60 * minutes + second.min(59), digits.trim_end_matches('0').into()))
    }
}

/// As `worker.events.dates.is_future`.
pub fn is_future(occurred_at: &str, timestamp_ms: i64) -> bool {
    let latest = if timestamp_ms > 0 { timestamp_ms.saturating_add(1000 * DAY) } else { i64::MAX };
    let first = latest.min(LATEST_MS) + 1; // millisecond that is too late
    let digits = format!("{:03}", first % 1000);
    let first = Instant(first / 1000, digits.trim_end_matches('0').into());
    Instant::of(occurred_at).is_some_and(|date| date >= first)
}

/// By the years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    146_097 * cycle + 365 * of_cycle + of_cycle / 4 - of_cycle / 100 + of_year - 719_468
}

/// Later ones first, those without a date last, by id where dates are equal.
fn compare(one: &Review, other: &Review) -> Ordering {
    other.findings().instant.cmp(&one.findings().instant).then_with(|| one.id.cmp(&other.id))
}

impl Entity {
    fn place(&self, number: u32) -> Result<usize, usize> {
        let own = &self.reviews[number as usize];
        self.order.binary_search_by(|other| compare(&self.reviews[*other as usize], own))
    }

    /// A review is no longer live, or its date is about to change.
    pub fn leave_order(&mut self, number: u32) {
        if let Ok(at) = self.place(number) {
            self.order.remove(at);
        }
        if let Some(findings) = &mut self.reviews[number as usize].findings {
            (findings.recent, findings.instant) = (0, None);
        }
    }

    /// A review is live, with this date.
    pub fn join_order(&mut self, criteria: &Criteria, number: u32) {
        if criteria.recent().is_empty() {
            return;
        }
        self.reviews[number as usize].find_instant();
        if let Err(at) = self.place(number) {
            self.order.insert(at, number);
            self.joined = Some(number);
        }
    }

    /// Of each facet of the newest reviews how many of the order it has.
    fn lengths(&self, criteria: &Criteria) -> Vec<usize> {
        let of = |number: &u32| self.reviews[*number as usize].findings().instant.as_ref();
        let newest = self.order.first().and_then(of);
        let length = |one: &Recent| {
            let most = one.newest.map_or(self.order.len(), |most| most.min(self.order.len()));
            let Some(days) = one.within_days else { return most };
            let Some(Instant(seconds, fraction)) = newest else { return 0 };
            let end = Instant(seconds - DAY * days, fraction.clone());
            let is_within = |number: &u32| of(number).is_some_and(|own| *own >= end);
            most.min(self.order.partition_point(is_within))
        };
        criteria.recent().iter().map(length).collect()
    }

    /// The reviews that other facets of the newest ones admit now, with these. Those that a facet
    /// admitted were the first of the order, but for the one that joined it.
    fn moved_in_order(&mut self, criteria: &Criteria) -> BTreeMap<u32, u64> {
        let joined = self.joined.take();
        let (mut moved, lengths) = (BTreeMap::new(), self.lengths(criteria));
        let recent = |number: u32| self.reviews[number as usize].findings().recent;
        for (one, length) in criteria.recent().iter().zip(&lengths) {
            let has = |number: &u32| recent(*number) & one.bit != 0;
            let others = |number: &&u32| Some(**number) != joined;
            let (inside, outside) = self.order.split_at(*length);
            let come = inside.iter().rev().filter(others).take_while(|number| !has(number));
            let gone = outside.iter().filter(others).take_while(|number| has(number));
            for number in come.chain(gone) {
                *moved.entry(*number).or_insert_with(|| recent(*number)) ^= one.bit;
            }
        }
        if let Some((number, Ok(place))) = joined.map(|number| (number, self.place(number))) {
            let admitting = criteria.recent().iter().zip(lengths).filter(|(_, most)| place < *most);
            let bits = admitting.fold(0, |bits, (one, _)| bits | one.bit);
            if bits != 0 {
                moved.insert(number, bits);
            }
        }
        moved
    }

    /// Find the newest reviews of a new entity, whose facets are not filled yet.
    pub fn begin_order(&mut self, criteria: &Criteria) {
        if criteria.recent().is_empty() {
            return;
        }
        for (number, review) in (0..).zip(&mut self.reviews) {
            if !review.is_deleted {
                review.find_instant();
                self.order.push(number);
            }
        }
        let reviews = &mut self.reviews;
        let of = |number: &u32| &reviews[*number as usize];
        self.order.sort_unstable_by(|one, other| compare(of(one), of(other)));
        for (one, length) in criteria.recent().iter().zip(self.lengths(criteria)) {
            for number in &self.order[..length] {
                self.reviews[*number as usize].findings_mut().recent |= one.bit;
            }
        }
    }

    /// Move the sentences of reviews that join or leave facets of the newest ones.
    pub fn settle_order(&mut self, criteria: &Criteria) {
        if criteria.recent().is_empty() {
            return;
        }
        let (numbers, bits): (Vec<u32>, Vec<u64>) =
            self.moved_in_order(criteria).into_iter().unzip();
        let own = self.sentences_of_each(&numbers);
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
}

impl Review {
    fn find_instant(&mut self) {
        let date = self.details.occurred_at.as_deref().filter(|_| !self.is_future);
        self.findings_mut().instant = date.and_then(Instant::of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_ordered() {
        let of = |text: &str| Instant::of(text).unwrap();
        assert_eq!(of("1970-01-02T01:00:00.50+01:00"), Instant(86_400, "5".into()));
        assert_eq!(of("2016-12-31T23:59:60Z"), of("2016-12-31t23:59:59z"));
        assert_eq!(of("0000-03-01T00:00:00Z").0, of("0000-02-29T00:00:00Z").0 + 86_400);
        assert_eq!(of("1969-12-31T21:30:00-02:30").0, 0);
        assert!(of("2026-11-20T12:00:00.09Z") < of("2026-11-20T12:00:00.1Z"));
        assert!(of("2026-11-20T12:00:00Z") < of("2026-11-20T12:00:00.0001Z"));
    }
}
