//! Where servers of one wire format differ, as data.

/// What a server calls things, where servers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// The original: knows the `developer` role and counts `max_completion_tokens`.
    OpenAi,
    /// The many servers that speak the format as it was: `system` and `max_tokens`.
    Compatible,
}

impl Dialect {
    /// The dialect to expect at a base URL.
    pub fn of(base_url: &str) -> Self {
        let host = base_url.split("://").nth(1).unwrap_or(base_url);
        let host = host.split(['/', ':']).next().unwrap_or(host);
        if host == "api.openai.com" {
            Self::OpenAi
        } else {
            Self::Compatible
        }
    }

    /// The name that telemetry knows the servers by.
    pub(crate) const fn provider_name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Compatible => "openai_compatible",
        }
    }

    pub(crate) const fn knows_developer(self) -> bool {
        matches!(self, Self::OpenAi)
    }

    pub(crate) const fn max_tokens_field(self) -> &'static str {
        match self {
            Self::OpenAi => "max_completion_tokens",
            Self::Compatible => "max_tokens",
        }
    }
}
