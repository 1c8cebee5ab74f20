//! Sessions as files: their visible messages in a form that other programs read.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use logue_agent::is_pending;
use logue_harness::store::current_history;
use logue_message::ChatMessage;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::access::{Caller, TokenScope};
use super::super::api::{Api, require};
use super::super::extract::{PathOf, QueryOf};
use super::super::host::ExportForm;
use super::super::problem::Problem;
use super::super::visible::visible_message;

/// The messages that are read at once.
const PAGE: usize = 500;
/// The most bytes of stored messages of an export.
const MAX_BYTES: usize = 64 << 20;
/// The most characters of a file's name.
const NAME: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportQuery {
    #[serde(default)]
    form: FileForm,
}

/// The form of an exported session.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileForm {
    #[default]
    Json,
    Chatmd,
    Openchatml,
}

/// `GET /v1/sessions/{session}/export`
pub(crate) async fn export(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
    QueryOf(query): QueryOf<ExportQuery>,
) -> Result<Response, Problem> {
    require(&caller, TokenScope::Read)?;
    let (info, _) = api.session(&caller, &session).await?;
    let messages = messages(&api, &session, info.seq).await?;
    let (form, kind, ending) = match query.form {
        FileForm::Json => (None, "application/json", "json"),
        FileForm::Chatmd => (
            Some(ExportForm::ChatMd),
            "text/markdown; charset=utf-8",
            "md",
        ),
        FileForm::Openchatml => (
            Some(ExportForm::OpenChatMl),
            "text/plain; charset=utf-8",
            "ocml",
        ),
    };
    let text = match form {
        None => {
            let messages: Vec<Value> = messages.iter().map(ChatMessage::to_json).collect();
            format!("{}\n", json!({ "messages": messages }))
        }
        Some(form) => {
            let host = Arc::clone(&api.turns.host);
            // A long conversation takes a while.
            let written = tokio::task::spawn_blocking(move || host.write_messages(&messages, form));
            written.await.map_err(|_| Problem::server_ends())??
        }
    };
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let name = format!("attachment; filename=\"{}.{ending}\"", file_name(&session));
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Returns the visible messages of a session, without those that only list pending calls.
async fn messages(api: &Api, session: &str, end: u64) -> Result<Vec<ChatMessage>, Problem> {
    let mut messages = Vec::new();
    let (mut at, mut bytes) = (0, 0);
    while at < end {
        let stored = current_history(&**api.store(), session, at, PAGE).await?;
        if stored.is_empty() {
            break;
        }
        at += stored.len() as u64;
        for message in stored {
            bytes += message.to_string().len();
            // A message that is superseded or cannot be read is hidden.
            let message = ChatMessage::from_json(&message).ok();
            let message = message.filter(|message| !is_pending(message));
            messages.extend(message.as_ref().and_then(visible_message));
        }
        if bytes > MAX_BYTES {
            let problem = Problem::invalid("the session is too large to export over HTTP");
            return Err(problem.with_help("run `logue sessions export` on the server"));
        }
    }
    Ok(messages)
}

/// Returns the id of a session as the name of a file.
fn file_name(session: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    session.chars().take(NAME).map(allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_has_harmless_characters() {
        assert_eq!(file_name("a-1"), "a-1");
        assert_eq!(file_name("../a\"\r\nb"), "___a___b");
        assert_eq!(file_name(&"x".repeat(200)).len(), NAME);
    }
}
