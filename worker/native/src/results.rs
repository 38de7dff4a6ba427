//! The results of a micro-batch as Python has them.

use crate::apply::Batch;
use crate::message::Message;
use crate::rows::EntityRows;
use crate::store::Key;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

/// Messages, or entities with rows, that are copied for Python before its other threads may go on.
const AT_ONCE: usize = 64;

/// The name of a topic, and the header with the type of its events.
struct OfTopic {
    name: Py<PyString>,
    kind: Py<PyTuple>,
}

/// Parts of messages that are Python's.
pub struct Names {
    summaries: OfTopic,
    facets: OfTopic,
    id: Py<PyString>,
    time: Py<PyString>,
    source: Py<PyTuple>,
    version: Py<PyTuple>,
    content: Py<PyTuple>,
}

/// See `worker/_native.pyi`.
#[pyclass(frozen, get_all, module = "worker._native")]
pub struct Processed {
    outcomes: Py<PyDict>,
    messages: Py<PyList>,
    rows: Py<PyDict>,
    touched: Py<PyList>,
    review_formats: Py<PyDict>,
    created: u64,
    set_changes: u64,
    future_dates: u64,
    steps: u64,
    refills: u64,
    message_bytes: usize,
    row_bytes: usize,
}

impl Processed {
    /// `rows` are those of each touched entity.
    pub fn new(
        py: Python<'_>,
        names: &Names,
        batch: Batch,
        rows: Vec<EntityRows>,
    ) -> PyResult<Self> {
        let (messages, mut message_bytes) = (PyList::empty(py), 0);
        for (at, message) in batch.messages.iter().enumerate() {
            (at % AT_ONCE == 0).then(|| py.detach(|| ()));
            message_bytes += message.entity.len() + message.value.len();
            messages.append((message.index, names.fields(py, message)?))?;
        }
        let (changed, formats, mut row_bytes) = (PyDict::new(py), PyDict::new(py), 0);
        for (at, (touched, (own, newest))) in batch.touched.iter().zip(rows).enumerate() {
            (at % AT_ONCE == 0).then(|| py.detach(|| ()));
            if !changed.contains(touched.partition)? {
                changed.set_item(touched.partition, PyDict::new(py))?;
                formats.set_item(touched.partition, 0)?;
            }
            if newest > formats.as_any().get_item(touched.partition)?.extract()? {
                formats.set_item(touched.partition, newest)?;
            }
            let of_partition = changed.as_any().get_item(touched.partition)?;
            for (key, value) in own {
                row_bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                let value = value.map(|value| PyBytes::new(py, &value));
                of_partition.set_item(PyBytes::new(py, &key), value)?;
            }
        }
        let keys = batch.touched.into_iter().map(|one| (one.partition, one.name));
        let outcomes = PyDict::new(py);
        for (outcome, count) in batch.outcomes {
            outcomes.set_item(outcome, count)?;
        }
        Ok(Processed {
            outcomes: outcomes.into(),
            set_changes: batch.set_changes,
            future_dates: batch.future_dates,
            messages: messages.into(),
            rows: changed.into(),
            touched: keys_for_python(py, keys)?.into(),
            review_formats: formats.into(),
            created: batch.created,
            steps: batch.steps,
            refills: batch.refills,
            message_bytes,
            row_bytes,
        })
    }
}

impl Names {
    pub fn new(py: Python<'_>, summaries: &str, facets: &str) -> PyResult<Self> {
        let header = |name: &str, value: &[u8]| -> PyResult<Py<PyTuple>> {
            let value = PyBytes::new(py, value);
            Ok((PyString::intern(py, name), value).into_pyobject(py)?.unbind())
        };
        let topic = |name: &str, kind: &[u8]| -> PyResult<OfTopic> {
            Ok(OfTopic { name: PyString::new(py, name).into(), kind: header("ce_type", kind)? })
        };
        Ok(Names {
            summaries: topic(summaries, b"summary.changed")?,
            facets: topic(facets, b"facets.changed")?,
            id: PyString::intern(py, "ce_id").into(),
            time: PyString::intern(py, "ce_time").into(),
            source: header("ce_source", b"coversumm-worker")?,
            version: header("ce_specversion", b"1.0")?,
            content: header("content-type", b"application/json")?,
        })
    }

    /// The fields of a `worker.events.Message`.
    fn fields<'py>(&self, py: Python<'py>, message: &Message) -> PyResult<Bound<'py, PyTuple>> {
        let topic = if message.is_of_facets { &self.facets } else { &self.summaries };
        let headers = PyList::empty(py);
        headers.append((&self.id, PyBytes::new(py, message.id.as_bytes())))?;
        for constant in [&self.source, &topic.kind, &self.version] {
            headers.append(constant)?;
        }
        if let Some(time) = &message.time {
            headers.append((&self.time, PyBytes::new(py, time.as_bytes())))?;
        }
        headers.append(&self.content)?;
        let key = PyBytes::new(py, message.entity.as_bytes());
        let value = PyBytes::new(py, &message.value);
        (&topic.name, message.partition, key, value, headers).into_pyobject(py)
    }
}

pub fn keys_for_python<'py>(
    py: Python<'py>,
    keys: impl Iterator<Item = Key>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (partition, name) in keys {
        list.append((partition, PyBytes::new(py, name.as_bytes())))?;
    }
    Ok(list)
}
