//! A micro-batch: its events are carried out one after the other, then its rows are written.
//!
//! The rules are those of `worker.processing.plan` and `worker.processing.publish`.

use crate::entity::{Entity, Sentence};
use crate::event::{Change, Event, Given, Origin, Upsert};
use crate::facets::Criteria;
use crate::message::{Difference, Emit, Message, Publication, Shown, ShownSet};
use crate::review::{Counts, Details, Member, Review, is_future};
use crate::rows::{EntityRows, Writer};
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

/// What an event did.
enum Outcome {
    /// It added or removed live sentences.
    Moved,
    /// It had an effect, but not on these.
    Applied,
    Ignored(&'static str),
}

/// An entity that events of the micro-batch are about, and what it was before them.
pub struct Touched {
    pub partition: i32,
    pub name: Arc<str>,
    counts: Counts,
    sequence: Option<u64>,
    /// Whether an event changed its facets, published or not.
    has_other_facets: bool,
    is_new: bool,
    /// Numbers of the reviews that are written, in order of the first time.
    written: Vec<u32>,
}

/// The last change of a set, until it is published.
struct Last {
    event: Event,
    set: Vec<Member>,
    /// If it is to be published.
    shown: Option<Shown>,
}

/// What a micro-batch did so far.
#[derive(Default)]
pub struct Batch {
    /// By event type and outcome its records.
    pub outcomes: BTreeMap<(&'static str, &'static str), u64>,
    pub messages: Vec<Message>,
    pub touched: Vec<Touched>,
    /// Of the entity whose events are carried out.
    last: Option<Last>,
    /// Changes of sets, published or not.
    pub set_changes: u64,
    /// Of reviews that count as undated.
    pub future_dates: u64,
    pub created: u64,
    /// Events that added or removed sentences, and searches of all sentences that they began.
    pub steps: u64,
    pub refills: u64,
}

impl Batch {
    /// Carry out an event of this entity.
    pub fn apply(
        &mut self,
        entity: &mut Entity,
        mut event: Event,
        publication: &Publication,
        facets: Option<&Criteria>,
    ) {
        let origin = &event.origin;
        let mentions = facets.map(|facets| entity.facets.mentions_if(facets));
        let outcome = match &mut event.change {
            Change::Upsert(upsert) => self.upsert(entity, origin, upsert, facets),
            Change::DeleteReview { review, version } => {
                self.delete_review(entity, origin, review, *version, facets)
            }
            Change::DeleteSentences(named) => self.delete_sentences(entity, origin, named, facets),
        };
        entity.counts.sentences = entity.vectors.count() as u64;
        let name = if let Outcome::Ignored(why) = outcome { why } else { "applied" };
        *self.outcomes.entry((event.change.name(), name)).or_default() += 1;
        if matches!(outcome, Outcome::Ignored(_)) {
            return;
        }
        let of_facets = facets.zip(mentions).and_then(|(facets, mentions)| {
            entity.settle_newest(facets);
            self.publish_facets(entity, &event, publication, facets, &mentions)
        });
        if matches!(outcome, Outcome::Moved) {
            self.steps += 1;
            self.publish(entity, event, publication);
        }
        self.messages.extend(of_facets);
    }

    // -- changes

    fn upsert(
        &mut self,
        entity: &mut Entity,
        origin: &Origin,
        upsert: &mut Upsert,
        facets: Option<&Criteria>,
    ) -> Outcome {
        let stored = entity.number(&upsert.review);
        let version = next_version(entity, upsert.version, stored);
        if stored.is_some_and(|number| version <= entity.reviews[number as usize].version) {
            self.touch(entity, origin);
            return Outcome::Ignored("ignored:not_newer");
        }
        self.touch_or_create(entity, origin);
        let number = stored.unwrap_or_else(|| entity.add_review(Review::new(&upsert.review)));
        let (added, mut vectors) = (take(&mut upsert.sentences), take(&mut upsert.vectors));
        let removed = entity.sentences_of(number);
        if upsert.is_embedded && entity.reviews[number as usize].is_embedded {
            entity.keep_vectors(&removed, &added, &mut vectors);
        }
        let is_move = !removed.is_empty() || !added.is_empty();
        count(entity, facets, number, -1);
        entity.newest.leave(&mut entity.reviews, number);
        entity.remove(&removed);
        let was_live = stored.is_some() && !entity.reviews[number as usize].is_deleted;
        entity.count_review(number, -i32::from(was_live));
        let review = self.written(entity, number);
        (review.version, review.is_deleted, review.is_embedded) =
            (version, false, upsert.is_embedded);
        review.details = upsert.details.clone();
        let date = upsert.details.occurred_at.as_deref();
        let date = date.filter(|_| facets.is_some_and(|facets| !facets.plain.recent.is_empty()));
        review.is_future = date.is_some_and(|date| is_future(date, origin.timestamp_ms));
        self.future_dates += u64::from(review.is_future);
        review.note(take(&mut upsert.language), review.findings().mentions);
        let rating = review.details.rating;
        let bits = facets.map(|facets| facets.admits(review));
        entity.count_review(number, 1);
        let added = added.into_iter().zip(vectors.chunks_exact(entity.vectors.dimension));
        let added = added.map(|(Given { ordinal, text, labels, words }, vector)| {
            let sets = facets.zip(bits);
            let sets = sets.map(|(one, bits)| one.sets_of(vector, labels, bits, rating));
            let mut sentence = Sentence::new(number, ordinal, text);
            (sentence.labels, sentence.words) = (labels, words);
            (sentence, sets.unwrap_or_default())
        });
        entity.add(added.collect(), &vectors);
        count(entity, facets, number, 1);
        if facets.is_some_and(|facets| !facets.plain.recent.is_empty()) {
            entity.newest.join(&mut entity.reviews, number);
        }
        if is_move { Outcome::Moved } else { Outcome::Applied }
    }

