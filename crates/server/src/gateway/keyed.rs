//! Requests that may have an `Idempotency-Key`.
//!
//! The answer to one with a key is kept in memory for a while. Its request runs on when its client
//! leaves, so that the same request, sent again, has the same answer.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderMap;
use logue_model::TokenLogprob;
use serde_json::{Value, json};

use super::exchange::{AnswerParts, Part, reserve, start};
use super::problem::ends;
use super::request::{GatewayRequest, REASONING};
use super::state::Gateway;
use crate::chat::access::Caller;
use crate::chat::api::body;
use crate::chat::extract::single;
use crate::chat::kept_answers::{KeptPart, KeyName};
use crate::chat::problem::Problem;
use crate::chat::request_digest::RequestDigest;
use crate::chat::send::idempotency_key;

/// An answer that arrives, of a running request or of one with the same key.
pub(super) struct BegunAnswer {
    pub(super) id: String,
    /// The time of the request in seconds.
    pub(super) created: u64,
    pub(super) parts: AnswerParts,
}

/// Starts a request, or finds the answer to the same one.
///
/// `id` and `created` are those of a new answer.
///
/// # Errors
/// Returns a problem if the key belongs to another request, or too many requests run.
pub(super) fn begin(
    gateway: &Arc<Gateway>,
    caller: &Caller,
    key: Option<(KeyName, RequestDigest)>,
    (id, created): (String, u64),
    request: GatewayRequest,
) -> Result<BegunAnswer, Problem> {
    let Some((name, digest)) = key else {
        let permit = reserve(gateway, caller)?;
        return Ok(BegunAnswer {
            id,
            created,
            parts: AnswerParts::Running(start(gateway, request, permit)),
        });
    };
    let (answer, running) = gateway.kept.claim(name, (digest, id, created))?;
    if let Some(running) = running {
        let permit = reserve(gateway, caller);
        let permit = permit.inspect_err(|problem| running.push(Part::End(Err(problem.clone()))))?;
        let mut parts = start(gateway, request, permit);
        tokio::spawn(async move {
            while let Some(part) = parts.recv().await {
                running.push(part);
            }
        });
    }
    Ok(BegunAnswer {
        id: answer.id.clone(),
        created: answer.created,
        parts: AnswerParts::Kept(answer.parts()),
    })
}

/// Returns the key of a request with the digest of what it is bound to.
///
/// # Errors
/// Returns a problem if the key is invalid.
pub(super) fn key_of(
    (caller, api): (&Caller, &'static str),
    headers: &HeaderMap,
    bytes: &Bytes,
) -> Result<Option<(KeyName, RequestDigest)>, Problem> {
    let Some(key) = idempotency_key(headers)? else {
        return Ok(None);
    };
    let body = body::<Value>(bytes)?;
    let reasoning = single(headers, REASONING)?;
    let whole = json!({"reasoning": reasoning, "body": body});
    let digest = RequestDigest::with_header("X-Logue-Reasoning", &whole, &body);
    Ok(Some((KeyName::new(caller, api, &key), digest)))
}

impl KeptPart for Part {
    fn cut_off() -> Self {
        Self::End(Err(ends()))
    }

    fn end(&self) -> Option<bool> {
        match self {
            Self::End(end) => Some(end.is_ok()),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        let own = match self {
            Self::Reasoning(text) => text.len(),
            Self::Text(text, tokens) => {
                text.len() + tokens.iter().map(bytes_of_token).sum::<usize>()
            }
            Self::Call {
                id,
                name,
                arguments,
            } => id.len() + name.len() + arguments.len(),
            Self::Between | Self::End(_) => 0,
        };
        size_of::<Self>() + own
    }

    fn from_beginning(received: &[Self]) -> Vec<Self> {
        received.to_vec()
    }
}

fn bytes_of_token(token: &TokenLogprob) -> usize {
    let tokens = std::iter::once(&token.token).chain(&token.alternatives);
    let bytes = tokens.map(|token| size_of_val(token) + token.text.len() + token.bytes.len());
    bytes.sum()
}
