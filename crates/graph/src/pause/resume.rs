//! Resumption of a paused run: the signal is merged, then the graph runs again.
//!
//! Merging is a step of its own, so that a program that stores paused runs can refuse a payload
//! that does not fit, and keep the record for a valid one, before the record is consumed.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use serde_json::{Map, Value};

use crate::error::EngineError;
use crate::graph::{CompiledGraph, Inner};
use crate::node::body::NodeBody;
use crate::pause::paused_run::{PausedFrame, PausedRun, invalid, mark};
use crate::pause::resume_point::{ResumeFrame, ResumePoint};
use crate::ports::run_ports::RunPorts;
use crate::run::cycle::Run;
use crate::run::info::{GraphPath, RunInfo};
use crate::run::outcome::RunOutcome;
use crate::state::snapshot::State;
use crate::state::update::Update;

/// A paused run with its signal merged, checked against its graph.
#[must_use = "the run does not continue until `run` is called"]
pub struct MergedResume<E = ()> {
    graph: CompiledGraph<E>,
    info: RunInfo,
    node_completed: bool,
    begun: usize,
    max_steps: Option<usize>,
    /// Frames with the outermost last.
    frames: Vec<ResumeFrame>,
    ports: RunPorts<E>,
}

impl PausedRun {
    /// Merges the payload of the signal into the states of the run.
    ///
    /// Each field of the payload replaces the field of that name in every graph on the path to the
    /// suspended node that declares it, regardless of its reducer. Fields that none of these graphs
    /// declares are dropped.
    ///
    /// Costs a check of the states, which for lists of named elements such as messages does not
    /// depend on their length.
    ///
    /// # Errors
    /// Returns [`EngineError::SuspensionResumePayloadInvalid`] if a value does not fit its field,
    /// and [`EngineError::SuspensionRecordInvalid`] if the run is not one of this graph.
    pub fn merge<E: 'static>(
        &self,
        graph: &CompiledGraph<E>,
        payload: &Map<String, Value>,
    ) -> Result<MergedResume<E>, EngineError> {
        let mut frames = Vec::with_capacity(self.frames.len());
        let mut inner = Some(&*graph.inner);
        for (depth, frame) in self.frames.iter().enumerate() {
            let Some(graph) = inner else {
                return Err(invalid(format!(
                    "the node before `{}` contains no graph",
                    frame.node
                )));
            };
            let (fitted, body) = fit(frame, graph, payload)?;
            let is_innermost = depth + 1 == self.frames.len();
            inner = if is_innermost {
                None
            } else {
                body.graph_inside(frame.siblings.as_ref())
            };
            frames.push(fitted);
        }
        if frames.is_empty() {
            return Err(invalid("it has no frames".to_owned()));
        }
        frames.reverse();
        Ok(MergedResume {
            graph: graph.clone(),
            info: RunInfo {
                invocation_id: self.invocation_id.clone(),
                correlation_id: self.correlation_id.clone(),
                session_id: self.session_id.clone(),
                metadata: self.metadata.clone(),
            },
            node_completed: self.node_completed,
            begun: self.begun,
            max_steps: self.max_steps,
            frames,
            ports: RunPorts::default(),
        })
    }

    /// Returns the outermost state at the pause, if it fits the graph.
    pub(crate) fn state<E>(&self, graph: &CompiledGraph<E>) -> Option<State> {
        let frame = self.frames.first()?;
        graph.inner.layout.state(frame.state.clone()).ok()
    }
}

/// Resolves the node of a frame, merges the payload and checks the state.
fn fit<'g, E>(
    frame: &PausedFrame,
    graph: &'g Inner<E>,
    payload: &Map<String, Value>,
) -> Result<(ResumeFrame, &'g dyn NodeBody<E>), EngineError> {
    let nodes = graph.nodes.iter().enumerate();
    let found = nodes
        .filter(|(_, node)| node.name == frame.node)
        .map(|(at, node)| (at, &*node.body))
        .next();
    let Some((node, body)) = found else {
        return Err(invalid(format!("the graph has no node `{}`", frame.node)));
    };
    let state = graph.layout.state(frame.state.clone());
    let mut state = state.map_err(|cause| invalid(cause.to_string()))?;
    let mut signal = Update::new();
    let mut written = frame.written.clone();
    for (field, value) in payload {
        if state.schema().field(field).is_some() {
            if let Some(written) = &mut written {
                mark(written, field);
            }
            signal.set(field, value.clone());
        }
    }
    state
        .replace(signal)
        .map_err(|cause| EngineError::SuspensionResumePayloadInvalid { cause })?;
    let fitted = ResumeFrame {
        node,
        state,
        step: frame.step,
        attempt_index: frame.attempt_index,
        steps: frame.steps,
        completed: frame.completed.clone(),
        siblings: frame.siblings.clone(),
        timers: frame.timers,
        written,
    };
    Ok((fitted, body))
}

impl<E: 'static> MergedResume<E> {
    /// Returns the outermost state, which includes the signal.
    pub fn state(&self) -> Option<&State> {
        self.frames.last().map(|frame| &frame.state)
    }

    /// Returns the id of the run.
    pub fn invocation_id(&self) -> &str {
        &self.info.invocation_id
    }

    /// Sets the ports of the run.
    pub fn with_ports(mut self, ports: RunPorts<E>) -> Self {
        self.ports = ports;
        self
    }

    /// Replaces the metadata that every node receives.
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.info.metadata = metadata;
        self
    }

    /// Sets the maximum number of nodes of the outermost graph.
    ///
    /// Nodes before the suspension count too.
    pub fn with_max_steps(mut self, limit: usize) -> Self {
        self.max_steps = Some(limit);
        self
    }

    /// Resumes the run after the suspended node, or with that node again.
    ///
    /// An edge out of the node is followed only now, and its function receives the state with the
    /// signal.
    pub async fn run(self) -> RunOutcome {
        let graph = self.graph;
        let shared = graph.share(self.info, self.ports, AtomicUsize::new(self.begun));
        let run = Run {
            graph: &graph.inner,
            shared: Arc::clone(&shared),
            within: GraphPath::default(),
            parents: Arc::default(),
            state: graph.inner.layout.defaults(),
            limit: self.max_steps.unwrap_or(graph.inner.max_steps),
            steps: 0,
            completed: Vec::new(),
            written: None,
        };
        let resume_point = ResumePoint {
            frames: self.frames,
            node_completed: self.node_completed,
        };
        let run = Box::pin(run.resume(resume_point));
        graph.conduct(&shared, self.max_steps, run).await
    }
}

impl<E> Clone for MergedResume<E> {
    fn clone(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            info: self.info.clone(),
            node_completed: self.node_completed,
            begun: self.begun,
            max_steps: self.max_steps,
            frames: self.frames.clone(),
            ports: self.ports.clone(),
        }
    }
}

impl<E> std::fmt::Debug for MergedResume<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergedResume")
            .field("info", &self.info)
            .field("frames", &self.frames.len())
            .finish_non_exhaustive()
    }
}
