//! Nodes: code, nested graphs and the middleware around them.

pub(crate) mod body;
pub(crate) mod branches;
pub(crate) mod context;
pub(crate) mod fan_out;
pub(crate) mod middleware;
pub(crate) mod nested;
pub(crate) mod parallel;
pub(crate) mod retry;
pub(crate) mod subgraph;
