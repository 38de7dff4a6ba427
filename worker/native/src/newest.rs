//! The newest live reviews of an entity, and the facets of these; see `worker.facets.newest`.

use crate::entity::{Entity, Review};
use crate::facets::Criteria;
use std::cmp::Ordering;

const DAY: i64 = 86_400;

/// A moment, to the last digit: seconds since 1970, and the digits of a fraction without zeros at
/// the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(i64, Box<str>);

/// A facet of the newest live reviews: a number of them, or those within days of the newest.
#[derive(Clone, Copy, Debug)]
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
        let review = &mut self.reviews[number as usize];
        review.findings_mut().instant = review.details.occurred_at.as_deref().and_then(Instant::of);
        if let Err(at) = self.place(number) {
            self.order.insert(at, number);
        }
    }

    /// The reviews that other facets of the newest ones admit now, with these.
    fn moved_in_order(&self, criteria: &Criteria) -> Vec<(u32, u64)> {
        if criteria.recent().is_empty() {
            return Vec::new();
        }
        let of = |number: &u32| &self.reviews[*number as usize];
        let newest = self.order.first().and_then(|number| of(number).findings().instant.as_ref());
        let end = |one: &Recent| {
            let days = one.within_days?;
            newest.map(|Instant(seconds, fraction)| Instant(seconds - DAY * days, fraction.clone()))
        };
        let ends: Vec<_> = criteria.recent().iter().map(|one| (one, end(one))).collect();
        let mut moved = Vec::new();
        for (position, number) in self.order.iter().enumerate() {
            let own = of(number).findings();
            let is_in = |(one, end): &&(&Recent, Option<Instant>)| {
                let is_within = own.instant.is_some() && own.instant >= *end;
                one.newest.is_none_or(|count| position < count)
                    && (one.within_days.is_none() || is_within)
            };
            let bits = ends.iter().filter(is_in).fold(0, |bits, (one, _)| bits | one.bit);
            if bits != own.recent {
                moved.push((*number, bits));
            }
        }
        moved
    }

    /// Find the newest reviews of a new entity, whose facets are not filled yet.
    pub fn begin_order(&mut self, criteria: &Criteria) {
        for number in 0..self.reviews.len() as u32 {
            if !self.reviews[number as usize].is_deleted {
                self.join_order(criteria, number);
            }
        }
        for (number, bits) in self.moved_in_order(criteria) {
            self.reviews[number as usize].findings_mut().recent = bits;
        }
    }

    /// Move the sentences of reviews that join or leave facets of the newest ones.
    pub fn settle_order(&mut self, criteria: &Criteria) {
        for (number, bits) in self.moved_in_order(criteria) {
            self.count_in_facets(criteria, number, -1);
            self.reviews[number as usize].findings_mut().recent = bits;
            for row in self.sentences_of(number) {
                let sets = self.sets_of(criteria, row);
                self.move_sentence(row, sets);
            }
            self.count_in_facets(criteria, number, 1);
        }
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
