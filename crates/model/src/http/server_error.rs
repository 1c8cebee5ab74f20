//! Classification of server errors by a table of statuses, codes and phrases.
//!
//! Servers report one condition as a status, as a `code` or only as a sentence. Each row of [`RULES`]
//! may therefore match any of them, and the first matching row decides. An error inside a stream has
//! no status; its `code` may be one.

use serde_json::Value;

use crate::{Category, ProviderError};

/// An error as the server reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerError {
    /// The HTTP status, or 0 if there is none.
    pub(crate) status: u16,
    /// The identifiers of the error (`type`, `code`, …) in lower case.
    pub(crate) names: Vec<String>,
    /// The error text on one line.
    pub(crate) text: String,
}

/// One row of the table: conditions and the resulting classification.
struct Rule {
    /// The ranges of statuses; an empty list matches every status.
    statuses: &'static [(u16, u16)],
    /// The parts of identifiers in lower case.
    ///
    /// One part of `names` or `phrases` must occur, unless both lists are empty.
    names: &'static [&'static str],
    /// The parts of the error text in lower case.
    phrases: &'static [&'static str],
    category: Category,
    /// Whether a transient category is transient for this error.
    is_transient: bool,
    help: &'static str,
}

/// The identifier of a conversation that exceeds the context of the model.
const CONTEXT: &str = "context_length_exceeded";

/// The classification table, from specific to general.
static RULES: &[Rule] = &[
    Rule {
        statuses: &[(402, 402)],
        names: &[],
        phrases: &[],
        category: Category::RateLimit,
        is_transient: false,
        help: "the account has no credit left; waiting does not help",
    },
    Rule {
        statuses: &[],
        names: &["insufficient_quota", "billing", "insufficient_balance"],
        phrases: &[],
        category: Category::RateLimit,
        is_transient: false,
        help: "the account has no quota left; waiting does not help",
    },
    Rule {
        statuses: &[(429, 429), (413, 413)],
        names: &[],
        phrases: &["request too large"],
        category: Category::RateLimit,
        is_transient: false,
        help: "send a shorter conversation; this request exceeds the limit per minute",
    },
    Rule {
        statuses: &[],
        names: &[CONTEXT, "exceed_context_size"],
        phrases: &[
            "context length",
            "context size",
            "context window",
            "prompt is too long",
        ],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "shorten the conversation, lower `max_tokens`, or serve the model with a larger context \
               (`logue tokens` counts)",
    },
    Rule {
        statuses: &[(0, 0), (409, 409), (425, 425), (500, 599)],
        names: &["model_not_loaded", "model_loading"],
        phrases: &["loading", "not loaded", "warming up"],
        category: Category::ModelNotLoaded,
        is_transient: true,
        help: "the server is still loading the model; run the same command again soon",
    },
    Rule {
        statuses: &[],
        names: &["invalid_image", "unsupported_image"],
        phrases: &[
            "image input is not supported",
            "support image input",
            "does not support image",
            "not support images",
            "image_url is only supported",
            "not a multimodal model",
            "at most 0 image",
            "unsupported image",
        ],
        category: Category::UnsupportedContentBlock,
        is_transient: false,
        help: "use a model that supports such images, or remove the image",
    },
    Rule {
        statuses: &[],
        names: &[],
        phrases: &[
            "does not support tools",
            "support tool use",
            "enable-auto-tool-choice",
        ],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "remove the <tool-definition/> elements, or enable tool calls on the server",
    },
    Rule {
        statuses: &[],
        names: &["model_not_found"],
        phrases: &[
            "model not exist",
            "model not found",
            "not a valid model",
            "unknown model",
            "invalid model name",
            "no endpoints found for",
        ],
        category: Category::InvalidModel,
        is_transient: false,
        help: "use a model that the server has (-m MODEL, or `model` in <config/>)",
    },
    Rule {
        statuses: &[(404, 404)],
        names: &[],
        phrases: &["model"],
        category: Category::InvalidModel,
        is_transient: false,
        help: "use a model that the server has (-m MODEL, or `model` in <config/>)",
    },
    Rule {
        statuses: &[(403, 403)],
        names: &["content_policy", "moderation"],
        phrases: &["moderation", "flagged"],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "change the conversation; the server's moderation rejects it for the reason above",
    },
    Rule {
        statuses: &[(401, 401), (403, 403)],
        names: &[],
        phrases: &[],
        category: Category::Authentication,
        is_transient: false,
        help: "set OPENAI_API_KEY (or --api-key, or `api_key_env` in logue.toml) to a valid key",
    },
    Rule {
        statuses: &[],
        names: &["invalid_api_key", "authentication", "permission_error"],
        phrases: &[],
        category: Category::Authentication,
        is_transient: false,
        help: "set OPENAI_API_KEY (or --api-key, or `api_key_env` in logue.toml) to a valid key",
    },
    Rule {
        statuses: &[(429, 429)],
        names: &[],
        phrases: &[],
        category: Category::RateLimit,
        is_transient: true,
        help: "wait a few seconds, then run the same command again",
    },
    Rule {
        statuses: &[],
        names: &["rate_limit", "too_many_requests"],
        phrases: &[],
        category: Category::RateLimit,
        is_transient: true,
        help: "wait a few seconds, then run the same command again",
    },
    Rule {
        statuses: &[],
        names: &[],
        phrases: &["requires more system memory"],
        category: Category::Unavailable,
        is_transient: false,
        help: "use a smaller model; the server has too little memory for this one",
    },
    Rule {
        statuses: &[],
        names: &["overloaded", "server_busy"],
        phrases: &[],
        category: Category::Unavailable,
        is_transient: true,
        help: "the server is overloaded; run the same command again",
    },
    Rule {
        statuses: &[(404, 405)],
        names: &[],
        phrases: &[],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "check the base URL (often `/v1`); `/chat/completions` is appended to it",
    },
    Rule {
        statuses: &[(413, 413)],
        names: &[],
        phrases: &[],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "send smaller images or documents; the request is too large for the server",
    },
    Rule {
        statuses: &[(501, 501)],
        names: &[],
        phrases: &[],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "change the request; the server does not support the feature named above",
    },
    Rule {
        statuses: &[(408, 408), (425, 425), (500, 599)],
        names: &[],
        phrases: &[],
        category: Category::Unavailable,
        is_transient: true,
        help: "the server failed; run the same command again",
    },
    Rule {
        statuses: &[(300, 399)],
        names: &[],
        phrases: &[],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "the server redirects; set the base URL to the target",
    },
    Rule {
        statuses: &[(1, 999)],
        names: &[],
        phrases: &[],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "change the request; the server rejects it for the reason above",
    },
    Rule {
        statuses: &[],
        names: &["invalid_request", "invalid_prompt"],
        phrases: &[],
        category: Category::InvalidRequest,
        is_transient: false,
        help: "change the request; the server rejects it for the reason above",
    },
];

