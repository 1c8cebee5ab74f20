//! The table of providers: everything that differs between them, apart from the wire format.
//!
//! A new provider is a [`ProviderKind`] with its row in [`ProviderKind::entry`]. A provider with a new
//! JSON format also requires a [`WireFormat`] with a module in `wire`, and one with its own key a
//! [`ProviderAccount`].

/// A provider that a name selects by its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderKind {
    /// A server with `/v1/chat/completions`.
    OpenAi,
    /// A server with `/v1/responses`.
    Responses,
    /// A server with Anthropic Messages.
    Anthropic,
    /// A server with `/v1/completions` and a gpt-oss model.
    Harmony,
    /// A recording.
    Replay,
    /// The last user message.
    Echo,
}

/// The row of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderEntry {
    /// The prefix of model names, without the colon.
    pub prefix: &'static str,
    /// The source of responses.
    pub backend: ProviderBackend,
    /// The text before the address and the model in the identity of a model.
    ///
    /// It keeps cached answers and records of two wire formats apart.
    pub identity_prefix: &'static str,
}

/// The source of a provider's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderBackend {
    /// A server.
    Server {
        /// The protocol of the server.
        protocol: ServerProtocol,
        /// The source of the server's address and key.
        account: &'static ProviderAccount,
    },
    /// A recording; the model name is its path.
    Recording,
    /// The request.
    Echo,
}

/// The protocol of a model server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProtocol {
    /// A JSON wire format ([`HttpProvider`](crate::HttpProvider)).
    Json(WireFormat),
    /// Raw completions of a gpt-oss model ([`HarmonyCompletions`](crate::HarmonyCompletions)).
    Harmony,
}

/// A JSON wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireFormat {
    /// Chat Completions: `POST BASE/chat/completions`.
    Chat,
    /// `OpenAI` Responses: `POST BASE/responses`.
    Responses,
    /// Anthropic Messages: `POST BASE/v1/messages`.
    Anthropic,
}

/// The configuration names and the HTTP headers of a provider's address and key.
///
/// A key belongs to an account and is never sent to the server of another one. `openai:`, `responses:`
/// and `harmony:` share an account with every server that supports their formats.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderAccount {
    /// The name in messages.
    pub name: &'static str,
    /// The default address.
    pub base_url: &'static str,
    /// The environment variables for the address, in order of precedence.
    pub base_url_variables: &'static [&'static str],
    /// The variable that messages suggest for the address.
    pub base_url_variable: &'static str,
    /// The variable for the key that takes precedence over all files.
    pub own_key_variable: Option<&'static str>,
    /// The variable for the key unless a file names another one.
    pub key_variable: &'static str,
    /// The table of a configuration file.
    pub table: &'static str,
    /// The header that carries the key.
    pub key_header: &'static str,
    /// The text before the key in the header.
    pub key_prefix: &'static str,
    /// Further headers of every request.
    pub headers: &'static [(&'static str, &'static str)],
    /// The path segment between the address and `models`, unless the address ends with it.
    pub models_segment: Option<&'static str>,
}

static OPENAI: ProviderAccount = ProviderAccount {
    name: "openai",
    base_url: "https://api.openai.com/v1",
    base_url_variables: &["LOGUE_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"],
    base_url_variable: "OPENAI_BASE_URL",
    own_key_variable: Some("LOGUE_API_KEY"),
    key_variable: "OPENAI_API_KEY",
    table: "model",
    key_header: "authorization",
    key_prefix: "Bearer ",
    headers: &[],
    models_segment: None,
};

static ANTHROPIC: ProviderAccount = ProviderAccount {
    name: "anthropic",
    base_url: "https://api.anthropic.com",
    base_url_variables: &["ANTHROPIC_BASE_URL"],
    base_url_variable: "ANTHROPIC_BASE_URL",
    own_key_variable: None,
    key_variable: "ANTHROPIC_API_KEY",
    table: "model.anthropic",
    key_header: "x-api-key",
    key_prefix: "",
    headers: &[("anthropic-version", "2023-06-01")],
    models_segment: Some("v1"),
};

