//! What a server says went wrong, in whichever shape it says so.
//!
//! An error stands in the body of a failed request or in the middle of a stream. Its shape differs
//! from server to server: `{"error": {"type", "code", "message"}}` is the common one; Ollama writes
//! `{"error": "…"}`, vLLM `{"object": "error", "message", "type", "code"}`, others `{"detail": "…"}`.
//! The words in it say more than the status does, so they are looked at first; a status alone decides
//! where there are none.

use serde_json::Value;

use crate::Category;

/// One error of a server, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    /// The machine-readable words of it (`type` and `code`), lower case, with a space between.
    words: String,
    /// Whether it says that the parameter `model` is at fault.
    of_model: bool,
    /// A status that stands in it as a number.
    status: Option<u16>,
    /// What it says to a person, on one line; empty if it says nothing.
    pub(crate) message: String,
}

/// Words that name a category by themselves, in the order in which they are looked for.
const WORDS: &[(&str, Category)] = &[
    ("model_not_found", Category::InvalidModel),
    ("context_length_exceeded", Category::InvalidRequest),
    ("insufficient_quota", Category::RateLimit),
    ("billing_error", Category::RateLimit),
    ("rate_limit", Category::RateLimit),
    ("too_many_requests", Category::RateLimit),
    ("overloaded", Category::Unavailable),
    ("authentication", Category::Authentication),
    ("permission", Category::Authentication),
    ("invalid_api_key", Category::Authentication),
    ("server_error", Category::Unavailable),
    ("server_is_overloaded", Category::Unavailable),
    ("timeout", Category::Unavailable),
    ("request_too_large", Category::InvalidRequest),
    ("exceed_context_size", Category::InvalidRequest),
    ("invalid_image", Category::InvalidRequest),
    ("invalid_prompt", Category::InvalidRequest),
];

impl Complaint {
    /// The complaint in a body, which need not be JSON.
    pub(crate) fn of_body(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value @ Value::Object(_)) => Self::of(&value),
            Ok(Value::Array(list)) => list.first().map(Self::of).unwrap_or_default(),
            _ => Self {
                message: one_line(body),
                ..Self::default()
            },
        }
    }

    /// The complaint in a JSON value: the error itself, or what holds it under `error`.
    pub(crate) fn of(value: &Value) -> Self {
        let error = value
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(value);
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = error
            .get("message")
            .or_else(|| error.get("detail"))
            .or_else(|| value.get("detail"));
        let message = match message {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => match error {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
            Some(other) => other.to_string(),
        };
        let status = error.get("code").or_else(|| error.get("status"));
        Self {
            words: format!("{} {}", word("type"), word("code")).to_ascii_lowercase(),
            of_model: word("param") == "model",
            status: status
                .and_then(Value::as_u64)
                .and_then(|status| u16::try_from(status).ok()),
            message: one_line(&message),
        }
    }

    /// The category of the error, where `status` is the one of the answer that held it; `None` for
    /// one in the middle of a stream.
    pub(crate) fn category(&self, status: Option<u16>) -> Category {
        let said = self.message.to_ascii_lowercase();
        let of_words = WORDS
            .iter()
            .find(|(word, _)| self.words.contains(word))
            .map(|(_, category)| *category);
        let status = status.or(self.status);
        match (status, of_words) {
            (Some(503), _) if said.contains("loading") => Category::ModelNotLoaded,
            // A status that speaks for itself is not argued with.
            (Some(401 | 403), _) => Category::Authentication,
            (Some(402 | 429), _) => Category::RateLimit,
            (_, Some(category)) => category,
            (Some(404), None) if said.contains("model") => Category::InvalidModel,
            (Some(400 | 422), None) if self.means_model(&said) => Category::InvalidModel,
            (Some(408 | 425 | 500..=599), None) => Category::Unavailable,
            (Some(_), None) => Category::InvalidRequest,
            (None, None) if self.words.contains("invalid_request") => Category::InvalidRequest,
            (None, None) if self.words.contains("not_found") => Category::InvalidRequest,
            (None, None) => Category::Unavailable,
        }
    }

    /// Whether an error without a word of its own says that the model is not there.
    fn means_model(&self, said: &str) -> bool {
        let absent = [
            "not found",
            "not exist",
            "not a valid model",
            "unknown model",
        ];
        self.of_model || (said.contains("model") && absent.iter().any(|words| said.contains(words)))
    }
}

/// Words on one line, cut where nobody reads on.
fn one_line(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words.join(" ");
    match words.char_indices().nth(400) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}
