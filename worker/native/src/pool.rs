//! The pool as Python sees it, `worker/_native.pyi`: entities, and the events that are held.

use crate::apply::Batch;
use crate::entity::{Copies, MOST};
use crate::event::{self, Change, Event, Limits, Origin};
use crate::facets::{Criteria, PlainFacets};
use crate::loader::{Loader, MOST_REVIEWS};
use crate::message::{Emit, Publication};
use crate::results::{EntityRows, Names, Processed, keys_for_python};
use crate::store::{Key, Store, key_of};
use crate::vector::Workspace;
use crate::words::{Answer, Question, TextReader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PySequence, PyString};
use std::collections::{HashMap, HashSet};
use std::mem::{replace, take};
use std::time::{Duration, Instant};

/// Between two reports of progress.
const PROGRESS: Duration = Duration::from_millis(100);
/// So few that nobody waits for them.
const ROWS_AT_ONCE: usize = 256;

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
    #[pyo3(signature = (*, limits, most_sentences, k, distinct, by_text, emit, epoch, input_topic,
        output_topic, facets_topic, has_facets))]
    #[expect(clippy::too_many_arguments, reason = "all are given by name")]
    fn new(
        py: Python<'_>,
        limits: Limits,
        most_sentences: usize,
        k: usize,
        distinct: bool,
        by_text: bool,
        emit: &str,
        epoch: u64,
        input_topic: String,
        output_topic: &str,
        facets_topic: &str,
        has_facets: bool,
    ) -> PyResult<Self> {
        if limits.dimension == 0 || k == 0 {
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
        let (model, most_sentences) = (limits.model.clone(), most_sentences.min(MOST));
        Ok(Pool {
            copies,
            limits: Limits { most_sentences: most_sentences.min(limits.most_sentences), ..limits },
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
        let mut given = Vec::new();
        for index in indexes.try_iter()? {
            let index: usize = index?.extract()?;
            let record = records.get_item(index)?;
            given.extend(given_of(index, &record, &self.publication.input_topic)?);
        }
        records.py().detach(|| {
            self.entities.begin();
            self.held = given.iter().filter_map(|one| self.event(one)).collect();
        });
        Ok(self.held.iter().map(|event| event.origin.index).collect())
    }

    /// (partition, entity id) of the held events whose entity is not in the pool.
    fn absent<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut seen = HashSet::new();
        let keys = self.held.iter().map(|event| key_of(&event.origin));
        let absent = keys.filter(|key| self.entities.get(key).is_none());
        keys_for_python(py, absent.filter(|key| seen.insert(key.clone())))
    }

    /// Take in an entity from its rows; whether it is one for the pool.
    fn load(
        &mut self,
        py: Python<'_>,
        partition: i32,
        entity: &[u8],
        rows: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let Ok(name) = std::str::from_utf8(entity) else {
            return Ok(false);
        };
        let Limits { dimension, most_sentences, .. } = self.limits;
        let facets = self.facets.get(&partition);
        let mut loader = Loader::new(name, dimension, self.copies, most_sentences, facets);
        let (mut rows, mut is_more) = (rows.try_iter()?, true);
        while is_more {
            let some = rows.by_ref().take(ROWS_AT_ONCE).map(|row| row?.extract());
            let some: Vec<(PyBackedBytes, PyBackedBytes)> = some.collect::<PyResult<_>>()?;
            let mut own = some.iter();
            if py.detach(|| own.try_for_each(|(key, row)| loader.take(key, row))).is_none() {
                return Ok(false);
            }
            is_more = !some.is_empty();
        }
        Ok(py.detach(|| {
            let entity = loader.finish(self.publication.k);
            entity.map(|entity| self.entities.put((partition, name.into()), entity)).is_some()
        }))
    }

    /// By held event the index of its record, and how many sentences it adds, replaces or removes.
    fn sizes(&self) -> Vec<(usize, usize)> {
        let mut live = HashMap::new();
        let size = self.held.iter().map(|event| {
            let entity = self.entities.get(&key_of(&event.origin));
            let stored = |review: &str| {
                entity.and_then(|one| Some(one.reviews[one.number(review)? as usize].live as usize))
            };
            let (reviews, added): (Vec<&Box<str>>, _) = match &event.change {
                Change::Upsert(one) => (vec![&one.review], Some(one.sentences.len())),
                Change::DeleteReview { review, .. } => (vec![review], Some(0)),
                Change::DeleteSentences(named) => (named.iter().map(|one| &one.0).collect(), None),
            };
            let replaced = reviews.into_iter().map(|review| {
                let own = live.entry((key_of(&event.origin), review));
                let own = own.or_insert_with(|| stored(review).unwrap_or_default());
                replace(own, added.unwrap_or(*own))
            });
            (event.origin.index, replaced.sum::<usize>() + added.unwrap_or_default())
        });
        size.collect()
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
    fn leave(&mut self, py: Python<'_>, entities: Vec<(i32, Vec<u8>)>) {
        let gone: HashSet<Key> = entities
            .into_iter()
            .filter_map(|(partition, name)| Some((partition, String::from_utf8(name).ok()?.into())))
            .collect();
        py.detach(|| {
            self.held.retain(|event| !gone.contains(&key_of(&event.origin)));
            gone.iter().for_each(|key| self.entities.remove(key));
        });
    }

    /// What is to be asked about texts next, before `process`.
    fn questions(&mut self, py: Python<'_>) -> Vec<Question> {
        let Pool { text_reader, held, entities, facets, .. } = self;
        py.detach(|| text_reader.questions(held, entities, facets))
    }

    /// The answers, in order.
    fn answer(&mut self, py: Python<'_>, answers: Vec<Vec<Answer>>) -> PyResult<()> {
        let Pool { text_reader, held, entities, .. } = self;
        let done = py.detach(|| text_reader.answer(held, entities, answers));
        done.ok_or_else(|| PyValueError::new_err("not an answer to each question"))
    }

    /// Carry out all held events, and say from time to time that work goes on.
    fn process(&mut self, py: Python<'_>, on_progress: Py<PyAny>) -> PyResult<Processed> {
        let is_absent = |event: &Event| self.entities.get(&key_of(&event.origin)).is_none();
        if self.held.iter().any(is_absent) {
            return Err(PyValueError::new_err("an entity was neither loaded nor made to leave"));
        }
        let (batch, rows) = py.detach(|| self.carry_out(&on_progress))?;
        Processed::new(py, &self.names, batch, rows)
    }

    fn drop(&mut self, partition: i32, entity: &[u8]) {
        if let Ok(name) = std::str::from_utf8(entity) {
            self.entities.remove(&(partition, name.into()));
        }
    }

    /// Drop all entities of these partitions.
    fn forget(&mut self, py: Python<'_>, partitions: HashSet<i32>) {
        py.detach(|| self.entities.forget(&partitions));
        self.facets.retain(|partition, _| !partitions.contains(partition));
    }

    /// Drop those not used for longest, down to so many bytes; how many it dropped.
    fn evict(&mut self, py: Python<'_>, most_bytes: usize) -> usize {
        py.detach(|| {
            self.text_reader.evict(most_bytes);
            self.entities.evict(most_bytes - self.text_reader.memory_bytes)
        })
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
    fn event(&mut self, given: &Given) -> Option<Event> {
        let (index, partition, offset, timestamp_ms, ref key, ref value) = *given;
        let facets = self.facets.get(&partition);
        if self.has_facets && facets.is_none() {
            return None;
        }
        let (limits, workspace) = (&self.limits, &mut self.workspace);
        let (entity, occurred_at, change) = event::read(key, value, limits, facets, workspace)?;
        let origin = Origin { index, partition, offset, timestamp_ms, entity, occurred_at };
        Some(Event { origin, change })
    }

    /// What the held events do, and the rows of each entity. While this runs, so do Python's
    /// threads.
    fn carry_out(&mut self, on_progress: &Py<PyAny>) -> PyResult<(Batch, Vec<EntityRows>)> {
        let (mut batch, mut rows, mut reported) = (Batch::default(), Vec::new(), Instant::now());
        for (key, events) in by_entity(take(&mut self.held)) {
            let facets = self.facets.get(&key.0);
            if let Some(entity) = self.entities.get_mut(&key) {
                for event in events {
                    batch.apply(entity, event, &self.publication, facets);
                    if reported.elapsed() >= PROGRESS {
                        Python::attach(|py| on_progress.call0(py))?;
                        reported = Instant::now();
                    }
                }
                batch.settle(entity, &self.publication);
                let has_mentions = facets.is_some_and(|facets| facets.emit_mentions() > 0);
                rows.extend(entity.touched.map(|at| batch.touched[at].rows(entity, has_mentions)));
            }
            self.entities.used(key);
        }
        batch.messages.sort_by_key(|message| message.index);
        self.entities.end();
        Ok((batch, rows))
    }
}

/// A record's index, partition, offset, timestamp, key and value.
type Given = (usize, i32, u64, i64, PyBackedBytes, PyBackedBytes);

/// What an event may be read from. `None`: the record is refused, or not of the input topic.
fn given_of(index: usize, record: &Bound<'_, PyAny>, input_topic: &str) -> PyResult<Option<Given>> {
    type Fields<'a> = (Bound<'a, PyString>, i32, u64, i64, Any<'a>, Any<'a>, Any<'a>, Any<'a>);
    type Any<'a> = Bound<'a, PyAny>;
    let (topic, partition, offset, time, key, value, _, refused): Fields<'_> = record.extract()?;
    let (Ok(key), Ok(value)) = (key.cast_into::<PyBytes>(), value.cast_into::<PyBytes>()) else {
        return Ok(None);
    };
    let is_read = refused.is_none() && topic.to_str()? == input_topic;
    Ok(is_read.then(|| (index, partition, offset, time, key.into(), value.into())))
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
