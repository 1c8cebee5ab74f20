//! The description of a graph.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Map, Value};

use super::{Ordered, present};

/// A graph: that of the case, or one inside a node of it.
#[derive(Clone, Debug)]
pub(crate) struct GraphDef {
    pub(crate) state: StateDef,
    pub(crate) entry: String,
    pub(crate) nodes: Ordered<NodeDef>,
    pub(crate) edges: Vec<EdgeDef>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubgraphDef {
    #[serde(default, deserialize_with = "present")]
    pub(crate) name: Option<String>,
    #[serde(rename = "description", default, deserialize_with = "present")]
    pub(crate) _description: Option<String>,
    pub(crate) state: StateDef,
    pub(crate) entry: String,
    pub(crate) nodes: Ordered<NodeDef>,
    pub(crate) edges: Vec<EdgeDef>,
}

impl From<SubgraphDef> for GraphDef {
    fn from(sub: SubgraphDef) -> Self {
        Self {
            state: sub.state,
            entry: sub.entry,
            nodes: sub.nodes,
            edges: sub.edges,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateDef {
    #[serde(default)]
    pub(crate) fields: Ordered<FieldDef>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) schema_version: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldDef {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) default: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) reducer: Option<String>,
}

/// An edge: always the same target, or, in words of our own, one chosen by a field.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EdgeDef {
    pub(crate) from: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) to: Option<String>,
    /// Ours: the field whose value chooses.
    #[serde(default, deserialize_with = "present")]
    pub(crate) by_field: Option<String>,
    /// Ours: the error that its function raises for a field whose value has no target.
    #[serde(default, deserialize_with = "present")]
    pub(crate) raises: Option<Raises>,
    /// Ours: the undeclared target that its function chooses for a value without one.
    #[serde(default, deserialize_with = "present")]
    pub(crate) strays_to: Option<String>,
    /// Ours: the targets by the value as JSON text; `else` for all others.
    #[serde(default, deserialize_with = "present")]
    pub(crate) targets: Option<Ordered<String>>,
}

/// What a node does, in the order in which it is written.
#[derive(Clone, Debug)]
pub(crate) struct NodeDef {
    pub(crate) directives: Vec<Directive>,
}

#[derive(Clone, Debug)]
pub(crate) enum Directive {
    Update(Map<String, Value>),
    Raises(Raises),
    Suspend(SuspendDef),
    ConditionalSuspend(ConditionalSuspend),
    OnOtherIndices(OnOtherIndices),
    SaveSession(SaveDef),
    EmitsLog(EmitsLog),
    Subgraph(String),
    Mapping(MappingDef),
    Outputs(Ordered<String>),
    FanOut(FanOutDef),
    Branches(BranchesDef),
    Middleware(Vec<MiddlewareDef>),
    /// Ours: the field that is told how many messages the node sees, or which session.
    Observes(Observes),
    /// Ours: waits until this number of nodes of the case arrive.
    Meets(usize),
    /// Ours: yields to other tasks this number of times.
    Pauses(usize),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raises {
    pub(crate) category: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) message: Option<String>,
    /// Ours: the number of times; the node continues afterwards.
    #[serde(default, deserialize_with = "present")]
    pub(crate) times: Option<u64>,
    /// Ours: only where a field of the state has this value.
    #[serde(default, deserialize_with = "present")]
    pub(crate) when: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuspendDef {
    pub(crate) signal_id: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) metadata: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) mark_node_completed: Option<bool>,
    /// Ours: does not suspend while these fields of the state have these values.
    #[serde(default, deserialize_with = "present")]
    pub(crate) unless: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConditionalSuspend {
    pub(crate) suspend_on_item_index: usize,
    pub(crate) descriptor: SuspendDef,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnOtherIndices {
    #[serde(default, deserialize_with = "present")]
    pub(crate) update: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) update_from_field: Option<Map<String, Value>>,
}

