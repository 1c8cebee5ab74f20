//! The builder of graphs, and the checks that it makes.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::build::compile_error::CompileError;
use crate::build::edge::{Edge, EdgeTarget, IntoRoute, Position, Route};
use crate::error::NodeError;
use crate::graph::{CompiledGraph, CompiledNode, Inner};
use crate::node::body::{Code, NodeBody};
use crate::node::branches::ParallelBranches;
use crate::node::context::{FnNode, Node, NodeContext};
use crate::node::fan_out::FanOut;
use crate::node::middleware::Middleware;
use crate::node::retry::RetryPolicy;
use crate::node::subgraph::{Mapping, Subgraph};
use crate::ports::ids::IdSource;
use crate::ports::observer::{Observer, Undelivered};
use crate::state::schema::StateSchema;
use crate::state::snapshot::{Layout, State};
use crate::state::update::Update;

/// The default limit of nodes that may run in one invocation.
///
/// The graph and the invocation can override it. A loop of a model and its tools takes two steps a
/// round; the limit is far above the steps of a turn and still ends an endless loop within moments.
pub const DEFAULT_MAX_STEPS: usize = 1_000;

/// A builder that collects nodes and edges.
///
/// [`compile`](Self::compile) reports mistakes; the other methods report none.
pub struct GraphBuilder<E = ()> {
    schema: StateSchema,
    nodes: Vec<(String, Box<dyn NodeBody<E>>)>,
    middleware: Vec<PlannedMiddleware<E>>,
    retries: Vec<(String, RetryPolicy)>,
    observers: Vec<Arc<dyn Observer>>,
    edges: Vec<(String, PlannedEdge)>,
    entry: Option<String>,
    max_steps: usize,
    traces_signals: bool,
}

enum PlannedEdge {
    Static(EdgeTarget),
    Conditional(Vec<EdgeTarget>, Route),
}

impl GraphBuilder {
    /// Creates an empty graph over a state, whose nodes emit no events.
    pub fn new(schema: StateSchema) -> Self {
        Self::for_events(schema)
    }
}

