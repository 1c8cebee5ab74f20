//! Where a run goes after a node: along a static edge, or where a function of the state says.

use std::collections::HashMap;
use std::fmt;

use crate::error::NodeError;
use crate::state::snapshot::State;

/// The end of a run. It is no node: a node may be called `END` without being it.
pub const END: Target = Target::End;

/// Where an edge leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// To the node of that name.
    Node(String),
    /// To the end of the run; [`END`] is its short name.
    End,
}

impl Target {
    /// The node of that name.
    pub fn node(name: impl Into<String>) -> Self {
        Self::Node(name.into())
    }
}

impl From<&str> for Target {
    fn from(name: &str) -> Self {
        Self::node(name)
    }
}

impl From<String> for Target {
    fn from(name: String) -> Self {
        Self::Node(name)
    }
}

impl fmt::Display for Target {
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
    fn into_route(self) -> Result<Target, NodeError>;
}

impl IntoRoute for Target {
    fn into_route(self) -> Result<Target, NodeError> {
        Ok(self)
    }
}

impl IntoRoute for Result<Target, NodeError> {
    fn into_route(self) -> Result<Target, NodeError> {
        self
    }
}

/// The function of a conditional edge.
pub(crate) type Route = Box<dyn Fn(&State) -> Result<Target, NodeError> + Send + Sync>;

/// The one edge out of a node, its targets resolved.
pub(crate) enum Edge {
    Static(Position),
    Conditional {
        targets: HashMap<Target, Position>,
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
pub(crate) enum Lost {
    Failed(NodeError),
    Undeclared(Target),
}

impl Edge {
    /// Whether [`follow`](Self::follow) can fail.
    pub(crate) fn can_fail(&self) -> bool {
        matches!(self, Self::Conditional { .. })
    }

    pub(crate) fn follow(&self, state: &State) -> Result<Position, Lost> {
        match self {
            Self::Static(position) => Ok(*position),
            Self::Conditional { targets, route } => {
                let target = route(state).map_err(Lost::Failed)?;
                targets
                    .get(&target)
                    .copied()
                    .ok_or(Lost::Undeclared(target))
            }
        }
    }
}
