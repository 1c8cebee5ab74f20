//! Metrics of servers in the text format of Prometheus.
//!
//! Every name is a [`Family`] of `families`, which `docs/serve-operations.md` lists.

pub(crate) mod families;
mod registry;
mod requests;

pub(crate) use registry::Registry;
pub(crate) use requests::{ProblemCode, count_request};

/// The media type of the text format.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
