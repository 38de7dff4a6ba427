//! The pool as Python sees it, `worker/_native.pyi`: entities, and the events that are held.

use crate::apply::Batch;
use crate::entity::{Copies, MOST};
use crate::event::{self, Change, Event, Limits, Origin};
use crate::facets::{Criteria, PlainFacets};
use crate::loader::{Loader, MOST_REVIEWS};
use crate::message::{Emit, Publication};
use crate::results::{Names, Processed, keys_for_python};
use crate::store::{Key, Store, key_of};
use crate::vector::Workspace;
use crate::words::{Answer, Question, TextReader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySequence, PyString, PyTuple};
use std::collections::{HashMap, HashSet};
use std::mem::take;

/// Entities in memory, and the events that they take the usual way.
#[pyclass(module = "worker._native")]
pub struct Pool {
    copies: Copies,
    limits: Limits,
    publication: Publication,
    entities: Store,
    /// Whether partitions have facets, and those of each that are known.
    has_facets: bool,
    facets: HashMap<i32, Criteria>,
    held: Vec<Event>,
    workspace: Workspace,
    text_reader: TextReader,
    names: Names,
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (*, dimension, k, distinct, by_text, emit, epoch, model, input_topic,
        output_topic, facets_topic, has_facets, max_event_bytes, max_text_bytes, max_sentence_chars,
        max_sentences_per_review, max_sentences_per_deletion, max_sentences_per_entity,
        most_sentences))]
    #[expect(clippy::too_many_arguments, reason = "all are given by name")]
    fn new(
        py: Python<'_>,
        dimension: usize,
        k: usize,
        distinct: bool,
        by_text: bool,
        emit: &str,
        epoch: u64,
        model: Option<String>,
        input_topic: String,
        output_topic: &str,
        facets_topic: &str,
        has_facets: bool,
        max_event_bytes: usize,
        max_text_bytes: usize,
        max_sentence_chars: usize,
        max_sentences_per_review: usize,
        max_sentences_per_deletion: usize,
        max_sentences_per_entity: usize,
        most_sentences: usize,
    ) -> PyResult<Self> {
        if dimension == 0 || k == 0 {
            return Err(PyValueError::new_err("dimension and k are at least 1"));
        }
        let emit = match emit {
            "every" => Emit::Every,
            "coalesced" => Emit::Coalesced,
            "none" => Emit::None,
            _ => return Err(PyValueError::new_err("emit is every, coalesced or none")),
        };
        let copies = match (by_text, distinct) {
            (true, _) => Copies::CountedOnce,
            (false, true) => Copies::ShownOnce,
            (false, false) => Copies::Each,
        };
        Ok(Pool {
            copies,
            limits: Limits {
                dimension,
                model: model.clone(),
                max_event_bytes,
                max_text_bytes,
                max_sentence_chars,
                max_sentences_per_review,
                max_sentences_per_deletion,
                most_sentences: most_sentences.min(max_sentences_per_entity).min(MOST),
            },
            publication: Publication { emit, epoch, k, model, input_topic },
            entities: Store::default(),
            has_facets,
            facets: HashMap::new(),
            held: Vec::new(),
            workspace: Workspace::default(),
            text_reader: TextReader::default(),
            names: Names::new(py, output_topic, facets_topic)?,
        })
    }

    /// Give a partition its facets. Without them its records are not usual, if others have some.
    fn define(&mut self, partition: i32, facets: PlainFacets) -> PyResult<()> {
        let criteria = Criteria::new(facets, self.limits.dimension);
        let criteria = criteria.ok_or_else(|| PyValueError::new_err("numbers do not fit"))?;
        self.facets.insert(partition, criteria);
        Ok(())
    }

    /// Those of these indexes whose records are usual; their events are held.
    fn read(
        &mut self,
        records: &Bound<'_, PySequence>,
        indexes: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<usize>> {
        self.held.clear();
        self.entities.begin();
        let mut taken = Vec::new();
        for index in indexes.try_iter()? {
            let index: usize = index?.extract()?;
            let record = records.get_item(index)?.cast_into::<PyTuple>()?;
            if let Some(event) = self.event(index, &record)? {
                self.held.push(event);
                taken.push(index);
            }
        }
        Ok(taken)
    }

    /// (partition, entity id) of the held events whose entity is not in the pool.
    fn absent<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut seen = HashSet::new();
        let keys = self.held.iter().map(|event| key_of(&event.origin));
        let absent = keys.filter(|key| self.entities.get(key).is_none());
        keys_for_python(py, absent.filter(|key| seen.insert(key.clone())))
    }

    /// Take in an entity from its rows; whether it is one for the pool.
    fn load(&mut self, partition: i32, entity: &[u8], rows: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(name) = std::str::from_utf8(entity) else {
            return Ok(false);
        };
        let Limits { dimension, most_sentences, .. } = self.limits;
        let facets = self.facets.get(&partition);
        let mut loader = Loader::new(name, dimension, self.copies, most_sentences, facets);
        for row in rows.try_iter()? {
            let row = row?;
            let (key, value): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = row.extract()?;
            if loader.take(key.as_bytes(), value.as_bytes()).is_none() {
                return Ok(false);
            }
        }
        let Some(entity) = loader.finish(self.publication.k) else { return Ok(false) };
        self.entities.put((partition, name.into()), entity);
        Ok(true)
    }

    /// The entities that would become too large.
    fn refused<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut most: HashMap<Key, (usize, usize)> = HashMap::new();
        for event in &self.held {
            let key = key_of(&event.origin);
            let now = self.entities.get(&key);
            let now = now.map_or((0, 0), |entity| (entity.reviews.len(), entity.sentences.len()));
            let (reviews, sentences) = most.entry(key).or_insert(now);
            *reviews += 1;
            if let Change::Upsert(upsert) = &event.change {
                *sentences += upsert.sentences.len();
            }
        }
        let limit = self.limits.most_sentences;
        most.retain(|_, (reviews, sentences)| {
            *reviews > MOST_REVIEWS * limit || *sentences > limit
        });
        keys_for_python(py, most.into_keys())
    }

    /// Forget the held events of these entities, and drop them.
    fn leave(&mut self, entities: Vec<(i32, Vec<u8>)>) {
        let gone: HashSet<Key> = entities
            .into_iter()
            .filter_map(|(partition, name)| Some((partition, String::from_utf8(name).ok()?.into())))
            .collect();
        self.held.retain(|event| !gone.contains(&key_of(&event.origin)));
        for key in &gone {
            self.entities.remove(key);
        }
    }

    /// What is to be asked about texts next, before `process`.
    fn questions(&mut self) -> Vec<Question> {
        self.text_reader.questions(&mut self.held, &mut self.entities, &self.facets)
    }

    /// The answers, in order.
    fn answer(&mut self, answers: Vec<Vec<Answer>>) -> PyResult<()> {
        let done = self.text_reader.answer(&mut self.held, &mut self.entities, answers);
        done.ok_or_else(|| PyValueError::new_err("not an answer to each question"))
    }

    /// Carry out all held events.
    fn process(&mut self, py: Python<'_>) -> PyResult<Processed> {
        let is_absent = |event: &Event| self.entities.get(&key_of(&event.origin)).is_none();
        if self.held.iter().any(is_absent) {
            return Err(PyValueError::new_err("an entity was neither loaded nor made to leave"));
        }
        let (mut batch, mut rows) = (Batch::default(), Vec::new());
        for (key, events) in by_entity(take(&mut self.held)) {
            let facets = self.facets.get(&key.0);
            if let Some(entity) = self.entities.get_mut(&key) {
                for event in events {
                    batch.apply(entity, event, &self.publication, facets);
                }
                batch.settle(entity, &self.publication);
                let has_mentions = facets.is_some_and(|facets| facets.emit_mentions() > 0);
                rows.extend(entity.touched.map(|at| batch.touched[at].rows(entity, has_mentions)));
            }
            self.entities.used(key);
        }
        batch.messages.sort_by_key(|message| message.index);
        self.entities.end();
        Processed::new(py, &self.names, batch, rows)
    }

    fn drop(&mut self, partition: i32, entity: &[u8]) {
        if let Ok(name) = std::str::from_utf8(entity) {
            self.entities.remove(&(partition, name.into()));
        }
    }

    /// Drop all entities of these partitions.
    fn forget(&mut self, partitions: HashSet<i32>) {
        self.entities.forget(&partitions);
        self.facets.retain(|partition, _| !partitions.contains(partition));
    }

    /// Drop those not used for longest, down to so many bytes; how many it dropped.
    fn evict(&mut self, most_bytes: usize) -> usize {
        self.text_reader.evict(most_bytes);
        self.entities.evict(most_bytes - self.text_reader.memory_bytes)
    }

    #[getter]
    fn memory_bytes(&self) -> usize {
        self.entities.memory_bytes + self.text_reader.memory_bytes
    }

    fn __len__(&self) -> usize {
        self.entities.len()
    }
}

