//! Expectations for a run of a graph.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Ordered, present};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunExpected {
    #[serde(default, deserialize_with = "present")]
    pub(crate) outcome: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) final_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) suspended_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) execution_order: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) descriptor: Option<DescriptorExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) suspending_node: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error: Option<ErrorExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) final_state_at_error: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) no_session_load: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) no_session_save: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) store_untouched: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) no_auto_save_on_end: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) store_after: Option<StoreAfter>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) saved_session_assertions: Option<SavedExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) migrations_run: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) inner_pre_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) instance_pre_states: Option<Vec<Map<String, Value>>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) checkpointer_assertions: Option<CheckpointerExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) middleware_log_captured: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) observer_events: Option<Ordered<Vec<EventExpected>>>,
    #[serde(default)]
    pub(crate) observer_event_invariants: Map<String, Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) otel_spans: Option<Ordered<SpanExpected>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) span_tree: Option<Vec<SpanExpected>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) log_records: Option<Vec<LogExpected>>,
    /// Ours: the innermost node that suspended, and the way to it.
    #[serde(default, deserialize_with = "present")]
    pub(crate) node_name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) namespace: Option<Vec<String>>,
    /// Ours: whether the run has the id of the one that it resumes.
    #[serde(default, deserialize_with = "present")]
    pub(crate) same_invocation_id: Option<bool>,
    /// Ours: the id under which the caller ties runs together.
    #[serde(default, deserialize_with = "present")]
    pub(crate) correlation_id: Option<String>,
    /// Ours: the nodes that ran to their end, as the paused run knows them.
    #[serde(default, deserialize_with = "present")]
    pub(crate) completed_positions: Option<Vec<String>>,
    /// Ours: whether the record of the run still waits.
    #[serde(default, deserialize_with = "present")]
    pub(crate) still_suspended: Option<bool>,
    /// Ours: how often the store was asked in this run.
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_store_load_calls: Option<usize>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_store_save_calls: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescriptorExpected {
    pub(crate) signal_id: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) metadata: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) metadata_includes: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorExpected {
    pub(crate) category: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) raised_from: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) raised_at: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) carries: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) cause: Option<CauseExpected>,
    /// Ours: words of the diagnostic.
    #[serde(default, deserialize_with = "present")]
    pub(crate) message_includes: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CauseExpected {
    #[serde(default, deserialize_with = "present")]
    pub(crate) exception_type: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) category: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreAfter {
    #[serde(default, deserialize_with = "present")]
    pub(crate) load_returns_none_for_session_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) load_returns_for_session_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) loaded_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) loaded_schema_version: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedExpected {
    #[serde(default, deserialize_with = "present")]
    pub(crate) state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) schema_version: Option<Value>,
    #[serde(default)]
    pub(crate) excludes_fields: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointerExpected {
    #[serde(default, deserialize_with = "present")]
    pub(crate) paused_invocation_record_exists: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) record_type: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventExpected {
    #[serde(default, deserialize_with = "present")]
    pub(crate) phase: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) node_name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) namespace: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) step: Option<usize>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) attempt_index: Option<usize>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) pre_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) post_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error: Option<ErrorExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) descriptor: Option<DescriptorExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) parent_states: Option<Vec<Map<String, Value>>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) fan_out_index: Option<usize>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) branch_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpanExpected {
    pub(crate) name: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) status: Option<String>,
    #[serde(default)]
    pub(crate) attributes: Map<String, Value>,
    #[serde(default)]
    pub(crate) attributes_absent: Vec<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) children: Option<Vec<SpanExpected>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) parent: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogExpected {
    pub(crate) body: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) level: Option<String>,
    #[serde(default)]
    pub(crate) attributes: Map<String, Value>,
    #[serde(default)]
    pub(crate) attributes_absent: Vec<String>,
}
