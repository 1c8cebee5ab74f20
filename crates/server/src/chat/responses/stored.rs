//! Responses as their sessions contain them.

use std::borrow::Cow;

use logue_agent::{TurnReport, public_detail};
use logue_harness::ErrorBucket;
use logue_harness::store::{EntryPayload, EntryState, InboxEntry, OutcomeKind, StoredOutcome};
use logue_message::{ChatMessage, Role};
use logue_model::{FinishReason, Usage};
use serde_json::{Map, Value, json};

use super::ids::ResponseId;
use super::items::{approval_items, blocks, input_item, output_items};
use super::request::KeptRequest;
use super::sent_ids::set_sent_ids;
use crate::chat::api::Api;
use crate::chat::parameters::TurnParameters;
use crate::chat::problem::Problem;
use crate::chat::visible::visible_signal;

/// The messages before a resumed turn among which its calls are.
const EARLIER: u64 = 64;

/// The fields of a response that its turn does not change.
#[derive(Clone, Debug)]
pub(super) struct ResponseHead {
    pub(super) id: String,
    /// The seconds since 1970.
    pub(super) created_at: u64,
    pub(super) model: String,
    pub(super) conversation: Option<String>,
    pub(super) instructions: Option<String>,
    pub(super) is_stored: bool,
    /// The required form of the answer, if it has a schema.
    pub(super) format: Option<Value>,
    pub(super) kept: KeptRequest,
}

/// The fields of a response that its turn decides.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseEnd {
    /// `queued`, `in_progress`, `completed`, `incomplete`, `failed` or `cancelled`.
    pub(super) status: &'static str,
    pub(super) output: Vec<Value>,
    pub(super) error: Option<Value>,
    /// `max_output_tokens` or `content_filter`.
    pub(super) incomplete: Option<&'static str>,
    pub(super) usage: Option<Usage>,
    pub(super) completed_at: Option<u64>,
}

