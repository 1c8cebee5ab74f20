//! Messages of a chat and their expected replies.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::expected::DescriptorExpected;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatTurn {
    pub(crate) name: Option<String>,
    #[serde(rename = "description")]
    pub(crate) _description: Option<String>,
    pub(crate) session_id: String,
    pub(crate) user_message: Value,
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
    pub(crate) busy: Option<String>,
    /// Ours: the name under which the message may be delivered again.
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatTurnExpected {
    pub(crate) outcome: Option<String>,
    pub(crate) replies: Option<Vec<Value>>,
    pub(crate) pending_messages: Option<Vec<Value>>,
    pub(crate) signal_descriptor: Option<DescriptorExpected>,
    pub(crate) error_bucket: Option<String>,
    pub(crate) error_category: Option<String>,
    pub(crate) reply: Option<ReplyExpected>,
    pub(crate) final_state: Option<FinalHistory>,
    pub(crate) dispatch_path: Option<Value>,
    /// Ours: whether any node ran.
    pub(crate) graph_ran: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplyExpected {
    pub(crate) role: Option<String>,
    pub(crate) content: Option<Value>,
    pub(crate) content_includes: Option<Vec<String>>,
    pub(crate) content_matches_template: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinalHistory {
    pub(crate) messages_count: Option<usize>,
    pub(crate) messages_history_contains: Option<Vec<Value>>,
    /// Ours: fields of the stored state besides the conversation.
    pub(crate) fields: Option<Map<String, Value>>,
    /// Ours: the whole history, message for message.
    pub(crate) messages: Option<Vec<Value>>,
}

/// A signal for a turn that waits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalStep {
    pub(crate) signal_id: Option<String>,
    #[serde(default)]
    pub(crate) signal_payload: Map<String, Value>,
    pub(crate) expected_listener_callback: Option<ArrivalExpected>,
    /// Ours: the turn by the name of the chat turn that suspended.
    pub(crate) invocation_of: Option<String>,
    /// Ours: the result that the sender of the signal receives.
    pub(crate) expected: Option<ChatTurnExpected>,
    /// Ours: why the signal is refused.
    pub(crate) refused: Option<String>,
    /// Ours: the process is a new one; only the store is the same.
    #[serde(default)]
    pub(crate) fresh_process: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArrivalExpected {
    pub(crate) listener: String,
    pub(crate) outcome: Option<String>,
    pub(crate) replies: Option<Vec<Value>>,
    pub(crate) error_bucket: Option<String>,
    pub(crate) error_category: Option<String>,
    pub(crate) reply: Option<ReplyExpected>,
    /// Ours: the number of notifications of the listener so far.
    pub(crate) times: Option<usize>,
}
