//! Messages of a chat and their expected replies.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::expected::DescriptorExpected;
use super::present;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatTurn {
    #[serde(default, deserialize_with = "present")]
    pub(crate) name: Option<String>,
    #[serde(rename = "description", default, deserialize_with = "present")]
    pub(crate) _description: Option<String>,
    pub(crate) session_id: String,
    pub(crate) user_message: Value,
    #[serde(default, deserialize_with = "present")]
    pub(crate) subscribe_listener: Option<String>,
    #[serde(default)]
    pub(crate) expected: ChatTurnExpected,
    /// Ours: begins while the turn before it runs.
    #[serde(default)]
    pub(crate) concurrent: bool,
    /// Ours: the process is a new one; only the store is the same.
    #[serde(default)]
    pub(crate) fresh_process: bool,
    /// Ours: signals that arrive after this turn and before the next one.
    #[serde(default)]
    pub(crate) then_signals: Vec<SignalStep>,
    /// Ours: what to do while another turn of the session runs.
    #[serde(default, deserialize_with = "present")]
    pub(crate) busy: Option<String>,
    /// Ours: the name under which the message may be delivered again.
    #[serde(default, deserialize_with = "present")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatTurnExpected {
    #[serde(default, deserialize_with = "present")]
    pub(crate) outcome: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) replies: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) pending_messages: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) signal_descriptor: Option<DescriptorExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_bucket: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_category: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) reply: Option<ReplyExpected>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) final_state: Option<FinalHistory>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) dispatch_path: Option<Value>,
    /// Ours: whether any node ran.
    #[serde(default, deserialize_with = "present")]
    pub(crate) graph_ran: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplyExpected {
    #[serde(default, deserialize_with = "present")]
    pub(crate) role: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) content: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) content_includes: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) content_matches_template: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinalHistory {
    #[serde(default, deserialize_with = "present")]
    pub(crate) messages_count: Option<usize>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) messages_history_contains: Option<Vec<Value>>,
    /// Ours: fields of the stored state besides the conversation.
    #[serde(default, deserialize_with = "present")]
    pub(crate) fields: Option<Map<String, Value>>,
    /// Ours: the whole history, message for message.
    #[serde(default, deserialize_with = "present")]
    pub(crate) messages: Option<Vec<Value>>,
}

/// A signal for a turn that waits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalStep {
    #[serde(default, deserialize_with = "present")]
    pub(crate) signal_id: Option<String>,
    #[serde(default)]
    pub(crate) signal_payload: Map<String, Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) expected_listener_callback: Option<ArrivalExpected>,
    /// Ours: the turn by the name of the chat turn that suspended.
    #[serde(default, deserialize_with = "present")]
    pub(crate) invocation_of: Option<String>,
    /// Ours: the result that the sender of the signal receives.
    #[serde(default, deserialize_with = "present")]
    pub(crate) expected: Option<ChatTurnExpected>,
    /// Ours: why the signal is refused.
    #[serde(default, deserialize_with = "present")]
    pub(crate) refused: Option<String>,
    /// Ours: the process is a new one; only the store is the same.
    #[serde(default)]
    pub(crate) fresh_process: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArrivalExpected {
    pub(crate) listener: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) outcome: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) replies: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_bucket: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_category: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) reply: Option<ReplyExpected>,
    /// Ours: the number of notifications of the listener so far.
    #[serde(default, deserialize_with = "present")]
    pub(crate) times: Option<usize>,
}