impl Pool {
    /// The event of a record, if it is usual.
    fn event(&mut self, index: usize, record: &Bound<'_, PyTuple>) -> PyResult<Option<Event>> {
        let (topic, refused) = (record.get_item(0)?, record.get_item(7)?);
        let (key, value) = (record.get_item(4)?, record.get_item(5)?);
        let (Ok(key), Ok(value)) = (key.cast::<PyBytes>(), value.cast::<PyBytes>()) else {
            return Ok(None);
        };
        if !refused.is_none() || topic.cast::<PyString>()?.to_str()? != self.publication.input_topic
        {
            return Ok(None);
        }
        let partition = record.get_item(1)?.extract()?;
        let facets = self.facets.get(&partition);
        if self.has_facets && facets.is_none() {
            return Ok(None);
        }
        let (limits, workspace) = (&self.limits, &mut self.workspace);
        let read = event::read(key.as_bytes(), value.as_bytes(), limits, facets, workspace);
        let Some((entity, occurred_at, change)) = read else {
            return Ok(None);
        };
        let origin = Origin {
            index,
            partition,
            offset: record.get_item(2)?.extract()?,
            timestamp_ms: record.get_item(3)?.extract()?,
            entity,
            occurred_at,
        };
        Ok(Some(Event { origin, change }))
    }
}

/// The events of each entity in their order, entities by their first event: the vectors of one are
/// in the processor's cache then.
fn by_entity(events: Vec<Event>) -> Vec<(Key, Vec<Event>)> {
    let (mut places, mut groups) = (HashMap::new(), Vec::<(Key, Vec<Event>)>::new());
    for event in events {
        let key = key_of(&event.origin);
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(event),
            None => groups.push((key, vec![event])),
        }
    }
    groups
}
