//! Expectations for a run of a graph.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Ordered, present};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunExpected {
    pub(crate) outcome: Option<String>,
    pub(crate) final_state: Option<Map<String, Value>>,
    pub(crate) suspended_state: Option<Map<String, Value>>,
    pub(crate) execution_order: Option<Vec<String>>,
    pub(crate) descriptor: Option<DescriptorExpected>,
    pub(crate) suspending_node: Option<String>,
    pub(crate) error: Option<ErrorExpected>,
    pub(crate) final_state_at_error: Option<Map<String, Value>>,
    pub(crate) no_session_load: Option<bool>,
    pub(crate) no_session_save: Option<bool>,
    pub(crate) store_untouched: Option<bool>,
    pub(crate) no_auto_save_on_end: Option<bool>,
    pub(crate) store_after: Option<StoreAfter>,
    pub(crate) saved_session_assertions: Option<SavedExpected>,
    pub(crate) migrations_run: Option<Vec<String>>,
    pub(crate) inner_pre_state: Option<Map<String, Value>>,
    pub(crate) instance_pre_states: Option<Vec<Map<String, Value>>>,
    pub(crate) checkpointer_assertions: Option<CheckpointerExpected>,
    pub(crate) middleware_log_captured: Option<Vec<String>>,
    pub(crate) observer_events: Option<Ordered<Vec<EventExpected>>>,
    #[serde(default)]
    pub(crate) observer_event_invariants: Map<String, Value>,
    pub(crate) otel_spans: Option<Vec<SpanExpected>>,
    pub(crate) span_tree: Option<Vec<SpanExpected>>,
    pub(crate) log_records: Option<Vec<LogExpected>>,
    /// Ours: the innermost node that suspended, and the way to it.
    pub(crate) node_name: Option<String>,
    pub(crate) namespace: Option<Vec<String>>,
    /// Ours: whether the run has the id of the one that it resumes.
    pub(crate) same_invocation_id: Option<bool>,
    /// Ours: the id under which the caller ties runs together.
    pub(crate) correlation_id: Option<String>,
    /// Ours: the nodes that ran to their end, as the paused run knows them.
    pub(crate) completed_positions: Option<Vec<String>>,
    /// Ours: whether the record of the run still waits.
    pub(crate) still_suspended: Option<bool>,
    /// Ours: how often the store was asked in this run.
    pub(crate) session_store_load_calls: Option<usize>,
    pub(crate) session_store_save_calls: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescriptorExpected {
    pub(crate) signal_id: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) metadata: Option<Value>,
    pub(crate) metadata_includes: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorExpected {
    pub(crate) category: String,
    pub(crate) raised_from: Option<String>,
    pub(crate) raised_at: Option<String>,
    pub(crate) carries: Option<Map<String, Value>>,
    pub(crate) cause: Option<CauseExpected>,
    /// Ours: words of the diagnostic.
    pub(crate) message_includes: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CauseExpected {
    pub(crate) exception_type: Option<String>,
    pub(crate) category: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreAfter {
    pub(crate) load_returns_none_for_session_id: Option<String>,
    pub(crate) load_returns_for_session_id: Option<String>,
    pub(crate) loaded_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) loaded_schema_version: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedExpected {
    pub(crate) state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) schema_version: Option<Value>,
    #[serde(default)]
    pub(crate) excludes_fields: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointerExpected {
    pub(crate) paused_invocation_record_exists: Option<bool>,
    pub(crate) record_type: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventExpected {
    pub(crate) phase: Option<String>,
    pub(crate) node_name: Option<String>,
    pub(crate) namespace: Option<Vec<String>>,
    pub(crate) step: Option<usize>,
    pub(crate) attempt_index: Option<usize>,
    pub(crate) pre_state: Option<Map<String, Value>>,
    pub(crate) post_state: Option<Map<String, Value>>,
    pub(crate) error: Option<ErrorExpected>,
    pub(crate) descriptor: Option<DescriptorExpected>,
    pub(crate) parent_states: Option<Vec<Map<String, Value>>>,
    pub(crate) fan_out_index: Option<usize>,
    pub(crate) branch_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpanExpected {
    pub(crate) name: String,
    pub(crate) status: Option<Value>,
    #[serde(default)]
    pub(crate) attributes: Map<String, Value>,
    #[serde(default)]
    pub(crate) attributes_absent: Vec<String>,
    pub(crate) children: Option<Vec<SpanExpected>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) parent: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogExpected {
    pub(crate) body: String,
    pub(crate) level: Option<String>,
    #[serde(default)]
    pub(crate) attributes: Map<String, Value>,
    #[serde(default)]
    pub(crate) attributes_absent: Vec<String>,
}
