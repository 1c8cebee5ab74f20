//! A case: a graph, its stores, and what is done with them.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::chat::{ChatTurn, SignalStep};
use super::expected::{ErrorExpected, RunExpected, SavedExpected};
use super::graph::{EdgeDef, GraphDef, NodeDef, StateDef, SubgraphDef};
use super::transmit::{HarnessDef, Transmission};
use super::{Ordered, present};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(rename = "name")]
    pub(crate) _name: String,
    #[serde(rename = "description")]
    pub(crate) _description: Option<String>,
    pub(crate) state: StateDef,
    pub(crate) entry: String,
    pub(crate) nodes: Ordered<NodeDef>,
    pub(crate) edges: Vec<EdgeDef>,
    pub(crate) subgraph: Option<SubgraphDef>,
    #[serde(default)]
    pub(crate) subgraphs: Ordered<SubgraphDef>,
    pub(crate) initial_state: Option<Map<String, Value>>,
    pub(crate) session_store: Option<StoreDef>,
    pub(crate) checkpointer: Option<String>,
    pub(crate) auto_save: Option<bool>,
    pub(crate) session_id: Option<String>,
    pub(crate) session_state: Option<SessionShape>,
    pub(crate) seeded_session: Option<Seeded>,
    #[serde(default)]
    pub(crate) session_migrations: Vec<Migration>,
    #[serde(default)]
    pub(crate) observers: Vec<ObserverDef>,
    pub(crate) invocations: Option<Vec<Invocation>>,
    pub(crate) harness: Option<HarnessDef>,
    pub(crate) transmissions: Option<Vec<Transmission>>,
    pub(crate) chat_turns: Option<Vec<ChatTurn>>,
    #[serde(default)]
    pub(crate) signal_arrivals: Vec<SignalStep>,
    pub(crate) expected: Option<RunExpected>,
    pub(crate) expected_error: Option<ErrorExpected>,
    #[serde(default)]
    pub(crate) invariants: Map<String, Value>,
    /// Ours: a concurrently modified session is not replaced.
    #[serde(default)]
    pub(crate) refuse_conflicts: bool,
    pub(crate) limits: Option<Limits>,
}

/// Ours: limits of the engine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) max_steps: Option<usize>,
}

impl Case {
    pub(crate) fn graph(&self) -> GraphDef {
        GraphDef {
            state: self.state.clone(),
            entry: self.entry.clone(),
            nodes: self.nodes.clone(),
            edges: self.edges.clone(),
        }
    }
}

/// A kind of store, or one that fails.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum StoreDef {
    Kind(String),
    Faulty(FaultyStore),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultyStore {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) behavior: StoreBehavior,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreBehavior {
    pub(crate) load_raises: Option<String>,
    /// Ours: which saves fail, counted from 1; in a chat, which commits.
    #[serde(default)]
    pub(crate) fail_saves: Vec<u64>,
    /// Ours: which saves of suspended runs fail, counted from 1.
    #[serde(default)]
    pub(crate) fail_pauses: Vec<u64>,
    /// Ours: the saves that find a concurrent modification, counted from 1.
    #[serde(default)]
    pub(crate) outrun_saves: Vec<u64>,
}

impl StoreDef {
    pub(crate) fn parts(&self) -> (&str, StoreBehavior) {
        match self {
            Self::Kind(kind) => (kind, StoreBehavior::default()),
            Self::Faulty(faulty) => (&faulty.kind, faulty.behavior.clone()),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionShape {
    pub(crate) fields: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seeded {
    pub(crate) session_id: Option<String>,
    pub(crate) schema_version: Option<String>,
    pub(crate) state: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Migration {
    pub(crate) from_version: String,
    pub(crate) to_version: String,
    pub(crate) migrate: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObserverDef {
    pub(crate) name: String,
    pub(crate) attach: Option<String>,
    #[serde(rename = "target")]
    pub(crate) _target: Option<String>,
    pub(crate) behavior: Option<String>,
}

/// One run of the graph.
#[expect(clippy::struct_field_names, reason = "the words of the vocabulary")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Invocation {
    pub(crate) name: Option<String>,
    #[serde(rename = "description")]
    pub(crate) _description: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) initial_state: Option<Map<String, Value>>,
    /// The id of a run that was suspended before, or a placeholder for it.
    pub(crate) resume_invocation: Option<String>,
    pub(crate) signal_payload: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) loaded_session_state: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) loaded_invoke_state_for_scratch: Option<Value>,
    pub(crate) expected_final_state: Option<Map<String, Value>>,
    pub(crate) saved_session_assertions: Option<SavedExpected>,
    pub(crate) expected: Option<RunExpected>,
    pub(crate) expected_error: Option<ErrorExpected>,
    /// Ours: the caller's own ids, which a resumed run does not take.
    pub(crate) invocation_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    /// Ours: opens the session and merges this by the reducers, instead of replacing fields.
    pub(crate) inbound_update: Option<Map<String, Value>>,
    /// Ours: the process is a new one; only the stores are the same.
    #[serde(default)]
    pub(crate) fresh_process: bool,
    /// Ours: this run and the one before it begin at the same time.
    #[serde(default)]
    pub(crate) at_once: usize,
}
