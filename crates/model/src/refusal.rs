//! What a server means when it refuses: its status and its words, sorted into categories by a table.
//!
//! Servers agree on little. The same fault is a status here, a `code` there and only a sentence at a
//! third one, so each row of [`RULES`] may ask for any of them, and the first row that fits decides.
//! A refusal inside of a stream has no status of its own; its `code` may be one.

use serde_json::Value;

use crate::{Category, ProviderError};

/// A refusal as its server puts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status; 0 where there is none.
    pub(crate) status: u16,
    /// The server's names for it (`type`, `code`, …), in lower case.
    pub(crate) names: Vec<String>,
    /// The server's own words, on one line.
    pub(crate) words: String,
}

/// One row: what it asks of a refusal, and what the refusal is then.
struct Rule {
    /// Ranges of statuses; any status and none, if there is no range.
    statuses: &'static [(u16, u16)],
    /// Parts of names and of words in lower case, of which one has to be there if there are any.
    names: &'static [&'static str],
    words: &'static [&'static str],
    category: Category,
    /// Whether the same request may succeed later, where the category would say so.
    again: bool,
    help: &'static str,
}

const NEVER: bool = false;
const AGAIN: bool = true;

/// From the special to the general.
static RULES: &[Rule] = &[
    Rule {
        statuses: &[(402, 402)],
        names: &[],
        words: &[],
        category: Category::RateLimit,
        again: NEVER,
        help: "the account has no credit left; waiting does not help",
    },
    Rule {
        statuses: &[],
        names: &["insufficient_quota", "billing", "insufficient_balance"],
        words: &[],
        category: Category::RateLimit,
        again: NEVER,
        help: "the account has no quota left; waiting does not help",
    },
    Rule {
        statuses: &[(429, 429), (413, 413)],
        names: &[],
        words: &["request too large"],
        category: Category::RateLimit,
        again: NEVER,
        help: "this one request is larger than the limit of a minute; send less of the conversation",
    },
    Rule {
        statuses: &[],
        names: &["context_length_exceeded", "exceed_context_size"],
        words: &[
            "context length",
            "context size",
            "context window",
            "prompt is too long",
        ],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "the conversation is longer than the model can read: leave some of it out, ask for \
               fewer `max_tokens`, or serve the model with a larger context (`logue tokens` counts)",
    },
    Rule {
        statuses: &[(0, 0), (409, 409), (425, 425), (500, 599)],
        names: &["model_not_loaded", "model_loading"],
        words: &["loading", "not loaded", "warming up"],
        category: Category::ModelNotLoaded,
        again: AGAIN,
        help: "the server is still loading the model; run the same command again soon",
    },
    Rule {
        statuses: &[],
        names: &["invalid_image", "unsupported_image"],
        words: &[
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
        again: NEVER,
        help: "the model takes no such pictures: name one that does, or leave the picture out",
    },
    Rule {
        statuses: &[],
        names: &[],
        words: &[
            "does not support tools",
            "support tool use",
            "enable-auto-tool-choice",
        ],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "the model or its server takes no tools: leave the <tool-definition/> elements out, \
               or serve it with tool calls switched on",
    },
    Rule {
        statuses: &[],
        names: &["model_not_found"],
        words: &[
            "model not exist",
            "model not found",
            "not a valid model",
            "unknown model",
            "invalid model name",
            "no endpoints found for",
        ],
        category: Category::InvalidModel,
        again: NEVER,
        help: "name a model that the server has (-m MODEL, or `model` in <config/>)",
    },
    Rule {
        statuses: &[(404, 404)],
        names: &[],
        words: &["model"],
        category: Category::InvalidModel,
        again: NEVER,
        help: "name a model that the server has (-m MODEL, or `model` in <config/>)",
    },
    Rule {
        statuses: &[(403, 403)],
        names: &["content_policy", "moderation"],
        words: &["moderation", "flagged"],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "the server's moderation refuses this conversation; its words above say why",
    },
    Rule {
        statuses: &[(401, 401), (403, 403)],
        names: &[],
        words: &[],
        category: Category::Authentication,
        again: NEVER,
        help: "set OPENAI_API_KEY (or --api-key, or `api_key_env` in logue.toml) to a valid key",
    },
    Rule {
        statuses: &[],
        names: &["invalid_api_key", "authentication", "permission_error"],
        words: &[],
        category: Category::Authentication,
        again: NEVER,
        help: "set OPENAI_API_KEY (or --api-key, or `api_key_env` in logue.toml) to a valid key",
    },
    Rule {
        statuses: &[(429, 429)],
        names: &[],
        words: &[],
        category: Category::RateLimit,
        again: AGAIN,
        help: "wait a moment, then run the same command again",
    },
    Rule {
        statuses: &[],
        names: &["rate_limit", "too_many_requests"],
        words: &[],
        category: Category::RateLimit,
        again: AGAIN,
        help: "wait a moment, then run the same command again",
    },
    Rule {
        statuses: &[],
        names: &[],
        words: &["requires more system memory"],
        category: Category::Unavailable,
        again: NEVER,
        help: "the server's machine has too little memory for this model; name a smaller one",
    },
    Rule {
        statuses: &[],
        names: &["overloaded", "server_busy"],
        words: &[],
        category: Category::Unavailable,
        again: AGAIN,
        help: "the server has too much to do; run the same command again",
    },
    Rule {
        statuses: &[(404, 405)],
        names: &[],
        words: &[],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "check the base URL: it should end where `/chat/completions` is added, often `/v1`",
    },
    Rule {
        statuses: &[(413, 413)],
        names: &[],
        words: &[],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "the request has too many bytes for the server: send smaller pictures or documents",
    },
    Rule {
        statuses: &[(501, 501)],
        names: &[],
        words: &[],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "the server cannot do what was asked for; its words above say what",
    },
    Rule {
        statuses: &[(408, 408), (425, 425), (500, 599)],
        names: &[],
        words: &[],
        category: Category::Unavailable,
        again: AGAIN,
        help: "the fault is the server's; run the same command again",
    },
    Rule {
        statuses: &[(300, 399)],
        names: &[],
        words: &[],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "the server redirects; set the base URL to where it leads",
    },
    Rule {
        statuses: &[(1, 999)],
        names: &[],
        words: &[],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "the server does not accept this request; its words above say why",
    },
    Rule {
        statuses: &[],
        names: &["invalid_request"],
        words: &[],
        category: Category::InvalidRequest,
        again: NEVER,
        help: "the server does not accept this request; its words above say why",
    },
];

/// The row for what no other one fits: a stream that was accepted and then failed.
static IN_STREAM: Rule = Rule {
    statuses: &[],
    names: &[],
    words: &[],
    category: Category::Unavailable,
    again: AGAIN,
    help: "the stream was accepted and then failed; run the same command again",
};

impl Rule {
    fn fits(&self, refusal: &Refusal, words: &str) -> bool {
        let within = |(first, last): &(u16, u16)| (*first..=*last).contains(&refusal.status);
        if !self.statuses.is_empty() && !self.statuses.iter().any(within) {
            return false;
        }
        let named = |part: &&str| refusal.names.iter().any(|name| name.contains(part));
        let said = |part: &&str| words.contains(part);
        (self.names.is_empty() && self.words.is_empty())
            || self.names.iter().any(named)
            || self.words.iter().any(said)
    }
}

impl Refusal {
    /// The refusal of an answer whose status is none of success.
    pub(crate) fn of_answer(status: u16, body: &str) -> Self {
        let parsed: Option<Value> = serde_json::from_str(body).ok();
        let mut refusal = match &parsed {
            Some(value) => Self::of_json(value),
            None => Self::default(),
        };
        if refusal.words.is_empty() {
            refusal.words = one_line(body);
        }
        refusal.status = status;
        refusal
    }

    /// The refusal that an event of a stream is, or the `error` in it.
    pub(crate) fn of_event(event: &Value) -> Self {
        let mut refusal = Self::of_json(event);
        let error = event.get("error").unwrap_or(event);
        let code = ["code", "status"].iter().find_map(|key| {
            let code = error.get(key)?.as_u64()?;
            u16::try_from(code)
                .ok()
                .filter(|code| (400..600).contains(code))
        });
        refusal.status = code.unwrap_or_default();
        refusal
    }

    fn of_json(value: &Value) -> Self {
        let error = value.get("error").filter(|error| !error.is_null());
        let error = error.unwrap_or(value);
        let text = |key: &str| error.get(key).and_then(Value::as_str);
        let words = text("message")
            .or_else(|| value.get("message").and_then(Value::as_str))
            .or_else(|| value.get("detail").and_then(Value::as_str))
            .or_else(|| value.pointer("/detail/0/msg").and_then(Value::as_str))
            .or_else(|| error.as_str())
            .unwrap_or_default();
        // A server in front of others passes on what the one behind it said.
        let behind = error.pointer("/metadata/raw").and_then(Value::as_str);
        let words = match behind {
            Some(behind) => format!("{words}: {behind}"),
            None => words.to_owned(),
        };
        let names = ["type", "code", "status"]
            .iter()
            .filter_map(|key| text(key));
        Self {
            status: 0,
            names: names.map(str::to_ascii_lowercase).collect(),
            words: one_line(&words),
        }
    }

    /// The error that it is, whose message is `opening` and the server's words.
    pub(crate) fn into_error(self, opening: &str) -> ProviderError {
        let words = self.words.to_lowercase();
        let rule = RULES.iter().find(|rule| rule.fits(&self, &words));
        let rule = rule.unwrap_or(&IN_STREAM);
        let message = match (opening, self.words.as_str()) {
            (opening, "") => opening.to_owned(),
            ("", words) => words.to_owned(),
            (opening, words) => format!("{opening}: {words}"),
        };
        let mut error = ProviderError::new(rule.category, message).with_help(rule.help);
        error.transient &= rule.again;
        error
    }
}

/// Words on one line, and not too many of them.
fn one_line(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words.join(" ");
    match words.char_indices().nth(400) {
        Some((at, _)) => format!("{}…", words.get(..at).unwrap_or_default()),
        None => words,
    }
}
