//! Outcomes of the turns of a chat.

use std::time::Duration;

use logue_message::ChatMessage;
use serde_json::{Map, Value, json};

use crate::classification::ErrorBucket;
use crate::store::{NewOutcome, OutcomeKind, StoredOutcome};
use crate::turns::DispatchPath;
use logue_graph::{SignalDescriptor, State};

/// The outcome of a turn (harness-chat §5.2).
///
/// The contract defines exactly these three, so the enum is exhaustive.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an outcome may be an error or a suspension"]
pub enum ChatTurnOutcome {
    /// The turn reached its end.
    Completed(CompletedTurn),
    /// The turn failed. The history is unchanged, unless a call of a tool was started.
    Errored(ErroredTurn),
    /// The turn waits for a signal.
    Suspended(SuspendedTurn),
}

/// A turn that reached its end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompletedTurn {
    /// The messages of all roles added after the user's, in order. May be empty.
    pub replies: Vec<ChatMessage>,
    /// The final state, where the turn ran in this process.
    pub final_state: Option<State>,
    /// The id of the run.
    pub invocation_id: String,
    /// The dispatch path, where the turn ran in this process.
    pub path: Option<DispatchPath>,
}

/// A turn that failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ErroredTurn {
    /// The bucket, which names the party that can act on the error.
    pub error_bucket: ErrorBucket,
    /// The name of the error.
    pub error_category: String,
    /// A description of the failure for operators. The user sees [`reply`](Self::reply).
    pub diagnostic: String,
    /// The remedy, if known.
    pub help: Option<String>,
    /// The time that a server asks to wait before the next try.
    pub retry_after: Option<Duration>,
    /// The text to show to the user: a `system` message outside the history.
    pub reply: ChatMessage,
    /// Whether calls of the turn are in the history, from which it can continue.
    pub resumable: bool,
    /// Whether only the store was unavailable, so that a later try may succeed.
    pub transient: bool,
    /// Whether a stored record is damaged, so that a try after a repair may succeed.
    pub damaged: bool,
    /// The id of the run that ended.
    ///
    /// Without one, the message was refused, or the store failed and the result is unknown: sending
    /// the same message under the same idempotency key reveals it.
    pub invocation_id: Option<String>,
    /// The dispatch path, where the turn ran in this process.
    pub path: Option<DispatchPath>,
}

/// A turn that waits for a signal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SuspendedTurn {
    /// The signal that the turn waits for, exactly as the node described it.
    pub signal_descriptor: SignalDescriptor,
    /// The messages that the turn added before it suspended, in order. May be empty.
    pub pending_messages: Vec<ChatMessage>,
    /// The id of the run, by which it can be resumed.
    pub invocation_id: String,
    /// The dispatch path, where the turn ran in this process.
    pub path: Option<DispatchPath>,
}

