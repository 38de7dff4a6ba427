//! The core of one entity for Python, event by event: `worker.coversumm.EntityCore` in native code.

use crate::reservoir::{Copies, Live, Ranked, Reservoir};
use crate::vector::{AT_ONCE, Vectors, square};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Most sentences with which the certificate's integers fit 127 bits, if keys are below 2^53.
const MOST: usize = 1 << 24;
const MOST_KEY: i64 = 1 << 53;

type Ids = Vec<Py<PyBytes>>;
type Points<'py> = (Ids, Bound<'py, PyAny>);

/// See `worker/_native.pyi`.
#[pyclass(module = "worker._native")]
pub struct Core {
    vectors: Vectors,
    nearest: Reservoir,
    /// By place the id of each sentence.
    ids: Ids,
    places: BTreeMap<Box<[u8]>, u32>,
    /// The places of the present set.
    members: Vec<u32>,
}

#[pymethods]
impl Core {
    #[new]
    #[pyo3(signature = (k, dimension, *, distinct = false))]
    fn new(k: usize, dimension: usize, distinct: bool) -> PyResult<Self> {
        if k < 1 || dimension < 1 {
            return Err(PyValueError::new_err("k and dimension must be at least 1"));
        }
        let copies = if distinct { Copies::ShownOnce } else { Copies::Each };
        let (vectors, nearest) = (Vectors::new(dimension), Reservoir::new(k, copies));
        let (ids, places, members) = (Vec::new(), BTreeMap::new(), Vec::new());
        Ok(Core { vectors, nearest, ids, places, members })
    }

    /// See `worker/_native.pyi`.
    fn apply<'py>(
        &mut self,
        py: Python<'py>,
        steps: Vec<(Points<'py>, Points<'py>)>,
    ) -> PyResult<Vec<Option<Bound<'py, PyTuple>>>> {
        steps.into_iter().map(|(removed, added)| self.step(py, removed.0, added)).collect()
    }

    /// Of each sentence of the summary its id, its distance and its support.
    fn ranking(&mut self, py: Python<'_>) -> Vec<(Py<PyBytes>, f64, u32)> {
        let (ranked, centroid) = (self.rank(py), self.nearest.centroid);
        let named = |one: &Ranked| {
            let distance = centroid.micros(one.key) as f64 / 1e6;
            (self.ids[one.row as usize].clone_ref(py), distance, one.support)
        };
        ranked.iter().map(named).collect()
    }

    /// Searches of all sentences so far.
    #[getter]
    fn searches(&self) -> usize {
        self.nearest.searches
    }

    #[getter]
    fn reservoir_size(&self) -> usize {
        self.nearest.size()
    }

    fn __contains__(&self, id: &[u8]) -> bool {
        self.places.contains_key(id)
    }

    fn __len__(&self) -> usize {
        self.places.len()
    }
}

impl Core {
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        removed: Ids,
        (added, vectors): Points<'py>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let (dimension, mut numbers) = (self.vectors.dimension, Vec::new());
        if !added.is_empty() {
            numbers = numbers_of(py, &vectors, added.len(), dimension)?;
            let n = (self.places.len() + added.len()).saturating_sub(removed.len());
            let largest = numbers.chunks_exact(dimension).map(square).max().unwrap_or_default();
            if n > MOST || 3 * n as i64 > MOST_KEY / largest.max(self.vectors.largest()).max(1) {
                return Err(PyOverflowError::new_err("keys of so many sentences do not fit"));
            }
        }
        for id in removed {
            let id = id.as_bytes(py);
            let place = self.places.remove(id);
            let row = place.ok_or_else(|| PyKeyError::new_err("an id to remove is not live"))?;
            let by_id = &by_id(py, &self.ids);
            self.nearest.remove(Live { vectors: &self.vectors, by_id }, row, None, true);
            self.vectors.remove(row);
        }
        let mut rows = Vec::new();
        for (id, x) in added.into_iter().zip(numbers.chunks_exact(dimension)) {
            rows.push(self.add(py, id, x)?);
            if rows.len().is_multiple_of(AT_ONCE) {
                self.rank(py); // so that few of them are near
            }
        }
        let ranked = self.rank(py);
        let is_same = |one: &Ranked| self.members.contains(&one.row) && !rows.contains(&one.row);
        if ranked.len() == self.members.len() && ranked.iter().all(is_same) {
            return Ok(None);
        }
        self.members = ranked.iter().map(|one| one.row).collect();
        let ids = self.members.iter().map(|row| self.ids[*row as usize].clone_ref(py));
        PyTuple::new(py, ids.collect::<Ids>()).map(Some)
    }

    fn add(&mut self, py: Python<'_>, id: Py<PyBytes>, x: &[i16]) -> PyResult<u32> {
        if self.places.contains_key(id.as_bytes(py)) {
            return Err(PyValueError::new_err("an id to add is live already"));
        }
        let row = self.vectors.insert(x.into());
        self.places.insert(id.as_bytes(py).into(), row);
        if let Some(place) = self.ids.get_mut(row as usize) {
            *place = id;
        } else {
            self.ids.push(id);
        }
        let by_id = &by_id(py, &self.ids);
        self.nearest.add(Live { vectors: &self.vectors, by_id }, row, None, true);
        Ok(row)
    }

    fn rank(&mut self, py: Python<'_>) -> Vec<Ranked> {
        let by_id = &by_id(py, &self.ids);
        self.nearest.rank(Live { vectors: &self.vectors, by_id }, |row| self.vectors.has(row))
    }
}

fn by_id(py: Python<'_>, ids: &Ids) -> impl Fn(u32, u32) -> Ordering {
    move |one, other| ids[one as usize].as_bytes(py).cmp(ids[other as usize].as_bytes(py))
}

/// The numbers of a contiguous array of int16 of this shape.
fn numbers_of(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    count: usize,
    dimension: usize,
) -> PyResult<Vec<i16>> {
    let buffer = PyBuffer::<i16>::get(array)?;
    let wrong = || PyValueError::new_err("vectors must be contiguous, one of int16 for each id");
    let is_right = buffer.shape() == [count, dimension] && buffer.is_c_contiguous();
    is_right.then(|| buffer.to_vec(py)).ok_or_else(wrong)?
}