    fn delete_review(
        &mut self,
        entity: &mut Entity,
        origin: &Origin,
        review: &str,
        version: Option<u64>,
        facets: Option<&Criteria>,
    ) -> Outcome {
        let stored = entity.number(review);
        let version = next_version(entity, version, stored);
        let before = stored.map(|number| &entity.reviews[number as usize]);
        if before.is_some_and(|one| version < one.version + u64::from(one.is_deleted)) {
            self.touch(entity, origin);
            return Outcome::Ignored("ignored:not_newer");
        }
        let was_live = before.is_some_and(|one| !one.is_deleted);
        self.touch_or_create(entity, origin);
        let number = stored.unwrap_or_else(|| entity.add_review(Review::new(review)));
        let removed = entity.sentences_of(number);
        let is_move = !removed.is_empty();
        count(entity, facets, number, -1);
        entity.newest.leave(&mut entity.reviews, number);
        entity.remove(&removed);
        entity.count_review(number, -i32::from(was_live));
        let review = self.written(entity, number);
        (review.version, review.is_deleted, review.is_embedded) = (version, true, false);
        review.is_future = false;
        review.details = Details::default();
        review.note(None, 0);
        if is_move { Outcome::Moved } else { Outcome::Applied }
    }

    fn delete_sentences(
        &mut self,
        entity: &mut Entity,
        origin: &Origin,
        named: &[(Box<str>, Vec<u32>)],
        facets: Option<&Criteria>,
    ) -> Outcome {
        if !entity.exists {
            return Outcome::Ignored("ignored:unknown_entity");
        }
        self.touch(entity, origin);
        let (mut removed, mut left) = (Vec::new(), Vec::new());
        for (review, ordinals) in named {
            let Some(number) = entity.number(review) else {
                continue;
            };
            let mut own = entity.sentences_of(number);
            own.retain(|at| ordinals.contains(&entity.sentences[*at as usize].ordinal));
            if !own.is_empty() {
                count(entity, facets, number, -1);
                self.written(entity, number);
                left.push(number);
                removed.append(&mut own);
            }
        }
        if removed.is_empty() {
            return Outcome::Ignored("ignored:unknown_sentence");
        }
        entity.remove(&removed);
        for number in left {
            count(entity, facets, number, 1);
        }
        Outcome::Moved
    }

    // -- the entity

    fn touch_or_create(&mut self, entity: &mut Entity, origin: &Origin) {
        let is_new = !entity.exists;
        if is_new {
            (entity.exists, entity.incarnation) = (true, origin.offset);
            self.created += 1;
        }
        self.touch(entity, origin);
        if is_new && let Some(touched) = self.touched.last_mut() {
            touched.is_new = true;
        }
    }

    /// Note what the entity was, before its first event.
    fn touch(&mut self, entity: &mut Entity, origin: &Origin) {
        if entity.touched.is_none() {
            entity.touched = Some(self.touched.len());
            self.touched.push(Touched {
                partition: origin.partition,
                name: origin.entity.clone(),
                counts: entity.counts.clone(),
                sequence: entity.sequence,
                has_other_facets: false,
                is_new: false,
                written: Vec::new(),
            });
        }
    }

