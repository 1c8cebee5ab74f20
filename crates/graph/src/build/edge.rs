//! Edges between nodes: fixed, or chosen by a function of the state.

use std::collections::HashMap;
use std::fmt;

use crate::error::NodeError;
use crate::state::snapshot::State;

/// The end of a run. It is distinct from a node called `END`.
pub const END: EdgeTarget = EdgeTarget::End;

/// The target of an edge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EdgeTarget {
    /// The node of that name.
    Node(String),
    /// The end of the run; [`END`] is its short name.
    End,
}

impl EdgeTarget {
    /// Returns the target for the node of that name.
    pub fn node(name: impl Into<String>) -> Self {
        Self::Node(name.into())
    }
}

impl From<&str> for EdgeTarget {
    fn from(name: &str) -> Self {
        Self::node(name)
    }
}

impl From<String> for EdgeTarget {
    fn from(name: String) -> Self {
        Self::Node(name)
    }
}

impl fmt::Display for EdgeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "`{name}`"),
            Self::End => f.write_str("END"),
        }
    }
}

/// A return type of a conditional edge's function: a target or a result.
pub trait IntoRoute {
    /// Returns the chosen target.
    ///
    /// # Errors
    /// Returns the error of the function if it failed.
    fn into_route(self) -> Result<EdgeTarget, NodeError>;
}

impl IntoRoute for EdgeTarget {
    fn into_route(self) -> Result<EdgeTarget, NodeError> {
        Ok(self)
    }
}

impl IntoRoute for Result<EdgeTarget, NodeError> {
    fn into_route(self) -> Result<EdgeTarget, NodeError> {
        self
    }
}

/// The function of a conditional edge.
pub(crate) type Route = Box<dyn Fn(&State) -> Result<EdgeTarget, NodeError> + Send + Sync>;

/// The one outgoing edge of a node, with resolved targets.
pub(crate) enum Edge {
    Static(Position),
    Conditional {
        targets: HashMap<EdgeTarget, Position>,
        route: Route,
    },
}

/// A position in a compiled graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Node(usize),
    End,
}

/// The failure of a conditional edge.
pub(crate) enum RoutingFailure {
    Failed(NodeError),
    Undeclared(EdgeTarget),
}

impl Edge {
    /// Returns whether [`follow`](Self::follow) can fail.
    pub(crate) fn can_fail(&self) -> bool {
        matches!(self, Self::Conditional { .. })
    }

    pub(crate) fn follow(&self, state: &State) -> Result<Position, RoutingFailure> {
        match self {
            Self::Static(position) => Ok(*position),
            Self::Conditional { targets, route } => {
                let target = route(state).map_err(RoutingFailure::Failed)?;
                targets
                    .get(&target)
                    .copied()
                    .ok_or(RoutingFailure::Undeclared(target))
            }
        }
    }
}
