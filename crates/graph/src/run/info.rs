//! Which run something belongs to, and where in the run it happens.

use std::sync::Arc;

use serde_json::{Map, Value};

/// What holds for a whole invocation: its ids, and what the caller passed along.
///
/// Nodes, middleware and observers are handed it; none of it is global.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInfo {
    pub(crate) invocation_id: String,
    pub(crate) correlation_id: String,
    pub(crate) session_id: Option<String>,
    pub(crate) metadata: Map<String, Value>,
}

impl RunInfo {
    /// The id of the invocation; a resumed run keeps it.
    pub fn invocation_id(&self) -> &str {
        &self.invocation_id
    }

    /// The id by which the caller ties invocations together.
    pub fn correlation_id(&self) -> &str {
        &self.correlation_id
    }

    /// The session that the run belongs to, if any.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// What the caller passed along.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.metadata
    }
}

/// One attempt of one node in a run. Cloning costs reference counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLocation {
    pub(crate) node: Arc<str>,
    pub(crate) within: GraphPath,
    pub(crate) step: usize,
    pub(crate) attempt_index: usize,
}

/// The way from the outermost graph to the one that a node stands in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphPath {
    /// The nodes on the way, outermost first.
    pub(crate) nodes: Arc<[Arc<str>]>,
    /// The instance of the innermost fan-out on the way.
    pub(crate) fan_out_index: Option<usize>,
    /// The branch of the innermost node with branches on the way.
    pub(crate) branch_name: Option<Arc<str>>,
}

impl GraphPath {
    /// The way into a graph that stands in for a node.
    pub(crate) fn inside(&self, node: &Arc<str>) -> Self {
        let nodes = self.nodes.iter().chain([node]).map(Arc::clone).collect();
        Self {
            nodes,
            ..self.clone()
        }
    }
}

impl NodeLocation {
    /// The name of the node in its graph.
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// The names of the nodes from the outermost graph down to this node, itself included.
    pub fn namespace(&self) -> Vec<String> {
        self.names().map(str::to_owned).collect()
    }

    /// How many nodes began before this one in the invocation, those of subgraphs included.
    pub fn step(&self) -> usize {
        self.step
    }

    /// How often the node was tried before in this step.
    pub fn attempt_index(&self) -> usize {
        self.attempt_index
    }

    /// Which instance of the innermost fan-out around it the node belongs to.
    pub fn fan_out_index(&self) -> Option<usize> {
        self.within.fan_out_index
    }

    /// Which branch of the innermost node with branches around it the node belongs to.
    pub fn branch_name(&self) -> Option<&str> {
        self.within.branch_name.as_deref()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let within = self.within.nodes.iter();
        within.map(|node| &**node).chain([&*self.node])
    }
}
