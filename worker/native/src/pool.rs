//! The pool as Python sees it, `worker/_native.pyi`: entities, and the events that are held.

use crate::apply::{Batch, Touched};
use crate::entity::{Entity, MOST};
use crate::event::{self, Change, Event, Limits, Origin};
use crate::message::{Message, Publication};
use crate::rows::Loader;
use crate::vector::Workspace;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySequence, PyString, PyTuple};
use std::collections::{HashMap, HashSet, VecDeque};

type Key = (i32, Box<str>);

/// Entities in memory, and the events that they take the usual way.
#[pyclass(module = "worker._native")]
pub struct Pool {
    limits: Limits,
    publication: Publication,
    entities: HashMap<Key, Entity>,
    held: Vec<Event>,
    workspace: Workspace,
    memory_bytes: usize,
    /// Entities that were loaded since the last micro-batch.
    loaded: Vec<Key>,
    loaded_bytes: usize,
    /// Micro-batches so far.
    now: u64,
    /// Keys by when they were used, some of them again later.
    order: VecDeque<(u64, Key)>,
    names: Names,
}

/// Parts of messages that are Python's.
struct Names {
    topic: Py<PyString>,
    id: Py<PyString>,
    time: Py<PyString>,
    source: Py<PyTuple>,
    kind: Py<PyTuple>,
    version: Py<PyTuple>,
    content: Py<PyTuple>,
}