impl ProviderKind {
    /// All providers.
    pub const ALL: &'static [Self] = &[
        Self::OpenAi,
        Self::Responses,
        Self::Anthropic,
        Self::Harmony,
        Self::Replay,
        Self::Echo,
    ];

    /// The provider of a name without a prefix.
    pub const DEFAULT: Self = Self::OpenAi;

    /// Returns the row of the provider.
    pub const fn entry(self) -> ProviderEntry {
        match self {
            Self::OpenAi => ProviderEntry {
                prefix: "openai",
                backend: json(WireFormat::Chat, &OPENAI),
                // The default format is omitted.
                identity_prefix: "",
            },
            Self::Responses => ProviderEntry {
                prefix: "responses",
                backend: json(WireFormat::Responses, &OPENAI),
                identity_prefix: "responses ",
            },
            Self::Anthropic => ProviderEntry {
                prefix: "anthropic",
                backend: json(WireFormat::Anthropic, &ANTHROPIC),
                identity_prefix: "anthropic ",
            },
            Self::Harmony => ProviderEntry {
                prefix: "harmony",
                backend: ProviderBackend::Server {
                    protocol: ServerProtocol::Harmony,
                    account: &OPENAI,
                },
                identity_prefix: "harmony:",
            },
            Self::Replay => ProviderEntry {
                prefix: "replay",
                backend: ProviderBackend::Recording,
                identity_prefix: "replay:",
            },
            Self::Echo => ProviderEntry {
                prefix: "echo",
                backend: ProviderBackend::Echo,
                identity_prefix: "echo:",
            },
        }
    }

    /// Returns the provider with a prefix.
    pub fn from_prefix(prefix: &str) -> Option<Self> {
        let mut kinds = Self::ALL.iter().copied();
        kinds.find(|kind| kind.entry().prefix == prefix)
    }

    /// Returns the account of the provider's server, if it is a server.
    pub const fn account(self) -> Option<&'static ProviderAccount> {
        match self.entry().backend {
            ProviderBackend::Server { account, .. } => Some(account),
            ProviderBackend::Recording | ProviderBackend::Echo => None,
        }
    }
}

impl ProviderAccount {
    /// All accounts.
    pub const ALL: &'static [&'static Self] = &[Self::OPENAI, Self::ANTHROPIC];

    /// The account of all servers that support a format of `OpenAI`.
    pub const OPENAI: &'static Self = &OPENAI;

    /// The account of Anthropic.
    pub const ANTHROPIC: &'static Self = &ANTHROPIC;

    /// Returns the headers of a request with a key.
    pub fn headers_with_key(&self, key: &str) -> Vec<(String, String)> {
        let further = self.headers.iter();
        let further = further.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        std::iter::once((
            self.key_header.to_owned(),
            format!("{}{key}", self.key_prefix),
        ))
        .chain(further)
        .collect()
    }

    /// Returns the URL below which `models` lists the available models.
    pub fn models_base_url(&self, base_url: &str) -> String {
        let Some(segment) = self.models_segment else {
            return base_url.to_owned();
        };
        let end = base_url.find('?').unwrap_or(base_url.len());
        let (url, query) = base_url.split_at(end);
        let url = url.trim_end_matches('/');
        let parent = url.strip_suffix(segment);
        let parent = parent.and_then(|parent| parent.strip_suffix('/'));
        format!("{}/{segment}{query}", parent.unwrap_or(url))
    }
}

const fn json(format: WireFormat, account: &'static ProviderAccount) -> ProviderBackend {
    ProviderBackend::Server {
        protocol: ServerProtocol::Json(format),
        account,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_selects_one_provider() {
        for kind in ProviderKind::ALL {
            let found = ProviderKind::from_prefix(kind.entry().prefix);
            assert_eq!(found, Some(*kind));
        }
        assert_eq!(ProviderKind::from_prefix("llama3"), None);
    }

    #[test]
    fn identities_tell_providers_apart() {
        let mut prefixes: Vec<_> = ProviderKind::ALL
            .iter()
            .map(|kind| kind.entry().identity_prefix)
            .collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        assert_eq!(prefixes.len(), ProviderKind::ALL.len());
    }

    #[test]
    fn models_are_listed_below_the_segment_of_the_account() {
        let openai = ProviderAccount::OPENAI.models_base_url("http://localhost:8000/v1");
        assert_eq!(openai, "http://localhost:8000/v1");
        for url in ["https://a.test", "https://a.test/", "https://a.test/v1"] {
            let listed = ProviderAccount::ANTHROPIC.models_base_url(url);
            assert_eq!(listed, "https://a.test/v1");
        }
    }
}
