//! Messages of facets: the bytes of `facets.changed`, as the Python form writes them.

use crate::entity::Entity;
use crate::event::Event;
use crate::facet_ranks::Changed;
use crate::facets::{Criteria, Facet};
use crate::json::write_string;
use crate::message::{Message, Publication, ShownSet, write, write_ratings, write_text};
use crate::review::ReviewCounts;
use std::cmp::Reverse;
use std::collections::HashSet;

const PARTS: [&str; 3] = [",\"sentences\":[", ",\"pros\":[", ",\"cons\":["];

impl Publication {
    /// The message about the entity's facets, caused by this event.
    pub fn facets_message(
        &self,
        entity: &mut Entity,
        event: &Event,
        criteria: &Criteria,
        mut changed: Changed,
    ) -> Message {
        let mut out = Vec::with_capacity(8192);
        self.write_head(&mut out, "facets.changed", &event.origin, entity.facets.sequence);
        out.extend_from_slice(b",\"changed\":[");
        let (mut seen, facets) = (HashSet::new(), &criteria.plain.facets);
        for (set, _) in criteria.sets.iter().zip(&changed.sets).filter(|(_, changed)| **changed) {
            let name = &*facets[set.facet].name;
            if seen.insert(name) {
                if seen.len() > 1 {
                    out.push(b',');
                }
                write_string(&mut out, name);
            }
        }
        write(&mut out, "],\"review_count\":", entity.counts.reviews.count);
        write(&mut out, ",\"sentence_count\":", entity.counts.sentences);
        out.extend_from_slice(b",\"facets\":[");
        let mut order: Vec<usize> = (0..facets.len()).collect();
        order.sort_unstable_by_key(|at| {
            let mentions = Reverse(entity.facets.mentions[*at].count);
            (mentions, -entity.facets.sentences(*at), &facets[*at].label)
        });
        for (position, at) in order.into_iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            let encoded = match entity.facets.encoded[at].take() {
                Some(encoded) => encoded,
                None => self.facet(entity, &facets[at], at, &mut changed),
            };
            out.extend_from_slice(&encoded);
            entity.facets.encoded[at] = Some(encoded);
        }
        out.push(b']');
        self.finished(out, event, &entity.counts, ":facets")
    }

    /// A facet as messages have it.
    fn facet(
        &self,
        entity: &mut Entity,
        facet: &Facet,
        at: usize,
        changed: &mut Changed,
    ) -> Box<[u8]> {
        let mut out = Vec::with_capacity(1024);
        write_text(&mut out, "{\"name\":", Some(&facet.name));
        write(&mut out, ",\"k\":", facet.k);
        write(&mut out, ",\"sentence_count\":", entity.facets.sentences(at));
        write_reviews(&mut out, ",\"review_count\":", &entity.facets.reviews[at]);
        let sets: Vec<usize> = entity.facets.of_facet(at).collect();
        self.write_set(&mut out, entity, sets[0], 0, changed);
        if facet.has_language {
            write_text(&mut out, ",\"language\":", facet.language.as_deref());
        }
        if facet.has_words {
            let mentions = &entity.facets.mentions[at];
            write_reviews(&mut out, ",\"mentions\":{\"review_count\":", mentions);
            out.push(b'}');
        }
        for (part, set) in sets.into_iter().enumerate().skip(1) {
            self.write_set(&mut out, entity, set, part, changed);
        }
        out.push(b'}');
        out.into()
    }

    /// The sentences of a set, as the member of this part.
    fn write_set(
        &self,
        out: &mut Vec<u8>,
        entity: &mut Entity,
        set: usize,
        part: usize,
        changed: &mut Changed,
    ) {
        let known = changed.rankings[set].take();
        let (ranked, centroid) = known.unwrap_or_else(|| entity.ranking_of(set));
        out.extend_from_slice(PARTS[part].as_bytes());
        ShownSet::of(entity, &ranked, centroid).write(out);
        out.push(b']');
    }
}

/// The number of these reviews, and their ratings.
fn write_reviews(out: &mut Vec<u8>, before: &str, reviews: &ReviewCounts) {
    write(out, before, reviews.count);
    out.extend_from_slice(b",\"ratings\":");
    write_ratings(out, &reviews.ratings);
}