#[pyclass(frozen, get_all, module = "worker._native")]
pub struct Processed {
    outcomes: Py<PyDict>,
    messages: Py<PyList>,
    rows: Py<PyDict>,
    touched: Py<PyList>,
    review_formats: Py<PyDict>,
    created: u64,
    set_changes: usize,
    steps: u64,
    sentences: usize,
    message_bytes: usize,
    row_bytes: usize,
    loaded_bytes: usize,
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (*, dimension, k, epoch, model, input_topic, output_topic, max_event_bytes,
        max_text_bytes, max_sentence_chars, max_sentences_per_review, max_sentences_per_deletion,
        max_sentences_per_entity, most_sentences))]
    #[expect(clippy::too_many_arguments, reason = "all are given by name")]
    fn new(
        py: Python<'_>,
        dimension: usize,
        k: usize,
        epoch: u64,
        model: Option<String>,
        input_topic: String,
        output_topic: &str,
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
        Ok(Pool {
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
            publication: Publication { epoch, k, model, input_topic },
            entities: HashMap::new(),
            held: Vec::new(),
            workspace: Workspace::default(),
            memory_bytes: 0,
            loaded: Vec::new(),
            loaded_bytes: 0,
            now: 0,
            order: VecDeque::new(),
            names: Names::new(py, output_topic)?,
        })
    }

    /// Those of these indexes whose records are usual; their events are held.
    fn read(
        &mut self,
        records: &Bound<'_, PySequence>,
        indexes: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<usize>> {
        self.held.clear();
        self.now += 1;
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
        let absent = keys.filter(|key| !self.entities.contains_key(key));
        keys_for_python(py, absent.filter(|key| seen.insert(key.clone())))
    }

    /// Take in an entity from its rows; whether it is one for the pool.
    fn load(&mut self, partition: i32, entity: &[u8], rows: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(name) = std::str::from_utf8(entity) else {
            return Ok(false);
        };
        let mut loader = Loader::new(name, self.limits.dimension, self.limits.most_sentences);
        for row in rows.try_iter()? {
            let row = row?;
            let (key, value): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = row.extract()?;
            if loader.take(key.as_bytes(), value.as_bytes()).is_none() {
                return Ok(false);
            }
        }
        let Some(mut entity) = loader.finish(self.publication.k) else {
            return Ok(false);
        };
        entity.bytes = entity.measure();
        self.loaded_bytes += entity.bytes;
        self.put((partition, name.into()), entity);
        Ok(true)
    }

    /// The entities that would become too large.
    fn refused<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut most: HashMap<Key, usize> = HashMap::new();
        for event in &self.held {
            let key = key_of(&event.origin);
            let live = self.entities.get(&key).map_or(0, |entity| entity.sentences.len());
            if let Change::Upsert(upsert) = &event.change {
                *most.entry(key).or_insert(live) += upsert.sentences.len();
            }
        }
        most.retain(|_, most| *most > self.limits.most_sentences);
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
            self.remove(key);
        }
    }

    /// Carry out all held events.
    fn process(&mut self, py: Python<'_>) -> PyResult<Processed> {
        let is_there = |event: &Event| self.entities.contains_key(&key_of(&event.origin));
        if !self.held.iter().all(is_there) {
            return Err(PyValueError::new_err("an entity was neither loaded nor made to leave"));
        }
        let mut batch = Batch::default();
        for event in self.held.drain(..) {
            if let Some(entity) = self.entities.get_mut(&key_of(&event.origin)) {
                entity.used = self.now;
                batch.apply(entity, event, &self.publication);
            }
        }
        self.processed(py, batch)
    }

    fn drop(&mut self, partition: i32, entity: &[u8]) {
        if let Ok(name) = std::str::from_utf8(entity) {
            self.remove(&(partition, name.into()));
        }
    }

    /// Drop all entities of these partitions.
    fn forget(&mut self, partitions: HashSet<i32>) {
        self.entities.retain(|(partition, _), _| !partitions.contains(partition));
        self.memory_bytes = self.entities.values().map(|entity| entity.bytes).sum();
    }

    /// Drop those not used for longest, down to so many bytes; how many it dropped.
    fn evict(&mut self, most_bytes: usize) -> usize {
        let before = self.entities.len();
        while self.memory_bytes > most_bytes {
            let Some((used, key)) = self.order.pop_front() else {
                break;
            };
            if self.entities.get(&key).is_some_and(|entity| entity.used == used) {
                self.remove(&key);
            }
        }
        before - self.entities.len()
    }

    #[getter]
    fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    fn __contains__(&self, key: (i32, Vec<u8>)) -> bool {
        let name = String::from_utf8(key.1);
        name.is_ok_and(|name| self.entities.contains_key(&(key.0, name.into())))
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
        let read = event::read(key.as_bytes(), value.as_bytes(), &self.limits, &mut self.workspace);
        let Some((entity, occurred_at, change)) = read else {
            return Ok(None);
        };
        let origin = Origin {
            index,
            partition: record.get_item(1)?.extract()?,
            offset: record.get_item(2)?.extract()?,
            timestamp_ms: record.get_item(3)?.extract()?,
            entity,
            occurred_at,
        };
        Ok(Some(Event { origin, change }))
    }
}

