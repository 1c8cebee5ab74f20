//! The identity of a run, and the locations of its nodes.

use std::sync::Arc;

use serde_json::{Map, Value};

/// The data of a whole invocation: its ids and the metadata of the caller.
///
/// Nodes, middleware and observers receive it; none of it is global.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInfo {
    pub(crate) invocation_id: String,
    pub(crate) correlation_id: String,
    pub(crate) session_id: Option<String>,
    pub(crate) metadata: Map<String, Value>,
}

impl RunInfo {
    /// Returns the id of the invocation; a resumed run keeps it.
    pub fn invocation_id(&self) -> &str {
        &self.invocation_id
    }

    /// Returns the id by which the caller links invocations.
    pub fn correlation_id(&self) -> &str {
        &self.correlation_id
    }

    /// Returns the session that the run belongs to, if any.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the metadata that the caller passed.
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

/// The path from the outermost graph to the graph that contains a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphPath {
    /// The nodes on the path, outermost first.
    pub(crate) nodes: Arc<[Arc<str>]>,
    /// The instance of the innermost fan-out on the path.
    pub(crate) fan_out_index: Option<usize>,
    /// The branch of the innermost node with branches on the path.
    pub(crate) branch_name: Option<Arc<str>>,
}

impl GraphPath {
    /// Returns the path into the graph inside a node.
    pub(crate) fn inside(&self, node: &Arc<str>) -> Self {
        let nodes = self.nodes.iter().chain([node]).map(Arc::clone).collect();
        Self {
            nodes,
            ..self.clone()
        }
    }
}

impl NodeLocation {
    /// Returns the name of the node in its graph.
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// Returns the path of node names down to this node, itself included.
    pub fn namespace(&self) -> Vec<String> {
        self.names().map(str::to_owned).collect()
    }

    /// Returns the number of nodes that began earlier in the invocation, including subgraphs.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Returns the number of earlier attempts of the node in this step.
    pub fn attempt_index(&self) -> usize {
        self.attempt_index
    }

    /// Returns the instance of the innermost fan-out that contains the node.
    pub fn fan_out_index(&self) -> Option<usize> {
        self.within.fan_out_index
    }

    /// Returns the branch, in the innermost node with branches, that contains the node.
    pub fn branch_name(&self) -> Option<&str> {
        self.within.branch_name.as_deref()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let within = self.within.nodes.iter();
        within.map(|node| &**node).chain([&*self.node])
    }
}