/// The row for an error inside a stream that no other row matches.
static IN_STREAM: Rule = Rule {
    statuses: &[],
    names: &[],
    phrases: &[],
    category: Category::Unavailable,
    is_transient: true,
    help: "the stream was accepted and then failed; run the same command again",
};

impl Rule {
    fn matches(&self, error: &ServerError, text: &str) -> bool {
        let within = |(first, last): &(u16, u16)| (*first..=*last).contains(&error.status);
        if !self.statuses.is_empty() && !self.statuses.iter().any(within) {
            return false;
        }
        let is_named = |part: &&str| error.names.iter().any(|name| name.contains(part));
        let is_mentioned = |part: &&str| text.contains(part);
        (self.names.is_empty() && self.phrases.is_empty())
            || self.names.iter().any(is_named)
            || self.phrases.iter().any(is_mentioned)
    }
}

impl ServerError {
    /// Reads the error of a response with an error status.
    pub(crate) fn from_response(status: u16, body: &str) -> Self {
        let parsed: Option<Value> = serde_json::from_str(body).ok();
        let mut error = match &parsed {
            Some(value) => Self::from_json(value),
            None => Self::default(),
        };
        if error.text.is_empty() {
            error.text = one_line(body);
        }
        error.status = status;
        error
    }

    /// Reads the error of a stream event, or of its `error` field.
    pub(crate) fn from_event(event: &Value) -> Self {
        let mut error = Self::from_json(event);
        let fields = event.get("error").unwrap_or(event);
        let code = ["code", "status"].iter().find_map(|key| {
            let code = fields.get(key)?.as_u64()?;
            u16::try_from(code)
                .ok()
                .filter(|code| (400..600).contains(code))
        });
        error.status = code.unwrap_or_default();
        error
    }

    fn from_json(value: &Value) -> Self {
        let error = value.get("error").filter(|error| !error.is_null());
        let error = error.unwrap_or(value);
        let field = |key: &str| error.get(key).and_then(Value::as_str);
        let text = field("message")
            .or_else(|| value.get("message").and_then(Value::as_str))
            .or_else(|| value.get("detail").and_then(Value::as_str))
            .or_else(|| value.pointer("/detail/0/msg").and_then(Value::as_str))
            .or_else(|| error.as_str())
            .unwrap_or_default();
        // A gateway passes on the error of its upstream server.
        let upstream = error.pointer("/metadata/raw").and_then(Value::as_str);
        let text = match upstream {
            Some(upstream) => format!("{text}: {upstream}"),
            None => text.to_owned(),
        };
        let names = ["type", "code", "status"]
            .iter()
            .filter_map(|key| field(key));
        Self {
            status: 0,
            names: names.map(str::to_ascii_lowercase).collect(),
            text: one_line(&text),
        }
    }

    /// Converts the error; the message is `opening` and the error text.
    pub(crate) fn into_error(self, opening: &str) -> ProviderError {
        let text = self.text.to_lowercase();
        let rule = RULES.iter().find(|rule| rule.matches(&self, &text));
        let rule = rule.unwrap_or(&IN_STREAM);
        let message = match (opening, self.text.as_str()) {
            (opening, "") => opening.to_owned(),
            ("", text) => text.to_owned(),
            (opening, text) => format!("{opening}: {text}"),
        };
        let public = self.public(rule);
        let mut error = ProviderError::new(rule.category, message)
            .with_help(rule.help)
            .with_public(public);
        error.transient &= rule.is_transient;
        error
    }
}

impl ServerError {
    /// Returns the cause without the error text.
    fn public(&self, rule: &Rule) -> String {
        let reported = match self.status {
            0 => "the model server reported an error".to_owned(),
            status => format!("the model server answered with the status {status}"),
        };
        let cause = match rule.category {
            _ if rule.names.contains(&CONTEXT) => {
                "the conversation exceeds the context of the model; shorten it, or lower the limit of output tokens"
            }
            Category::InvalidModel => "it does not have the model",
            Category::ModelNotLoaded => "it is still loading the model",
            _ => return reported,
        };
        format!("{reported}: {cause}")
    }
}

/// Joins the lines of a text and truncates it to the words in 400 characters.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(400) {
        Some((at, _)) => {
            let kept = text.get(..at).unwrap_or_default();
            let whole = logue_source::whole_words(kept.as_bytes());
            format!("{}…", kept.get(..whole).unwrap_or_default())
        }
        None => text,
    }
}
