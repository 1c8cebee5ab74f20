//! Inputs of the abstract harness and its expected outputs.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::expected::DescriptorExpected;
use super::present;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HarnessDef {
    pub(crate) mode: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) signal_coordinator: Option<Coordinator>,
    /// Ours: what a chat does with a message while a turn waits for a signal.
    #[serde(default, deserialize_with = "present")]
    pub(crate) while_paused: Option<String>,
}

/// A kind of coordinator, or in words of our own one that refuses.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Coordinator {
    Kind(String),
    Faulty(FaultyCoordinator),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultyCoordinator {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// What it says when a run is to be registered.
    #[serde(default, deserialize_with = "present")]
    pub(crate) register_raises: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transmission {
    #[serde(default, deserialize_with = "present")]
    pub(crate) name: Option<String>,
    #[serde(rename = "description", default, deserialize_with = "present")]
    pub(crate) _description: Option<String>,
    #[serde(default)]
    pub(crate) payload: Map<String, Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) dispatch_intent: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) signal_payload: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) expected: Option<TransmissionExpected>,
    /// Ours: the process is a new one; only the stores are the same.
    #[serde(default)]
    pub(crate) fresh_process: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransmissionExpected {
    #[serde(default, deserialize_with = "present")]
    pub(crate) dispatch_path: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) invoke_outcome: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) invoke_args: Option<InvokeArgs>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) final_state: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) descriptor: Option<DescriptorExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_category: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_bucket: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) outbound_shape: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) outbound_payload_includes: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) signal_subscription_registered: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) harness_signal_subscription_registered: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) descriptor_read_from_outcome: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) harness_did_not_block: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) signal_correlation_resolved: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) resolved_to_invocation_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) harness_auto_retried: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_store_load_calls: Option<usize>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_store_save_calls: Option<usize>,
    /// Ours: whether the graph was asked to run at all.
    #[serde(default, deserialize_with = "present")]
    pub(crate) invoked: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvokeArgs {
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id_present: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id_auto_generated: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id_caller_supplied: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) session_id_absent_verified: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) resume_invocation: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) signal_payload: Option<Map<String, Value>>,
}

impl HarnessDef {
    /// What the coordinator says when it is to register a run, if it refuses.
    pub(crate) fn refusal(&self) -> Option<String> {
        match &self.signal_coordinator {
            Some(Coordinator::Faulty(faulty)) => faulty.register_raises.clone(),
            _ => None,
        }
    }

    /// The kind of coordinator that the case wants.
    pub(crate) fn coordinator(&self) -> Option<&str> {
        match &self.signal_coordinator {
            Some(Coordinator::Kind(kind)) => Some(kind),
            Some(Coordinator::Faulty(faulty)) => Some(&faulty.kind),
            None => None,
        }
    }
}
