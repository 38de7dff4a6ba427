//! The pool as Python sees it, `worker/_native.pyi`: entities, and the events that are held.

use crate::apply::Batch;
use crate::entity::MOST;
use crate::event::{self, Change, Event, Known, Limits, Origin};
use crate::facets::{Criteria, PlainFacets};
use crate::loader::{Loader, MOST_REVIEWS};
use crate::message::{Emit, Publication};
use crate::reservoir::Copies;
use crate::results::{Names, Processed, keys_for_python};
use crate::rows::EntityRows;
use crate::store::{Key, Store, key_of};
use crate::vector::Workspace;
use crate::words::TextReader;
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

/// See `worker.processing.config.ProcessorConfig`.
#[derive(FromPyObject)]
struct Config {
    limits: Limits,
    k: usize,
    distinct: bool,
    by_text: bool,
    emit: String,
    epoch: u64,
    input_topic: String,
    output_topic: String,
    facets: Py<PyAny>,
    facets_topic: String,
}

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
    fn new(py: Python<'_>, config: Config, most_sentences: usize) -> PyResult<Self> {
        let Config { limits, k, by_text, distinct, epoch, input_topic, .. } = config;
        let emit = match &*config.emit {
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
            has_facets: !config.facets.is_none(py),
            facets: HashMap::new(),
            held: Vec::new(),
            workspace: Workspace::default(),
            text_reader: TextReader::default(),
            names: Names::new(py, &config.output_topic, &config.facets_topic)?,
        })
    }

    /// Give a partition its facets. Without them its records are not usual, if others have some.
    fn define(&mut self, partition: i32, facets: PlainFacets) -> PyResult<()> {
        let criteria = Criteria::new(facets, self.limits.dimension);
        let criteria = criteria.ok_or_else(|| PyValueError::new_err("numbers do not fit"))?;
        self.facets.insert(partition, criteria);
        Ok(())
    }

    /// See `worker/_native.pyi`.
    fn take<'py>(
        &mut self,
        records: &Bound<'py, PySequence>,
        indexes: &Bound<'py, PyAny>,
        mut known: HashMap<usize, Known>,
        rows_of: &Bound<'py, PyAny>,
        mentions: &Bound<'py, PyAny>,
    ) -> PyResult<Taken<'py>> {
        let (py, mut given) = (records.py(), Vec::new());
        self.held.clear();
        for index in indexes.try_iter()? {
            let index: usize = index?.extract()?;
            let (record, known) = (records.get_item(index)?, known.remove(&index));
            given.extend(given_of(index, &record, known, &self.publication.input_topic)?);
        }
        let (mut held, absent) = py.detach(|| {
            self.entities.begin();
            self.read(&given)
        });
        let (before, mut unfit) = (self.entities.memory_bytes, HashSet::new());
        for (index, key) in absent {
            let loaded = self.entities.memory_bytes - before;
            let rows = rows_of.call1((index, loaded, self.memory_bytes()))?;
            if rows.is_none() || !self.load(py, &key, &rows)? {
                unfit.insert(key);
            }
        }
        py.detach(|| {
            unfit.extend(self.too_large(&held));
            self.leave(&mut held, &unfit);
        });
        let loaded = self.entities.memory_bytes.saturating_sub(before);
        self.text_reader.read(py, &mut held, &mut self.entities, &self.facets, mentions)?;
        let sizes = py.detach(|| self.sizes(&held));
        self.held = held;
        Ok((sizes, keys_for_python(py, unfit.into_iter())?, loaded))
    }

    /// Carry out all held events, and say from time to time that work goes on.
    fn process(&mut self, py: Python<'_>, on_progress: Py<PyAny>) -> PyResult<Processed> {
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
    /// The usual events, without those of entities with another one, which leave; each of their
    /// entities that is not in the pool, with the index of its first event.
    fn read(&mut self, given: &[Given]) -> (Vec<Event>, Vec<(usize, Key)>) {
        let (mut held, mut left) = (Vec::new(), HashSet::new());
        for one in given {
            match self.event(one) {
                Some(event) => held.push(event),
                None => {
                    left.extend(str::from_utf8(&one.key).map(|key| (one.partition, key.into())))
                }
            }
        }
        self.leave(&mut held, &left);
        let mut seen = HashSet::new();
        let absent = held.iter().map(|event| (event.origin.index, key_of(&event.origin)));
        let absent = absent.filter(|(_, key)| self.entities.get(key).is_none());
        let absent = absent.filter(|(_, key)| seen.insert(key.clone())).collect();
        (held, absent)
    }

    /// The event of a record, if it is usual.
    fn event(&mut self, given: &Given) -> Option<Event> {
        let Given { index, partition, offset, timestamp_ms, ref key, ref value, ref known } =
            *given;
        let facets = self.facets.get(&partition);
        if self.has_facets && facets.is_none() {
            return None;
        }
        let (limits, workspace) = (&self.limits, &mut self.workspace);
        let (value, known) = (value.as_ref()?, known.as_ref());
        let (entity, occurred_at, change) =
            event::read(key, value, known, limits, facets, workspace)?;
        let origin = Origin { index, partition, offset, timestamp_ms, entity, occurred_at };
        Some(Event { origin, change })
    }

    /// Take in an entity from its rows; whether it is one for the pool.
    fn load(&mut self, py: Python<'_>, key: &Key, rows: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Limits { dimension, most_sentences, .. } = self.limits;
        let facets = self.facets.get(&key.0);
        let mut loader =
            Loader::new(&key.1, dimension, self.publication.k, self.copies, most_sentences, facets);
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
            let entity = loader.finish();
            entity.map(|entity| self.entities.put(key.clone(), entity)).is_some()
        }))
    }

    /// The entities that these events might make too large.
    fn too_large(&self, held: &[Event]) -> Vec<Key> {
        let mut most: HashMap<Key, (usize, usize)> = HashMap::new();
        for event in held {
            let key = key_of(&event.origin);
            let now = self.entities.get(&key);
            let now = now.map_or((0, 0), |entity| (entity.reviews.len(), entity.vectors.count()));
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
        most.into_keys().collect()
    }

    /// Forget the events of these entities, and drop them.
    fn leave(&mut self, held: &mut Vec<Event>, gone: &HashSet<Key>) {
        if !gone.is_empty() {
            held.retain(|event| !gone.contains(&key_of(&event.origin)));
            gone.iter().for_each(|key| self.entities.remove(key));
        }
    }

    /// By event the index of its record, and how many sentences it adds, replaces or removes.
    fn sizes(&self, held: &[Event]) -> Vec<(usize, usize)> {
        let mut live = HashMap::new();
        let size = held.iter().map(|event| {
            let entity = self.entities.get(&key_of(&event.origin));
            let stored = |review: &str| {
                entity.and_then(|one| Some(one.reviews[one.number(review)? as usize].live.len()))
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
                let has_mentions = facets.is_some_and(|facets| facets.plain.emit_mentions > 0);
                rows.extend(entity.touched.map(|at| batch.touched[at].rows(entity, has_mentions)));
            }
            self.entities.used(key);
        }
        batch.messages.sort_by_key(|message| message.index);
        self.entities.end();
        Ok((batch, rows))
    }
}

/// By held event the index of its record and its sentences; the entities that the pool does not
/// take; bytes of those that it read.
type Taken<'py> = (Vec<(usize, usize)>, Bound<'py, PyList>, usize);

/// What an event may be read from.
struct Given {
    index: usize,
    partition: i32,
    offset: u64,
    timestamp_ms: i64,
    key: PyBackedBytes,
    /// `None`: the record is refused, not of the input topic, or has no value.
    value: Option<PyBackedBytes>,
    known: Option<Known>,
}

/// `None`: a record without a key is no entity's.
fn given_of(
    index: usize,
    record: &Bound<'_, PyAny>,
    known: Option<Known>,
    input_topic: &str,
) -> PyResult<Option<Given>> {
    type Fields<'a> = (Bound<'a, PyString>, i32, u64, i64, Any<'a>, Any<'a>, Any<'a>, Any<'a>);
    type Any<'a> = Bound<'a, PyAny>;
    let (topic, partition, offset, timestamp_ms, key, value, _, refused): Fields<'_> =
        record.extract()?;
    let Ok(key) = key.cast_into::<PyBytes>() else { return Ok(None) };
    let is_read = refused.is_none() && topic.to_str()? == input_topic;
    let value = value.cast_into::<PyBytes>().ok().filter(|_| is_read).map(Into::into);
    Ok(Some(Given { index, partition, offset, timestamp_ms, key: key.into(), value, known }))
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