impl ChatTurnOutcome {
    /// `completed`, `errored` or `suspended`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Errored(_) => "errored",
            Self::Suspended(_) => "suspended",
        }
    }

    /// The messages that the turn added to the history; none for a failed turn.
    pub fn messages(&self) -> &[ChatMessage] {
        match self {
            Self::Completed(turn) => &turn.replies,
            Self::Suspended(turn) => &turn.pending_messages,
            Self::Errored(_) => &[],
        }
    }

    /// The dispatch path, if the turn ran in this process.
    ///
    /// A turn is [`NewSession`](DispatchPath::NewSession) if the loaded history was empty. The path is
    /// not stored, so an outcome of another process has none.
    pub const fn path(&self) -> Option<DispatchPath> {
        match self {
            Self::Completed(turn) => turn.path,
            Self::Errored(turn) => turn.path,
            Self::Suspended(turn) => turn.path,
        }
    }

    pub(super) fn with_path(mut self, path: DispatchPath) -> Self {
        let of_turn = match &mut self {
            Self::Completed(turn) => &mut turn.path,
            Self::Errored(turn) => &mut turn.path,
            Self::Suspended(turn) => &mut turn.path,
        };
        *of_turn = Some(path);
        self
    }

    /// Marks a failed turn as one that can continue.
    pub(super) fn with_resumable(mut self, resumable: bool) -> Self {
        if let Self::Errored(turn) = &mut self {
            turn.resumable = resumable;
        }
        self
    }

    /// The outcome as JSON, without the final state.
    pub fn to_json(&self) -> Value {
        let list = |messages: &[ChatMessage]| -> Value {
            messages.iter().map(ChatMessage::to_json).collect()
        };
        match self {
            Self::Completed(turn) => json!({
                "outcome": "completed",
                "invocation_id": turn.invocation_id,
                "replies": list(&turn.replies),
            }),
            Self::Errored(turn) => with_advice(
                turn,
                json!({
                    "outcome": "errored",
                    "invocation_id": turn.invocation_id,
                    "error_bucket": turn.error_bucket.as_str(),
                    "error_category": turn.error_category,
                    "diagnostic": turn.diagnostic,
                    "resumable": turn.resumable,
                    "reply": turn.reply.to_json(),
                }),
            ),
            Self::Suspended(turn) => json!({
                "outcome": "suspended",
                "invocation_id": turn.invocation_id,
                "signal_descriptor": descriptor_to_json(&turn.signal_descriptor),
                "pending_messages": list(&turn.pending_messages),
            }),
        }
    }

    /// Converts the outcome to its stored form. The messages are in the history.
    pub(super) fn to_stored(&self, replies_from: u64) -> NewOutcome {
        let (kind, body) = match self {
            Self::Completed(_) => (OutcomeKind::Completed, Value::Null),
            Self::Errored(turn) => (
                OutcomeKind::Errored,
                with_advice(
                    turn,
                    json!({
                        "bucket": turn.error_bucket.as_str(),
                        "category": turn.error_category,
                        "diagnostic": turn.diagnostic,
                        "reply": turn.reply.text(),
                    }),
                ),
            ),
            Self::Suspended(turn) => (
                OutcomeKind::Suspended,
                descriptor_to_json(&turn.signal_descriptor),
            ),
        };
        NewOutcome {
            kind,
            replies_from,
            body,
        }
    }

    /// A stored outcome with its messages.
    pub(super) fn from_stored(stored: &StoredOutcome, messages: Vec<ChatMessage>) -> Self {
        let invocation_id = stored.invocation_id.clone();
        let text = |key: &str| {
            let text = stored.body.get(key).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        match stored.kind {
            OutcomeKind::Completed => Self::Completed(CompletedTurn {
                replies: messages,
                final_state: None,
                invocation_id,
                path: None,
            }),
            OutcomeKind::Suspended => Self::Suspended(SuspendedTurn {
                signal_descriptor: SignalDescriptor {
                    signal_id: text("signal_id"),
                    metadata: stored.body.get("metadata").cloned(),
                },
                pending_messages: messages,
                invocation_id,
                path: None,
            }),
            OutcomeKind::Errored | OutcomeKind::Cancelled => Self::Errored(ErroredTurn {
                error_bucket: ErrorBucket::parse(&text("bucket"))
                    .unwrap_or(ErrorBucket::RetryableTransient),
                error_category: text("category"),
                diagnostic: text("diagnostic"),
                help: Some(text(HELP)).filter(|help| !help.is_empty()),
                retry_after: stored
                    .body
                    .get(RETRY_AFTER)
                    .and_then(Value::as_f64)
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
                reply: ChatMessage::system(text("reply")),
                resumable: stored.body.get(RESUMABLE).is_some(),
                transient: stored.body.get(TRANSIENT) == Some(&Value::Bool(true)),
                damaged: stored.body.get(TRANSIENT) == Some(&json!(DAMAGED)),
                invocation_id: Some(invocation_id),
                path: None,
            }),
        }
    }
}

/// The key of a stored outcome with what its turn needs to continue.
pub(super) const RESUMABLE: &str = "resumable";
/// The key of a stored failure whose turn says its message again.
pub(super) const SAYS_AGAIN: &str = "says_again";
/// The key of a stored failure that may pass: `true`, or [`DAMAGED`] if a repair is required.
pub(super) const TRANSIENT: &str = "transient";
const DAMAGED: &str = "damaged";
const HELP: &str = "help";
const RETRY_AFTER: &str = "retry_after_seconds";

/// Marks a stored failure as one that may pass.
pub(super) fn mark_transient(stored: &mut NewOutcome, is_damaged: bool) {
    if let Value::Object(body) = &mut stored.body {
        let how = if is_damaged {
            json!(DAMAGED)
        } else {
            Value::Bool(true)
        };
        body.insert(TRANSIENT.to_owned(), how);
    }
}

/// A failed turn as JSON, with advice where known.
///
/// Unknown advice has no keys.
fn with_advice(turn: &ErroredTurn, mut json: Value) -> Value {
    if let Value::Object(object) = &mut json {
        if let Some(help) = &turn.help {
            object.insert(HELP.to_owned(), json!(help));
        }
        if let Some(wait) = turn.retry_after {
            object.insert(RETRY_AFTER.to_owned(), json!(wait.as_secs_f64()));
        }
    }
    json
}

/// A descriptor as JSON: without metadata, there is no such key.
pub(super) fn descriptor_to_json(descriptor: &SignalDescriptor) -> Value {
    let mut object = Map::new();
    object.insert("signal_id".to_owned(), json!(descriptor.signal_id));
    if let Some(metadata) = &descriptor.metadata {
        object.insert("metadata".to_owned(), metadata.clone());
    }
    Value::Object(object)
}
