//! Errors that prevent a graph from being compiled.

use std::fmt;

use crate::build::edge::EdgeTarget;
use crate::state::reducer::Reducer;
use crate::state::snapshot::StateError;

/// A mistake in a graph or its schema, found before a node runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The entry is missing or is not a node.
    #[error("{}", match entry {
        Some(name) => format!("the entry `{name}` is not a node of the graph"),
        None => "the graph has no entry".to_owned(),
    })]
    NoDeclaredEntry {
        /// The declared name, if any.
        entry: Option<String>,
    },
    /// No path leads from the entry to a node.
    #[error("the node `{node}` cannot be reached from the entry")]
    UnreachableNode {
        /// The node.
        node: String,
    },
    /// An edge starts or ends at an unknown node.
    #[error("the edge from `{from}` to {to} refers to an unknown node")]
    DanglingEdge {
        /// The start of the edge.
        from: String,
        /// The end of the edge, or one of its possible ends.
        to: EdgeTarget,
    },
    /// A node has more than one outgoing edge.
    #[error("the node `{node}` has more than one outgoing edge")]
    MultipleOutgoingEdges {
        /// The node.
        node: String,
    },
    /// A node has no outgoing edge, or a conditional one without targets.
    #[error("the node `{node}` has no outgoing edge; one to END ends the run")]
    MissingOutgoingEdge {
        /// The node.
        node: String,
    },
    /// Two nodes have the same name.
    #[error("the node `{node}` is added twice")]
    DuplicateNode {
        /// The name.
        node: String,
    },
    /// A retry policy names an unknown node.
    #[error("a retry policy names the unknown node `{node}`")]
    UnknownRetriedNode {
        /// The name.
        node: String,
    },
    /// A middleware wraps an unknown node.
    #[error("a middleware wraps the unknown node `{node}`")]
    UnknownNode {
        /// The name.
        node: String,
    },
    /// Two branches of a node have the same name.
    #[error("the node `{node}` has two branches `{branch}`")]
    DuplicateBranch {
        /// The node.
        node: String,
        /// The name.
        branch: String,
    },
    /// A node refers to a field that is not declared where it should be.
    #[error("the node `{node}` refers to the field `{field}`, which {side} does not declare")]
    MappingReferencesUndeclaredField {
        /// The node.
        node: String,
        /// The field.
        field: String,
        /// The schema that lacks the field.
        side: MappingSide,
    },
    /// A field is declared twice, with different reducers.
    #[error("the field `{field}` has two reducers, `{first}` and `{second}`")]
    ConflictingReducers {
        /// The field.
        field: String,
        /// The reducer of the first declaration.
        first: Reducer,
        /// The reducer of the second.
        second: Reducer,
    },
    /// A field is declared twice, with the same reducer.
    #[error("the field `{field}` is declared twice")]
    DuplicateField {
        /// The field.
        field: String,
    },
    /// A field with typed elements has a reducer that requires JSON elements.
    #[error("the reducer `{reducer}` of the field `{field}` requires JSON elements")]
    UnsupportedReducer {
        /// The field.
        field: String,
        /// The reducer.
        reducer: Reducer,
    },
    /// The default of a field is not of the field's type.
    #[error("invalid default: {0}")]
    InvalidDefault(StateError),
}

impl CompileError {
    /// The stable name of the mistake.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoDeclaredEntry { .. } => "no_declared_entry",
            Self::UnreachableNode { .. } => "unreachable_node",
            Self::DanglingEdge { .. } => "dangling_edge",
            Self::MultipleOutgoingEdges { .. } => "multiple_outgoing_edges",
            Self::MissingOutgoingEdge { .. } => "missing_outgoing_edge",
            Self::DuplicateNode { .. } => "duplicate_node",
            Self::UnknownNode { .. } | Self::UnknownRetriedNode { .. } => "unknown_node",
            Self::DuplicateBranch { .. } => "duplicate_branch",
            Self::MappingReferencesUndeclaredField { .. } => "mapping_references_undeclared_field",
            Self::ConflictingReducers { .. } => "conflicting_reducers",
            Self::UnsupportedReducer { .. } => "unsupported_reducer",
            Self::DuplicateField { .. } => "duplicate_field",
            Self::InvalidDefault(_) => "invalid_default",
        }
    }
}

/// One of the two schemas that a mapping joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingSide {
    /// The schema of the graph that contains the node.
    Graph,
    /// The schema of the graph inside the node.
    Subgraph,
}

impl fmt::Display for MappingSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Graph => "its graph",
            Self::Subgraph => "its subgraph",
        })
    }
}