impl<E: 'static> GraphBuilder<E> {
    /// Creates an empty graph over a state, whose nodes emit events of type `E`.
    pub fn for_events(schema: StateSchema) -> Self {
        Self {
            schema,
            nodes: Vec::new(),
            middleware: Vec::new(),
            retries: Vec::new(),
            observers: Vec::new(),
            edges: Vec::new(),
            entry: None,
            max_steps: DEFAULT_MAX_STEPS,
            traces_signals: false,
        }
    }

    /// Adds a node.
    #[must_use]
    pub fn add_node(mut self, name: impl Into<String>, node: impl Node<E> + 'static) -> Self {
        let code = Code(Arc::new(node) as Arc<dyn Node<E>>);
        self.nodes.push((name.into(), Box::new(code)));
        self
    }

    /// Adds a graph as a node.
    #[must_use]
    pub fn add_subgraph(
        mut self,
        name: impl Into<String>,
        graph: CompiledGraph<E>,
        mapping: Mapping,
    ) -> Self {
        let subgraph = Subgraph { graph, mapping };
        self.nodes.push((name.into(), Box::new(subgraph)));
        self
    }

    /// Adds a node that runs a graph for each item of a list.
    #[must_use]
    pub fn add_fan_out(mut self, name: impl Into<String>, fan_out: FanOut<E>) -> Self {
        self.nodes.push((name.into(), Box::new(fan_out)));
        self
    }

    /// Adds a node that runs several graphs at once.
    #[must_use]
    pub fn add_branches(mut self, name: impl Into<String>, branches: ParallelBranches<E>) -> Self {
        self.nodes.push((name.into(), Box::new(branches)));
        self
    }

    /// Wraps a middleware around every node.
    ///
    /// The first one added is the outermost. Middleware of single nodes is inside the middleware of
    /// all nodes.
    #[must_use]
    pub fn wrap(mut self, middleware: impl Middleware<E> + 'static) -> Self {
        self.middleware.push((None, Arc::new(middleware)));
        self
    }

    /// Wraps a middleware around one node. The first one added is the outermost.
    #[must_use]
    pub fn wrap_node(
        mut self,
        node: impl Into<String>,
        middleware: impl Middleware<E> + 'static,
    ) -> Self {
        let middleware: Arc<dyn Middleware<E>> = Arc::new(middleware);
        self.middleware.push((Some(node.into()), middleware));
        self
    }

    /// Sets the retries of a node; the last policy counts.
    ///
    /// They are outside the middleware of the node.
    #[must_use]
    pub fn retry_node(mut self, node: impl Into<String>, policy: RetryPolicy) -> Self {
        self.retries.push((node.into(), policy));
        self
    }

    /// Adds an observer of all nodes, including the nodes of graphs inside nodes.
    #[must_use]
    pub fn observe(mut self, observer: impl Observer + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Adds an async closure as a node.
    #[must_use]
    pub fn add_node_fn<F, Fut>(self, name: impl Into<String>, run: F) -> Self
    where
        F: Fn(NodeContext<E>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Update, NodeError>> + Send + 'static,
    {
        self.add_node(name, FnNode(run))
    }

    /// Sets the node that runs first.
    #[must_use]
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.entry = Some(name.into());
        self
    }

    /// Adds a fixed edge from `from` to `to`.
    #[must_use]
    pub fn add_edge(mut self, from: impl Into<String>, to: impl Into<EdgeTarget>) -> Self {
        self.edges
            .push((from.into(), PlannedEdge::Static(to.into())));
        self
    }

    /// Adds an edge from `from` to one of `targets`, which the function chooses.
    ///
    /// The function receives the state with the update of `from` merged.
    #[must_use]
    pub fn add_conditional_edge<F, R>(
        mut self,
        from: impl Into<String>,
        targets: impl IntoIterator<Item = EdgeTarget>,
        route: F,
    ) -> Self
    where
        F: Fn(&State) -> R + Send + Sync + 'static,
        R: IntoRoute,
    {
        let route: Route = Box::new(move |state| route(state).into_route());
        let targets = targets.into_iter().collect();
        self.edges
            .push((from.into(), PlannedEdge::Conditional(targets, route)));
        self
    }

    /// Sets the maximum number of nodes per invocation; see [`DEFAULT_MAX_STEPS`].
    #[must_use]
    pub fn max_steps(mut self, limit: usize) -> Self {
        self.max_steps = limit;
        self
    }

    /// Records the metadata of signals in spans, with its values.
    ///
    /// Without it a span contains only the names, because metadata may hold the content of messages
    /// and calls. [`span_attributes`](crate::span_attributes) returns the attributes of the field.
    /// The setting of the outermost graph of an invocation applies.
    #[must_use]
    pub fn with_signal_metadata_in_spans(mut self) -> Self {
        self.traces_signals = true;
        self
    }

    /// Checks the graph and returns it in runnable form.
    ///
    /// `ids` creates the ids that an invocation leaves out.
    ///
    /// # Errors
    /// Returns the first mistake found. The schema is checked first, then nodes, entry and edges,
    /// and reachability last.
    pub fn compile(self, ids: impl IdSource + 'static) -> Result<CompiledGraph<E>, CompileError> {
        let layout = Layout::new(self.schema)?;
        let mut nodes = self.nodes;
        let mut positions = HashMap::with_capacity(nodes.len());
        for (position, (name, _)) in nodes.iter().enumerate() {
            if positions.insert(name.clone(), position).is_some() {
                return Err(CompileError::DuplicateNode { node: name.clone() });
            }
        }
        let entry = self
            .entry
            .as_ref()
            .and_then(|name| positions.get(name))
            .copied();
        let Some(entry) = entry else {
            return Err(CompileError::NoDeclaredEntry { entry: self.entry });
        };
        let edges = resolve_edges(self.edges, &nodes, &positions)?;
        if let Some(lost) = first_unreachable(entry, &edges) {
            let node = nodes
                .get(lost)
                .map(|(name, _)| name.clone())
                .unwrap_or_default();
            return Err(CompileError::UnreachableNode { node });
        }
        for (name, body) in &mut nodes {
            body.resolve(name, layout.schema())?;
        }
        let mut chains = chains(self.middleware, &nodes, &positions)?.into_iter();
        let is_unknown =
            |(node, _): &&(String, RetryPolicy)| !positions.contains_key(node.as_str());
        if let Some((node, _)) = self.retries.iter().find(is_unknown) {
            return Err(CompileError::UnknownRetriedNode { node: node.clone() });
        }
        let mut retries: HashMap<String, RetryPolicy> = self.retries.into_iter().collect();
        let nodes = nodes.into_iter().zip(edges);
        let nodes = nodes.map(|((name, body), edge)| CompiledNode {
            retry: retries.remove(&name),
            name: name.into(),
            body,
            middleware: chains.next().unwrap_or_default(),
            edge,
        });
        Ok(CompiledGraph::new(Inner {
            layout,
            nodes: nodes.collect(),
            entry,
            max_steps: self.max_steps,
            traces_signals: self.traces_signals,
            ids: Box::new(ids),
            observers: self.observers,
            undelivered: Undelivered::default(),
        }))
    }
}