impl ResponseHead {
    /// Returns the response as JSON.
    pub(super) fn with(&self, end: &ResponseEnd) -> Value {
        let usage = end.usage.map(|usage| {
            let (input, output) = (usage.input_tokens, usage.output_tokens);
            json!({"input_tokens": input, "output_tokens": output,
                "total_tokens": input.saturating_add(output),
                "input_tokens_details": {"cached_tokens": usage.cached_tokens,
                    "cache_write_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens}})
        });
        let conversation = self.conversation.as_ref().map(|id| json!({ "id": id }));
        let text = json!({"type": "text"});
        let format = self.format.as_ref().unwrap_or(&text);
        let incomplete = end.incomplete.map(|reason| json!({ "reason": reason }));
        json!({
            "id": self.id, "object": "response", "created_at": self.created_at,
            "completed_at": end.completed_at, "status": end.status, "model": self.model,
            "output": end.output, "error": end.error, "incomplete_details": incomplete,
            "usage": usage, "conversation": conversation, "instructions": self.instructions,
            "previous_response_id": self.kept.previous, "metadata": self.kept.metadata,
            "background": self.kept.is_background, "store": self.is_stored,
            "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
            "text": {"format": format}, "reasoning": null, "truncation": "disabled",
            "temperature": null, "top_p": null, "max_output_tokens": self.kept.max_tokens,
        })
    }
}

/// A response that a session contains.
#[derive(Debug)]
pub(super) struct StoredResponse {
    id: ResponseId,
    pub(super) head: ResponseHead,
    pub(super) state: EntryState,
    pub(super) outcome: Option<StoredOutcome>,
    /// The messages that began it.
    input: Vec<ChatMessage>,
}

impl StoredResponse {
    /// Reads a response; `None` if the session has no such entry.
    ///
    /// # Errors
    /// Returns a problem if the store fails.
    pub(super) async fn read(
        api: &Api,
        (id, agent): (&ResponseId, &str),
        conversation: Option<String>,
    ) -> Result<Option<Self>, Problem> {
        let store = api.store();
        let Some(entry) = store.entry(&id.session, id.entry).await? else {
            return Ok(None);
        };
        let outcome = store.outcome_of(&id.session, id.entry).await?;
        let mut kept = KeptRequest::from_key(entry.key.as_deref());
        if outcome.as_ref().is_some_and(|outcome| outcome.resumed) {
            kept.previous = resumed_id(api, id, &entry).await?;
        }
        let input = input_of(api, id, &entry, outcome.as_ref()).await?;
        let instructions = input.last().filter(|_| kept.has_instructions);
        let instructions = instructions.and_then(|message| {
            let blocks = blocks(&message.content);
            let first = ChatMessage::user(vec![blocks.first()?.clone()]);
            Some(first.text())
        });
        let mut format = None;
        if let Some(name) = &kept.format {
            let info = store.session(&id.session).await?;
            format = info.and_then(|mut info| info.labels.remove(name));
        }
        let head = ResponseHead {
            id: id.to_string(),
            created_at: entry.accepted_at.0 / 1_000,
            model: agent.to_owned(),
            conversation,
            instructions,
            is_stored: true,
            format,
            kept,
        };
        Ok(Some(Self {
            id: id.clone(),
            head,
            state: entry.state,
            outcome,
            input,
        }))
    }

    /// Returns the response as JSON.
    ///
    /// # Errors
    /// Returns a problem if the store fails.
    pub(super) async fn to_json(&self, api: &Api) -> Result<Value, Problem> {
        let mut end = self.end(api).await?;
        if self.outcome.is_some() {
            set_sent_ids(api, &self.id, &self.head, &mut end).await?;
        }
        Ok(self.head.with(&end))
    }

    /// Returns the part that the turn decides, with items whose ids no stream has changed.
    ///
    /// # Errors
    /// Returns a problem if the store fails.
    pub(super) async fn end(&self, api: &Api) -> Result<ResponseEnd, Problem> {
        let Some(outcome) = &self.outcome else {
            let status = match self.state {
                EntryState::Waiting => "queued",
                _ => "in_progress",
            };
            return Ok(ResponseEnd {
                status,
                ..ResponseEnd::default()
            });
        };
        let store = api.store();
        let session = &self.id.session;
        let before = outcome.replies_from.min(EARLIER);
        let first = outcome.replies_from - before;
        let count = usize::try_from(outcome.replies_to - first).unwrap_or(usize::MAX);
        let mut earlier = messages(&store.history(session, first, count).await?);
        let own = earlier.split_off(usize::try_from(before).unwrap_or(0).min(earlier.len()));
        let is_structured = self.head.format.is_some();
        let mut output = output_items(&self.id.suffix(), &earlier, &own, is_structured);
        let info = store.session(session).await?;
        let fields = info.map(|info| info.fields).unwrap_or_default();
        let report = TurnReport::from_outcome(outcome, &fields);
        let cut = report.truncated;
        let before = self.usage_before(api).await?;
        let mut end = ResponseEnd {
            status: "completed",
            usage: report.usage.map(|usage| without(usage, before)),
            completed_at: Some(outcome.at.0 / 1_000),
            ..ResponseEnd::default()
        };
        match outcome.kind {
            OutcomeKind::Completed => {
                end.cut(cut);
                let last = own.last().map(ChatMessage::text);
                end.check(self.head.format.as_ref(), &last.unwrap_or_default());
            }
            OutcomeKind::Suspended => {
                let id = outcome.body.get("signal_id").and_then(Value::as_str);
                let metadata = outcome.body.get("metadata");
                let signal = visible_signal(id.unwrap_or_default(), metadata);
                output.extend(approval_items(&signal));
            }
            _ => end.fail(&outcome.body),
        }
        end.output = output;
        Ok(end)
    }

    /// Returns the usage of the response that a decision continued, whose turn this one is.
    async fn usage_before(&self, api: &Api) -> Result<Usage, Problem> {
        let is_resumed = self.outcome.as_ref().is_some_and(|own| own.resumed);
        let previous = self.head.kept.previous.as_deref().filter(|_| is_resumed);
        let Some(previous) = previous.and_then(ResponseId::parse) else {
            return Ok(Usage::default());
        };
        let store = api.store();
        let outcome = store.outcome_of(&previous.session, previous.entry).await?;
        let report = outcome.map(|own| TurnReport::from_outcome(&own, &Map::new()));
        Ok(report.and_then(|report| report.usage).unwrap_or_default())
    }

    /// Returns the input as items.
    pub(super) fn input_items(&self) -> Vec<Value> {
        let suffix = self.id.suffix();
        let last = self.input.len().saturating_sub(1);
        let items = self.input.iter().enumerate().map(|(at, message)| {
            let id = format!("msg_in_{suffix}_{at}");
            let blocks = blocks(&message.content);
            let skipped = usize::from(self.head.instructions.is_some() && at == last);
            input_item(&id, blocks.get(skipped..).unwrap_or_default())
        });
        items.collect()
    }
}

impl ResponseEnd {
    /// Sets the status of a turn by the reason for which its answer was cut.
    pub(super) fn cut(&mut self, reason: Option<FinishReason>) {
        let Some(reason) = reason else {
            self.status = "completed";
            return;
        };
        self.status = "incomplete";
        self.incomplete = Some(match reason {
            FinishReason::ContentFilter => "content_filter",
            _ => "max_output_tokens",
        });
    }

    /// Fails a complete answer that violates its form, as one of another process may do.
    pub(super) fn check(&mut self, format: Option<&Value>, answer: &str) {
        let mut parameters = TurnParameters::default();
        let is_known = parameters.set_format(format, "text.format").is_ok();
        if !is_known || self.status != "completed" {
            return;
        }
        if let Err(problem) = parameters.check(answer) {
            self.status = "failed";
            self.error = Some(error_of(&problem.code, &problem.detail));
        }
    }

    /// Sets the status and error of a failed turn by the body of its outcome.
    fn fail(&mut self, body: &Value) {
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let category = text("category");
        if category == "turn_cancelled" {
            self.status = "cancelled";
            return;
        }
        let bucket = ErrorBucket::parse(text("bucket"));
        let bucket = bucket.unwrap_or(ErrorBucket::RetryableTransient);
        let message = public_detail(bucket, category, text("diagnostic"));
        self.status = "failed";
        self.error = Some(error_of(category, &message));
    }
}

/// Returns the part of the usage of a turn after the usage of its beginning.
fn without(mut usage: Usage, before: Usage) -> Usage {
    for (own, before) in [
        (&mut usage.input_tokens, before.input_tokens),
        (&mut usage.output_tokens, before.output_tokens),
        (&mut usage.cached_tokens, before.cached_tokens),
        (&mut usage.reasoning_tokens, before.reasoning_tokens),
    ] {
        *own = own.saturating_sub(before);
    }
    usage
}

/// Returns the error of a failed response: `type` is the stable code.
pub(super) fn error_of(code: &str, message: &str) -> Value {
    json!({"code": "server_error", "type": code, "message": message})
}

fn messages(stored: &[Value]) -> Vec<ChatMessage> {
    let messages = stored.iter().map(|message| {
        // A message that cannot be read keeps its position.
        ChatMessage::from_json(message).unwrap_or_else(|_| ChatMessage::system(""))
    });
    messages.collect()
}

/// Returns the messages that began a turn.
async fn input_of(
    api: &Api,
    id: &ResponseId,
    entry: &InboxEntry,
    outcome: Option<&StoredOutcome>,
) -> Result<Vec<ChatMessage>, Problem> {
    if let Some(EntryPayload::Message { message }) = &entry.work {
        return Ok(ChatMessage::from_json(message).into_iter().collect());
    }
    let before = outcome
        .filter(|outcome| !outcome.resumed)
        .and_then(|outcome| outcome.replies_from.checked_sub(1));
    let Some(before) = before else {
        return Ok(Vec::new());
    };
    let stored = api.store().history(&id.session, before, 1).await?;
    let mut messages = messages(&stored);
    messages.retain(|message| message.role == Role::User);
    Ok(messages)
}

/// Returns the id of the response that a decision continued.
async fn resumed_id(
    api: &Api,
    id: &ResponseId,
    entry: &InboxEntry,
) -> Result<Option<String>, Problem> {
    let mut before = id.entry;
    while before > 1 {
        before -= 1;
        let earlier = api.store().entry(&id.session, before).await?;
        let invocation = earlier.and_then(|earlier| earlier.invocation_id);
        if invocation.is_some() && invocation == entry.invocation_id {
            return Ok(Some(ResponseId::new(&id.session, before).to_string()));
        }
        // Few messages arrive while a turn waits.
        if id.entry - before > EARLIER {
            break;
        }
    }
    Ok(None)
}

/// Returns a page of items in the order and with the limits of a query.
///
/// # Errors
/// Returns a problem if the query is invalid.
pub(super) fn page(mut items: Vec<Value>, query: &Map<String, Value>) -> Result<Value, Problem> {
    let text = |name: &str| query.get(name).and_then(Value::as_str);
    match text("order") {
        None | Some("desc") => items.reverse(),
        Some("asc") => {}
        Some(_) => return Err(Problem::invalid("`order` must be `asc` or `desc`")),
    }
    if let Some(after) = text("after") {
        let at = items.iter().position(|item| item["id"] == after);
        let at = at.ok_or_else(|| Problem::invalid(format!("no item `{after}`")))?;
        items.drain(..=at);
    }
    let limit: Option<usize> = match text("limit").map(str::parse) {
        None => Some(20),
        Some(limit) => limit.ok().filter(|limit| (1..=100).contains(limit)),
    };
    let limit = limit.ok_or_else(|| Problem::invalid("`limit` must be 1 to 100"))?;
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id = |item: Option<&Value>| {
        let id = item.and_then(|item| item["id"].as_str());
        id.map_or(Cow::Borrowed(""), |id| Cow::Owned(id.to_owned()))
    };
    let (first, last) = (id(items.first()), id(items.last()));
    Ok(
        json!({"object": "list", "data": items, "has_more": has_more,
        "first_id": first, "last_id": last}),
    )
}
