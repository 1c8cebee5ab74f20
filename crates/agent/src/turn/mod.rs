//! Turns: the graph of a model and its tools, and what a turn may spend.

pub(crate) mod answer_parts;
pub(crate) mod assistant;
pub(crate) mod budget;
pub(crate) mod chat;
pub(crate) mod continuation;
pub(crate) mod fork_point;
pub(crate) mod listener;
pub(crate) mod progress;
pub(crate) mod redacted;
pub(crate) mod request;
pub(crate) mod response_requirements;
pub(crate) mod responses;
pub(crate) mod routing;
pub(crate) mod run;
pub(crate) mod spans;