/// Middleware, with the one node that it wraps; without a name it wraps every node.
type PlannedMiddleware<E> = (Option<String>, Arc<dyn Middleware<E>>);

/// The middleware of one node, outermost first.
type Chain<E> = Vec<Arc<dyn Middleware<E>>>;

/// The middleware of every node, in the order of the nodes.
fn chains<E>(
    planned: Vec<PlannedMiddleware<E>>,
    nodes: &[(String, Box<dyn NodeBody<E>>)],
    positions: &HashMap<String, usize>,
) -> Result<Vec<Chain<E>>, CompileError> {
    let (of_one, of_all): (Vec<_>, Vec<_>) =
        planned.into_iter().partition(|(node, _)| node.is_some());
    let of_all: Vec<_> = of_all.into_iter().map(|(_, wrapped)| wrapped).collect();
    let mut chains: Vec<_> = nodes.iter().map(|_| of_all.clone()).collect();
    for (node, wrapped) in of_one {
        let node = node.unwrap_or_default();
        let position = positions.get(&node);
        match position.and_then(|position| chains.get_mut(*position)) {
            Some(chain) => chain.push(wrapped),
            None => return Err(CompileError::UnknownNode { node }),
        }
    }
    Ok(chains)
}

/// The one edge of every node, in the order of the nodes.
fn resolve_edges<E>(
    planned: Vec<(String, PlannedEdge)>,
    nodes: &[(String, Box<dyn NodeBody<E>>)],
    positions: &HashMap<String, usize>,
) -> Result<Vec<Edge>, CompileError> {
    let mut edges: Vec<Option<Edge>> = nodes.iter().map(|_| None).collect();
    for (from, planned) in planned {
        let resolve = |target: &EdgeTarget| match target {
            EdgeTarget::End => Ok(Position::End),
            EdgeTarget::Node(name) => match positions.get(name) {
                Some(position) => Ok(Position::Node(*position)),
                None => Err(CompileError::DanglingEdge {
                    from: from.clone(),
                    to: target.clone(),
                }),
            },
        };
        let slot = positions
            .get(&from)
            .and_then(|position| edges.get_mut(*position));
        let Some(slot) = slot else {
            let to = planned.first_target();
            return Err(CompileError::DanglingEdge { from, to });
        };
        let edge = match planned {
            PlannedEdge::Static(target) => Edge::Static(resolve(&target)?),
            PlannedEdge::Conditional(targets, _) if targets.is_empty() => {
                return Err(CompileError::MissingOutgoingEdge { node: from });
            }
            PlannedEdge::Conditional(targets, route) => {
                let mut resolved = HashMap::with_capacity(targets.len());
                for target in targets {
                    let position = resolve(&target)?;
                    resolved.insert(target, position);
                }
                Edge::Conditional {
                    targets: resolved,
                    route,
                }
            }
        };
        if slot.replace(edge).is_some() {
            return Err(CompileError::MultipleOutgoingEdges { node: from });
        }
    }
    let named = nodes.iter().map(|(name, _)| name).zip(edges);
    named
        .map(|(name, edge)| {
            edge.ok_or_else(|| CompileError::MissingOutgoingEdge { node: name.clone() })
        })
        .collect()
}

/// The first node that no path from the entry visits.
fn first_unreachable(entry: usize, edges: &[Edge]) -> Option<usize> {
    let mut reached = vec![false; edges.len()];
    let mut open = vec![Position::Node(entry)];
    while let Some(position) = open.pop() {
        let Position::Node(node) = position else {
            continue;
        };
        let (Some(seen), Some(edge)) = (reached.get_mut(node), edges.get(node)) else {
            continue;
        };
        if std::mem::replace(seen, true) {
            continue;
        }
        match edge {
            Edge::Static(next) => open.push(*next),
            Edge::Conditional { targets, .. } => open.extend(targets.values()),
        }
    }
    reached.iter().position(|reached| !reached)
}

impl PlannedEdge {
    fn first_target(&self) -> EdgeTarget {
        match self {
            Self::Static(target) => target.clone(),
            Self::Conditional(targets, _) => targets.first().cloned().unwrap_or(EdgeTarget::End),
        }
    }
}

impl<E> fmt::Debug for GraphBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.nodes.iter().map(|(name, _)| name).collect();
        f.debug_struct("GraphBuilder")
            .field("nodes", &names)
            .field("entry", &self.entry)
            .field("edges", &self.edges.len())
            .finish_non_exhaustive()
    }
}