/// `true`, or in words of our own what to do when the save fails.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum SaveDef {
    Plain(bool),
    Careful(CarefulSave),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CarefulSave {
    /// Whether the node continues when it cannot save.
    pub(crate) swallow: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmitsLog {
    pub(crate) message: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) level: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MappingDef {
    #[serde(default, deserialize_with = "present")]
    pub(crate) inputs: Option<Ordered<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) outputs: Option<Ordered<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FanOutDef {
    pub(crate) subgraph: String,
    pub(crate) items_field: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) item_field: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) collect_field: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) target_field: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_policy: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) mapping: Option<MappingDef>,
    /// Ours: the field that receives the failures under `collect`.
    #[serde(default, deserialize_with = "present")]
    pub(crate) errors_field: Option<String>,
    /// Ours: the number of instances that run at once.
    #[serde(default, deserialize_with = "present")]
    pub(crate) concurrency: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchesDef {
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_policy: Option<String>,
    pub(crate) branches: Ordered<Branch>,
    /// Ours: the field that receives the failures under `collect`.
    #[serde(default, deserialize_with = "present")]
    pub(crate) errors_field: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Branch {
    pub(crate) subgraph: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) inputs: Option<Ordered<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) outputs: Option<Ordered<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MiddlewareDef {
    #[serde(rename = "name", default, deserialize_with = "present")]
    pub(crate) _name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) pre_log: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) post_log: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) pre_next_calls_suspend_with_descriptor: Option<SuspendDef>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) post_next_calls_suspend_with_descriptor: Option<SuspendDef>,
    /// Ours: an error of what it wraps becomes an empty update, and this is logged.
    #[serde(default, deserialize_with = "present")]
    pub(crate) catches_all_log: Option<String>,
    /// Ours: the update in place of an error that it catches, or of a node that it skips.
    #[serde(default, deserialize_with = "present")]
    pub(crate) fallback: Option<Map<String, Value>>,
    /// Ours: does not run what it wraps.
    #[serde(default)]
    pub(crate) skips: bool,
    /// Ours: how often it runs what it wraps again after an error.
    #[serde(default, deserialize_with = "present")]
    pub(crate) retries: Option<usize>,
    /// Ours: logs the session that it is told of.
    #[serde(default)]
    pub(crate) logs_session_id: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Observes {
    /// The field that receives the id of the session, or the empty text.
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id: Option<String>,
    /// The field that receives the number of messages.
    #[serde(default, deserialize_with = "present")]
    pub(crate) messages: Option<String>,
    /// The field that receives the attempt number of the node.
    #[serde(default, deserialize_with = "present")]
    pub(crate) attempt_index: Option<String>,
}

const DIRECTIVES: &str = "update, update_pure, raises, suspend_with_descriptor, \
     conditional_suspend, on_other_indices, explicit_save_session, emits_log, subgraph, mapping, \
     outputs, fan_out, parallel_branches, wrap_with_middleware, observes, meets, pauses";

impl<'de> Deserialize<'de> for NodeDef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Map::deserialize(deserializer)?;
        let read = entries.into_iter().map(|(key, value)| {
            directive(&key, value).map_err(|error| D::Error::custom(format!("{key}: {error}")))
        });
        let directives = read.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { directives })
    }
}

fn directive(key: &str, value: Value) -> Result<Directive, String> {
    fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
    Ok(match key {
        "update" | "update_pure" => Directive::Update(read(value)?),
        "raises" => Directive::Raises(read(value)?),
        "suspend_with_descriptor" => Directive::Suspend(read(value)?),
        "conditional_suspend" => Directive::ConditionalSuspend(read(value)?),
        "on_other_indices" => Directive::OnOtherIndices(read(value)?),
        "explicit_save_session" => Directive::SaveSession(read(value)?),
        "emits_log" => Directive::EmitsLog(read(value)?),
        "subgraph" => Directive::Subgraph(read(value)?),
        "mapping" => Directive::Mapping(read(value)?),
        "outputs" => Directive::Outputs(read(value)?),
        "fan_out" => Directive::FanOut(read(value)?),
        "parallel_branches" => Directive::Branches(read(value)?),
        "wrap_with_middleware" => Directive::Middleware(read(value)?),
        "observes" => Directive::Observes(read(value)?),
        "meets" => Directive::Meets(read(value)?),
        "pauses" => Directive::Pauses(read(value)?),
        _ => return Err(format!("unknown directive, expected one of {DIRECTIVES}")),
    })
}
