//! Conversations: sessions that requests name.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use logue_agent::is_pending;
use logue_harness::store::{SessionFork, SessionInfo, current_history};
use logue_message::{ChatMessage, Role};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::input::parse_items;
use super::items::{blocks, call_item, input_item, message_item};
use super::parameters;
use super::place::{own_conversation, record_conversation};
use super::request::metadata;
use super::stored::page;
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::{Api, body, require};
use crate::chat::completions::OpenAiError;
use crate::chat::owner::record_owner;
use crate::chat::problem::Problem;
use crate::chat::route_table::RouteTable;
use crate::chat::visible::visible_message;

/// The label with the metadata of a conversation.
const METADATA: &str = "metadata";
/// The number of messages that a list of items reads.
const MESSAGES: usize = 10_000;

#[derive(Default, Deserialize)]
struct ConversationBody {
    #[serde(default)]
    items: Option<Vec<Value>>,
    #[serde(default)]
    metadata: Option<Value>,
}

pub(super) fn add_routes(table: RouteTable) -> RouteTable {
    table
        .post("/v1/conversations", create)
        .get("/v1/conversations/{conversation}", retrieve)
        .delete("/v1/conversations/{conversation}", remove)
        .get("/v1/conversations/{conversation}/items", items)
}

/// `POST /v1/conversations`
async fn create(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    bytes: Bytes,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Send)?;
    let request: ConversationBody = body(&bytes)?;
    let metadata = metadata(request.metadata.as_ref())?;
    let messages = parse_items(&request.items.unwrap_or_default())?;
    let id = format!("conv_{}", api.turns.ids.new_id());
    let (store, now) = (api.store(), api.turns.clock.now());
    if !messages.is_empty() {
        let source = api.turns.ids.new_id();
        store.set_label(&source, "seed", json!(true), now).await?;
        let mut fork = SessionFork::new(0, &id, now);
        fork.messages = messages.iter().map(ChatMessage::to_json).collect();
        let forked = store.fork(&source, fork).await;
        store.delete(&source).await?;
        forked?;
    }
    record_conversation(&api, &id).await?;
    record_owner(&api, &caller, &id).await?;
    if !metadata.is_empty() {
        store.set_label(&id, METADATA, json!(metadata), now).await?;
    }
    let info = own_conversation(&api, &caller, &id).await?;
    Ok(Json(shown(&info)).into_response())
}

/// `GET /v1/conversations/{conversation}`
async fn retrieve(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    let info = own_conversation(&api, &caller, &id).await?;
    Ok(Json(shown(&info)).into_response())
}

/// `DELETE /v1/conversations/{conversation}`
async fn remove(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Send)?;
    let info = own_conversation(&api, &caller, &id).await?;
    if info.pending > 0 {
        let detail = format!("a response in `{id}` has not ended");
        let problem = Problem::new(StatusCode::CONFLICT, "session_busy", detail);
        return Err(problem.with_help("cancel it first").into());
    }
    api.remove_session(&id).await?;
    let body = json!({"id": id, "object": "conversation.deleted", "deleted": true});
    Ok(Json(body).into_response())
}

/// `GET /v1/conversations/{conversation}/items`
async fn items(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    let query = parameters(&uri)?;
    let info = own_conversation(&api, &caller, &id).await?;
    let from = info.seq.saturating_sub(MESSAGES as u64);
    let stored = current_history(&**api.store(), &id, from, MESSAGES).await?;
    Ok(Json(page(items_of(&id, from, &stored), &query)?).into_response())
}

/// Returns the messages of a history as items.
fn items_of(conversation: &str, from: u64, stored: &[Value]) -> Vec<Value> {
    let mut items = Vec::new();
    let mut calls = Vec::new();
    for (position, message) in (from..).zip(stored) {
        let message = ChatMessage::from_json(message).ok();
        let Some(message) = message.as_ref().and_then(visible_message) else {
            continue;
        };
        let suffix = format!("{conversation}_{position}");
        let id = format!("msg_{suffix}");
        match message.role {
            Role::User => items.push(input_item(&id, &blocks(&message.content))),
            Role::Assistant if !is_pending(&message) => {
                let text = message.text();
                if !text.is_empty() {
                    items.push(message_item(&id, &text, "completed"));
                }
                calls.extend(message.tool_calls);
            }
            Role::Tool => {
                let own = message.tool_call_id.as_deref().unwrap_or_default();
                if let Some(call) = calls.iter().rev().find(|call| call.id == own) {
                    let of_call = (own, call.name.as_str(), call.arguments.as_str());
                    items.push(call_item(&suffix, of_call, Some(&message.text())));
                }
            }
            _ => {}
        }
    }
    items
}

fn shown(info: &SessionInfo) -> Value {
    let metadata = info.labels.get(METADATA).cloned();
    json!({"id": info.session, "object": "conversation",
        "created_at": info.created_at.0 / 1_000,
        "metadata": metadata.unwrap_or_else(|| Value::Object(Map::new()))})
}