    /// The review of a touched entity, noted to be written.
    fn written<'a>(&mut self, entity: &'a mut Entity, number: u32) -> &'a mut Review {
        let review = &mut entity.reviews[number as usize];
        if !std::mem::replace(&mut review.is_written, true)
            && let Some(touched) = entity.touched.and_then(|at| self.touched.get_mut(at))
        {
            touched.written.push(number);
        }
        review
    }

    /// Note the entity's set, if this event changed it.
    fn publish(&mut self, entity: &mut Entity, event: Event, publication: &Publication) {
        let before = entity.summary.searches;
        let ranked = entity.rank();
        self.refills += (entity.summary.searches - before) as u64;
        let before = self.last.as_ref().map_or(&entity.published, |last| &last.set);
        if entity.is_shown(&ranked, before.len()) {
            return;
        }
        let set = entity.set_of(&ranked);
        entity.mark(&ranked);
        let before = self.last.as_ref().map_or(&entity.published, |last| &last.set);
        if Difference::between(before, &set).is_empty() {
            return;
        }
        self.set_changes += 1;
        let shown = (publication.emit != Emit::None).then(|| {
            let set = ShownSet::of(entity, &ranked, entity.summary.centroid);
            Shown { counts: entity.counts.clone(), set }
        });
        self.last = Some(Last { event, set, shown });
        if publication.emit == Emit::Every {
            self.settle(entity, publication);
        }
    }

    /// The message of changed facets, if one is due. `mentions`: as they were before, where changes
    /// of them count.
    fn publish_facets(
        &mut self,
        entity: &mut Entity,
        event: &Event,
        publication: &Publication,
        facets: &Criteria,
        mentions: &[u32],
    ) -> Option<Message> {
        let changed = entity.rank_facets();
        let is_changed = changed.sets.contains(&true);
        if !is_changed && entity.facets.mentions_if(facets) == mentions {
            return None;
        }
        if let Some(touched) = entity.touched.and_then(|at| self.touched.get_mut(at)) {
            touched.has_other_facets = true;
        }
        let changed = entity.with_due_mentions(changed, facets.plain.emit_mentions);
        changed.sets.contains(&true).then(|| {
            let message = publication.facets_message(entity, event, facets, changed);
            entity.facets.on_published(event.origin.offset);
            message
        })
    }

    /// Publish the last change of the entity's set, if it is a net one.
    pub fn settle(&mut self, entity: &mut Entity, publication: &Publication) {
        let Some(Last { event, set, shown }) = self.last.take() else { return };
        if let Some(shown) = shown {
            let difference = Difference::between(&entity.published, &set);
            if difference.is_empty() {
                return;
            }
            let previous = entity.sequence;
            self.messages.push(publication.message(&event, &shown, &difference, previous));
        }
        (entity.published, entity.sequence) = (set, Some(event.origin.offset));
    }
}

/// Count a review in the facets, if there are any, with the mentions that its sentences have now.
fn count(entity: &mut Entity, facets: Option<&Criteria>, number: u32, by: i32) {
    let Some(facets) = facets else { return };
    let rows = entity.sentences_of(number);
    if by > 0 {
        entity.find_mentions(number, &rows);
    }
    entity.count_in_facets(facets, number, &rows, by);
}

/// The event's version, or the next one if it has none.
fn next_version(entity: &Entity, given: Option<u64>, stored: Option<u32>) -> u64 {
    let next = || stored.map_or(1, |number| entity.reviews[number as usize].version + 1);
    given.unwrap_or_else(next)
}

impl Touched {
    /// The changed rows of the entity, in their last state, and the newest format of its reviews.
    pub fn rows(&self, entity: &mut Entity, has_mentions: bool) -> EntityRows {
        let (mut rows, mut newest) = (Vec::new(), 0);
        let writer = Writer::new(&self.name, entity);
        if self.is_new || entity.counts != self.counts {
            rows.push(writer.header());
        }
        if let Some(sequence) = entity.sequence.filter(|_| entity.sequence != self.sequence) {
            rows.push(writer.published(sequence));
        }
        if let Some(sequence) = entity.facets.sequence.filter(|_| self.has_other_facets) {
            rows.push(writer.facet_sets(sequence, has_mentions));
        }
        let mut with_vectors = Vec::new();
        for number in &self.written {
            let sentences = entity.sentences_of(*number);
            let (format, own) = writer.review(&entity.reviews[*number as usize], &sentences);
            newest = newest.max(format);
            rows.extend(own);
            with_vectors.push(!sentences.is_empty());
        }
        for (number, has_vectors) in self.written.iter().zip(with_vectors) {
            let review = &mut entity.reviews[*number as usize];
            (review.is_written, review.has_vectors_row) = (false, has_vectors);
        }
        entity.touched = None;
        entity.measure_reviews(self.written.iter().copied());
        (rows, newest)
    }
}