impl Pool {
    fn put(&mut self, key: Key, mut entity: Entity) {
        self.remove(&key);
        self.memory_bytes += entity.bytes;
        entity.used = self.now;
        self.order.push_back((self.now, key.clone()));
        self.loaded.push(key.clone());
        self.entities.insert(key, entity);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entity) = self.entities.remove(key) {
            self.memory_bytes -= entity.bytes;
        }
    }

    /// The results of a batch for Python; the entities are complete in the rows then.
    fn processed(&mut self, py: Python<'_>, batch: Batch) -> PyResult<Processed> {
        for key in std::mem::take(&mut self.loaded) {
            if self.entities.get(&key).is_some_and(|entity| !entity.exists) {
                self.remove(&key);
            }
        }
        let (rows, formats, touched) = (PyDict::new(py), PyDict::new(py), PyList::empty(py));
        let mut newest: HashMap<i32, u8> = HashMap::new();
        let mut row_bytes = 0;
        for one in &batch.touched {
            let (format, bytes) = self.write(one, &rows)?;
            row_bytes += bytes;
            let newest = newest.entry(one.partition).or_default();
            *newest = format.max(*newest);
            touched.append((one.partition, PyBytes::new(py, one.name.as_bytes())))?;
        }
        for (partition, format) in newest {
            formats.set_item(partition, format)?;
        }
        if self.order.len() > 2 * self.entities.len() + 64 {
            let entities = &self.entities;
            self.order.retain(|(used, key)| entities.get(key).is_some_and(|one| one.used == *used));
        }
        let outcomes = PyDict::new(py);
        for (outcome, count) in batch.outcomes {
            outcomes.set_item(outcome, count)?;
        }
        let messages = PyList::empty(py);
        let mut message_bytes = 0;
        for message in &batch.messages {
            message_bytes += message.entity.len() + message.value.len();
            messages.append((message.index, self.names.fields(py, message)?))?;
        }
        Ok(Processed {
            outcomes: outcomes.into(),
            set_changes: messages.len(),
            messages: messages.into(),
            rows: rows.into(),
            touched: touched.into(),
            review_formats: formats.into(),
            created: batch.created,
            steps: batch.steps,
            sentences: batch.sentences,
            message_bytes,
            row_bytes,
            loaded_bytes: std::mem::take(&mut self.loaded_bytes),
        })
    }

    /// Adds the rows of a touched entity; the newest format of its reviews, and their bytes.
    fn write(&mut self, touched: &Touched, rows: &Bound<'_, PyDict>) -> PyResult<(u8, usize)> {
        let (py, key) = (rows.py(), (touched.partition, touched.name.clone()));
        let Some(entity) = self.entities.get_mut(&key) else {
            return Ok((0, 0));
        };
        let (own, newest) = touched.rows(entity);
        self.memory_bytes -= entity.bytes;
        entity.bytes = entity.measure();
        self.memory_bytes += entity.bytes;
        self.order.push_back((self.now, key));
        let of_partition = match rows.get_item(touched.partition)? {
            Some(found) => found.cast_into()?,
            None => {
                let made = PyDict::new(py);
                rows.set_item(touched.partition, &made)?;
                made
            }
        };
        let mut bytes = 0;
        for (key, value) in own {
            bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            let value = value.map(|value| PyBytes::new(py, &value));
            of_partition.set_item(PyBytes::new(py, &key), value)?;
        }
        Ok((newest, bytes))
    }
}

impl Names {
    fn new(py: Python<'_>, topic: &str) -> PyResult<Self> {
        let header = |name: &str, value: &[u8]| -> PyResult<Py<PyTuple>> {
            let value = PyBytes::new(py, value);
            Ok((PyString::intern(py, name), value).into_pyobject(py)?.unbind())
        };
        Ok(Names {
            topic: PyString::new(py, topic).into(),
            id: PyString::intern(py, "ce_id").into(),
            time: PyString::intern(py, "ce_time").into(),
            source: header("ce_source", b"coversumm-worker")?,
            kind: header("ce_type", b"summary.changed")?,
            version: header("ce_specversion", b"1.0")?,
            content: header("content-type", b"application/json")?,
        })
    }

    /// The fields of a `worker.events.Message`.
    fn fields<'py>(&self, py: Python<'py>, message: &Message) -> PyResult<Bound<'py, PyTuple>> {
        let headers = PyList::empty(py);
        headers.append((&self.id, PyBytes::new(py, message.id.as_bytes())))?;
        for constant in [&self.source, &self.kind, &self.version] {
            headers.append(constant)?;
        }
        if let Some(time) = &message.time {
            headers.append((&self.time, PyBytes::new(py, time.as_bytes())))?;
        }
        headers.append(&self.content)?;
        let key = PyBytes::new(py, message.entity.as_bytes());
        let value = PyBytes::new(py, &message.value);
        (&self.topic, message.partition, key, value, headers).into_pyobject(py)
    }
}

fn key_of(origin: &Origin) -> Key {
    (origin.partition, origin.entity.clone())
}

fn keys_for_python<'py>(
    py: Python<'py>,
    keys: impl Iterator<Item = Key>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (partition, name) in keys {
        list.append((partition, PyBytes::new(py, name.as_bytes())))?;
    }
    Ok(list)
}
