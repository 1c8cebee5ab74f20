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
    #[serde(rename = "description", default, deserialize_with = "present")]
    pub(crate) _description: Option<String>,
    pub(crate) state: StateDef,
    pub(crate) entry: String,
    pub(crate) nodes: Ordered<NodeDef>,
    pub(crate) edges: Vec<EdgeDef>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) subgraph: Option<SubgraphDef>,
    #[serde(default)]
    pub(crate) subgraphs: Ordered<SubgraphDef>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) initial_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_store: Option<StoreDef>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) checkpointer: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) auto_save: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_state: Option<SessionShape>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) seeded_session: Option<Seeded>,
    #[serde(default)]
    pub(crate) session_migrations: Vec<Migration>,
    #[serde(default)]
    pub(crate) observers: Vec<ObserverDef>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) invocations: Option<Vec<Invocation>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) harness: Option<HarnessDef>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) transmissions: Option<Vec<Transmission>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) chat_turns: Option<Vec<ChatTurn>>,
    #[serde(default)]
    pub(crate) signal_arrivals: Vec<SignalStep>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) expected: Option<RunExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) expected_error: Option<ErrorExpected>,
    #[serde(default)]
    pub(crate) invariants: Map<String, Value>,
    /// Ours: a concurrently modified session is not replaced.
    #[serde(default)]
    pub(crate) refuse_conflicts: bool,
    #[serde(default, deserialize_with = "present")]
    pub(crate) limits: Option<Limits>,
}

/// Ours: limits of the engine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    #[serde(default, deserialize_with = "present")]
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
    #[serde(default, deserialize_with = "present")]
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
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
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
    #[serde(default, deserialize_with = "present")]
    pub(crate) attach: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) target: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) behavior: Option<String>,
}

/// One run of the graph.
#[expect(clippy::struct_field_names, reason = "the words of the vocabulary")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Invocation {
    #[serde(default, deserialize_with = "present")]
    pub(crate) name: Option<String>,
    #[serde(rename = "description", default, deserialize_with = "present")]
    pub(crate) _description: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) initial_state: Option<Map<String, Value>>,
    /// The id of a run that was suspended before, or a placeholder for it.
    #[serde(default, deserialize_with = "present")]
    pub(crate) resume_invocation: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) signal_payload: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) loaded_session_state: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) loaded_invoke_state_for_scratch: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) expected_final_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) saved_session_assertions: Option<SavedExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) expected: Option<RunExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) expected_error: Option<ErrorExpected>,
    /// Ours: the caller's own ids, which a resumed run does not take.
    #[serde(default, deserialize_with = "present")]
    pub(crate) invocation_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) correlation_id: Option<String>,
    /// Ours: opens the session and merges this by the reducers, instead of replacing fields.
    #[serde(default, deserialize_with = "present")]
    pub(crate) inbound_update: Option<Map<String, Value>>,
    /// Ours: the process is a new one; only the stores are the same.
    #[serde(default)]
    pub(crate) fresh_process: bool,
    /// Ours: this run and the one before it begin at the same time.
    #[serde(default)]
    pub(crate) at_once: usize,
}
