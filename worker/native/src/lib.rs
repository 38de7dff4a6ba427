//! The usual micro-batch in machine code: records in, messages and rows out.
//!
//! The Python form in `worker/` is the definition, and reads whatever this one leaves out. Both
//! write the same bytes. `review` has the types that the others share. `event` reads records with
//! `json` and `fields`; `entity` holds an entity, and `reservoir` ranks its sentences by their
//! `vector`s; `apply` carries events out; `message` and `rows` write, and `loader` reads an entity
//! from its rows; `pool` is what Python calls, with `store` behind it and `results` before it, or
//! `core`, for one entity without events. `facets` says which sentences belong to which facets,
//! `facet_sets` holds those of an entity, `newest` orders its reviews by date, `facet_ranks` ranks
//! them, and `facet_message` writes them; `words` asks Python about texts.

mod apply;
mod core;
mod entity;
mod event;
mod facet_message;
mod facet_ranks;
mod facet_sets;
mod facets;
mod fields;
mod json;
mod loader;
mod message;
mod newest;
mod pool;
mod reservoir;
mod results;
mod review;
mod rows;
mod store;
mod vector;
mod words;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    /// A digest of the sources, from setup.py.
    #[pymodule_export]
    const SOURCES: Option<&str> = option_env!("COVERSUMM_SOURCES");

    #[pymodule_export]
    use crate::core::Core;

    #[pymodule_export]
    use crate::pool::Pool;

    #[pymodule_export]
    use crate::results::Processed;
}
