//! Where a run goes after a node: along a static edge, or where a function of the state says.

use std::collections::HashMap;
use std::fmt;

use crate::error::NodeError;
use crate::state::snapshot::State;

/// The end of a run. It is no node: a node may be called `END` without being it.
pub const END: EdgeTarget = EdgeTarget::End;

/// Where an edge leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EdgeTarget {
    /// To the node of that name.
    Node(String),
    /// To the end of the run; [`END`] is its short name.
    End,
}

impl EdgeTarget {
    /// The node of that name.
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

/// What the function of a conditional edge may return: a target, or a result of one.
pub trait IntoRoute {
    /// The target, or why there is none.
    ///
    /// # Errors
    /// The function failed.
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

/// The one edge out of a node, its targets resolved.
pub(crate) enum Edge {
    Static(Position),
    Conditional {
        targets: HashMap<EdgeTarget, Position>,
        route: Route,
    },
}

/// A place in a compiled graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Node(usize),
    End,
}

/// Why a conditional edge leads nowhere.
pub(crate) enum RoutingFailure {
    Failed(NodeError),
    Undeclared(EdgeTarget),
}

impl Edge {
    /// Whether [`follow`](Self::follow) can fail.
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
