//! A run that waits for a signal, as data from which another process can resume.
//!
//! A paused run is a stack of frames, one for each graph on the path from the outermost one to the
//! suspended node. The outermost state can be taken apart field by field, so that a list that grows
//! with the conversation may be kept elsewhere and restored before the run is resumed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::EngineError;
use crate::pause::suspension::SignalDescriptor;
use crate::state::update::Update;
use crate::state::value::FieldValue;

/// The version of the record that [`PausedRun::to_json`] writes.
pub const PAUSED_RUN_VERSION: u32 = 1;

/// A suspended run. Cloning costs the number of fields, not their contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PausedRun {
    version: u32,
    pub(crate) invocation_id: String,
    pub(crate) correlation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) metadata: Map<String, Value>,
    pub(crate) descriptor: SignalDescriptor,
    pub(crate) node_completed: bool,
    /// The number of nodes that have begun in the invocation.
    pub(crate) begun: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_steps: Option<usize>,
    /// The version of the outermost schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema_version: Option<String>,
    /// Outermost first, never empty.
    pub(crate) frames: Vec<PausedFrame>,
}

/// A node that ran to its end, and its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPosition {
    /// The names of the nodes from the outermost graph down to this one, itself included.
    pub namespace: Vec<String>,
    /// The number of nodes that had begun before it.
    pub step: usize,
}

/// One graph on the path to the suspended node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PausedFrame {
    /// The current node of the graph.
    pub(crate) node: Arc<str>,
    pub(crate) step: usize,
    pub(crate) attempt_index: usize,
    /// The number of nodes of this graph that ran to their end before.
    pub(crate) steps: usize,
    /// The nodes of this graph that ran to their end, and their steps.
    pub(crate) completed: Vec<(Arc<str>, usize)>,
    pub(crate) state: Update,
    /// The siblings of the next frame, if the node runs several graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) siblings: Option<Siblings>,
    /// The number of timers that are over when the node runs again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) timers: usize,
    /// The fields that the run has written; of the outermost graph only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) written: Option<Vec<Arc<str>>>,
}

/// The parts of a node that runs several graphs, apart from the one that suspended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Siblings {
    FanOut {
        /// The instance that suspended.
        index: usize,
        /// The results of the completed instances.
        done: Vec<(usize, Update)>,
        /// The items of the instances that run again from their start.
        pending: Vec<(usize, Arc<Value>)>,
    },
    Branches {
        /// The branch that suspended.
        branch: Arc<str>,
        /// The results of the completed branches.
        done: Vec<(Arc<str>, Update)>,
    },
}

impl PausedRun {
    pub(crate) fn new(
        info: crate::run::info::RunInfo,
        descriptor: SignalDescriptor,
        node_completed: bool,
        begun: usize,
        max_steps: Option<usize>,
        schema_version: Option<&str>,
        frames: Vec<PausedFrame>,
    ) -> Self {
        Self {
            version: PAUSED_RUN_VERSION,
            schema_version: schema_version.map(str::to_owned),
            invocation_id: info.invocation_id,
            correlation_id: info.correlation_id,
            session_id: info.session_id,
            metadata: info.metadata,
            descriptor,
            node_completed,
            begun,
            max_steps,
            frames,
        }
    }

    /// Returns the id of the run, which the resumed run keeps.
    pub fn invocation_id(&self) -> &str {
        &self.invocation_id
    }

    /// Returns the id by which the caller links invocations.
    ///
    /// The resumed run inherits it.
    pub fn correlation_id(&self) -> &str {
        &self.correlation_id
    }

