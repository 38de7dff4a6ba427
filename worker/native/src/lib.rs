//! The usual micro-batch in machine code: records in, messages and rows out.
//!
//! The Python form in `worker/` is the definition, and reads whatever this one leaves out. Both write
//! the same bytes. `event` reads records, `entity` holds an entity and ranks its sentences, `apply`
//! carries events out, `message` and `rows` write, `rows` reads too, and `pool` is what Python calls.

mod apply;
mod entity;
mod event;
mod json;
mod message;
mod pool;
mod rows;
mod vector;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    /// Raised with each change of what `worker/_native.pyi` says.
    #[pymodule_export]
    const API: u32 = 1;

    #[pymodule_export]
    use crate::pool::{Pool, Processed};
}
