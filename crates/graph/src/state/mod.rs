//! Typed states: values, schemas, reducers and updates.

pub(crate) mod element;
pub(crate) mod list;
pub(crate) mod reducer;
pub(crate) mod schema;
pub(crate) mod snapshot;
pub(crate) mod update;
pub(crate) mod value;