    /// Returns the session that the run belongs to, if any.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the metadata of the run.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.metadata
    }

    /// Returns the signal that the run waits for.
    pub fn descriptor(&self) -> &SignalDescriptor {
        &self.descriptor
    }

    /// Returns whether the run resumes after the suspended node or repeats it.
    pub fn node_completed(&self) -> bool {
        self.node_completed
    }

    /// Returns the name of the suspended node in the innermost graph.
    pub fn node_name(&self) -> &str {
        self.frames.last().map_or("", |frame| &frame.node)
    }

    /// Returns the path of node names down to that node, itself included.
    pub fn namespace(&self) -> Vec<String> {
        let names = self.frames.iter().map(|frame| frame.node.as_ref());
        names.map(str::to_owned).collect()
    }

    /// Returns the index of the attempt that suspended.
    pub fn attempt_index(&self) -> usize {
        self.frames.last().map_or(0, |frame| frame.attempt_index)
    }

    /// Returns the number of completed nodes of the outermost graph.
    pub fn steps(&self) -> usize {
        self.frames.first().map_or(0, |frame| frame.steps)
    }

    /// Returns the nodes that ran to their end and will not run again.
    ///
    /// Covers the graphs that are still running. The suspended node is included if
    /// [`node_completed`](Self::node_completed) returns true.
    pub fn completed_positions(&self) -> Vec<CompletedPosition> {
        let mut within = Vec::new();
        let mut positions = Vec::new();
        for frame in &self.frames {
            for (node, step) in &frame.completed {
                let mut namespace = within.clone();
                namespace.push(node.as_ref().to_owned());
                let step = *step;
                positions.push(CompletedPosition { namespace, step });
            }
            within.push(frame.node.as_ref().to_owned());
        }
        positions
    }

    /// Returns the fields of the outermost state.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &FieldValue)> {
        self.frames
            .first()
            .into_iter()
            .flat_map(|frame| frame.state.iter())
    }

    /// Returns a field of the outermost state.
    pub fn field(&self, name: &str) -> Option<&FieldValue> {
        self.frames.first()?.state.get(name)
    }

    /// Returns the version of the schema that the outermost state is in.
    ///
    /// It is unknown if [`written`](Self::written) returns nothing.
    pub fn schema_version(&self) -> Option<&str> {
        self.schema_version.as_deref()
    }

    /// Returns the fields of the outermost state that the run has written.
    ///
    /// Fields that a signal replaced count too. Records of earlier versions of this crate do not
    /// contain them and return nothing.
    pub fn written(&self) -> Option<impl Iterator<Item = &str>> {
        let written = self.frames.first()?.written.as_ref()?;
        Some(written.iter().map(|name| &**name))
    }

    /// Marks a field of the outermost state as written by the run.
    ///
    /// Covers fields that the run was started with after a crash.
    pub fn mark_written(&mut self, name: &str) {
        let frame = self.frames.first_mut();
        if let Some(written) = frame.and_then(|frame| frame.written.as_mut()) {
            mark(written, name);
        }
    }

    /// Makes the run one of another invocation and session.
    pub fn rename(&mut self, invocation_id: &str, session_id: &str) {
        invocation_id.clone_into(&mut self.invocation_id);
        self.session_id = Some(session_id.to_owned());
    }

    /// Makes the run wait for a signal of another name.
    pub fn rename_signal(&mut self, signal_id: &str) {
        signal_id.clone_into(&mut self.descriptor.signal_id);
    }

    /// Replaces the whole outermost state by one in another version of the schema.
    pub fn migrate(&mut self, fields: Update, schema_version: Option<&str>) {
        self.schema_version = schema_version.map(str::to_owned);
        if let Some(frame) = self.frames.first_mut() {
            frame.state = fields;
        }
    }

    /// Replaces a field of the outermost state, or restores one that was removed.
    pub fn set_field(&mut self, name: impl Into<String>, value: impl Into<FieldValue>) {
        if let Some(frame) = self.frames.first_mut() {
            frame.state.set(name, value);
        }
    }

    /// Removes a field from the outermost state, to keep it elsewhere.
    ///
    /// A run that is resumed without the field uses the default of the schema.
    pub fn take_field(&mut self, name: &str) -> Option<FieldValue> {
        self.frames.first_mut()?.state.remove(name)
    }

    /// Returns the run as JSON. Costs the size of its states.
    pub fn to_json(&self) -> Value {
        // Keys are strings and numbers are finite, so the conversion cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads the JSON that [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// Returns [`EngineError::SuspensionRecordInvalid`] if the JSON is not a paused run or has
    /// another version.
    pub fn from_json(json: &Value) -> Result<Self, EngineError> {
        match json.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(PAUSED_RUN_VERSION) => {}
            Some(version) => return Err(invalid(format!("its version is {version}"))),
            None => return Err(invalid("it has no version".to_owned())),
        }
        let paused = Self::deserialize(json).map_err(|error| invalid(error.to_string()))?;
        if paused.frames.is_empty() {
            return Err(invalid("it has no frames".to_owned()));
        }
        Ok(paused)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Adds a name to a small set.
pub(crate) fn mark(written: &mut Vec<Arc<str>>, name: &str) {
    if !written.iter().any(|one| **one == *name) {
        written.push(Arc::from(name));
    }
}

pub(crate) fn invalid(cause: String) -> EngineError {
    EngineError::SuspensionRecordInvalid { cause }
}
