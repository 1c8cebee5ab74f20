//! Detection of a model server: its availability, software and models.
//!
//! A probe sends no request to a model, so it costs nothing. Every server supports the list of models.
//! The software is identified by that list, a header or a specific address next to the base URL.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, SERVER};
use reqwest::{Client, Response, Url};
use serde_json::Value;

use crate::http::{
    HttpLimits, create_client, next_bytes, parse_base_url, redact, redacted_base_url, send,
};
use crate::{Category, ProviderError};

/// The result of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// The software and its version, if detected.
    pub software: Option<String>,
    /// The models in the order of the server's list.
    pub models: Vec<ListedModel>,
}

/// A model in the list of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedModel {
    /// The name in requests.
    pub name: String,
    /// The size of the context in tokens, if the server states it.
    pub context_tokens: Option<u64>,
}

/// The JSON pointers to the size of the context, in order of precedence.
///
/// `OpenRouter`, vLLM, Groq, LM Studio and Mistral, Anthropic, and llama.cpp use them.
const CONTEXT_FIELDS: &[&str] = &[
    "/context_length",
    "/max_model_len",
    "/context_window",
    "/max_context_length",
    "/max_input_tokens",
    "/meta/n_ctx",
    "/meta/n_ctx_train",
];

impl ListedModel {
    fn from_json(entry: &Value) -> Option<Self> {
        let name = entry.get("id").or_else(|| entry.get("name"))?;
        let mut sizes = CONTEXT_FIELDS
            .iter()
            .filter_map(|field| entry.pointer(field));
        Some(Self {
            name: name.as_str()?.to_owned(),
            context_tokens: sizes.find_map(Value::as_u64).filter(|size| *size > 0),
        })
    }
}

/// The address of a server and the parameters of a probe.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerProbe {
    /// The base URL, to which `/models` is appended.
    pub base_url: String,
    /// The request headers, such as the one with the key; their values are never shown.
    pub headers: Vec<(String, String)>,
    /// The time limit of one request.
    pub timeout: Duration,
}

impl std::fmt::Debug for ServerProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ServerProbe")
            .field("base_url", &self.base_url)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

impl ServerProbe {
    /// Creates a probe of a server without headers.
    ///
    /// The time limit is 10 seconds.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
        }
    }

    /// Sets the request headers.
    #[must_use]
    pub fn with_headers(mut self, headers: Vec<(String, String)>) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the time limit of one request.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Checks that the base URL is one that a provider accepts, without a request.
    ///
    /// # Errors
    /// Returns an error if the base URL is not an HTTP URL.
    pub fn check_address(&self) -> Result<(), ProviderError> {
        self.url("/models").map(drop)
    }

    /// Requests the list of models and detects the software.
    ///
    /// # Errors
    /// Returns an error if the server is unreachable, rejects the key or does not return a list of
    /// models. The categories are those of a model request.
    pub async fn ask(&self) -> Result<ServerReport, ProviderError> {
        self.detect().await.map_err(|error| self.redact(error))
    }

    /// Requests only the list of models.
    ///
    /// # Errors
    /// Returns an error under the conditions of [`ask`](Self::ask).
    pub async fn models(&self) -> Result<Vec<ListedModel>, ProviderError> {
        let limits = self.limits();
        let listed = async { self.list(&create_client(&limits)?, &limits).await };
        let (_, entries) = listed.await.map_err(|error| self.redact(error))?;
        Ok(entries.iter().filter_map(ListedModel::from_json).collect())
    }

    fn redact(&self, error: ProviderError) -> ProviderError {
        let url = Url::parse(&self.base_url).ok();
        let password = url.as_ref().and_then(Url::password);
        // A query may contain a key.
        let query = url.as_ref().and_then(Url::query);
        let values = self.headers.iter().map(|(_, value)| value.as_str());
        // A header value is a scheme and a key.
        let words = values.flat_map(|value| value.split(' '));
        redact(
            error,
            words
                .filter(|word| *word != "Bearer")
                .chain(password)
                .chain(query),
        )
    }

    fn limits(&self) -> HttpLimits {
        HttpLimits {
            connect: self.timeout,
            first_byte: self.timeout,
            idle: self.timeout,
            ..HttpLimits::default()
        }
    }

    /// Requests the entries of the list of models.
    async fn list(
        &self,
        client: &Client,
        limits: &HttpLimits,
    ) -> Result<(HeaderMap, Vec<Value>), ProviderError> {
        let url = self.url("/models")?;
        let (headers, mut list) = self.get(client, &url, limits).await?;
        let entries = ["data", "models"]
            .iter()
            .find_map(|key| list.get_mut(*key).map(Value::take));
        match entries {
            Some(Value::Array(entries)) => Ok((headers, entries)),
            _ => Err(ProviderError::new(
                Category::InvalidResponse,
                format!("{url} did not return a list of models"),
            )
            .with_help("check the base URL; it often ends in `/v1`")),
        }
    }

    async fn detect(&self) -> Result<ServerReport, ProviderError> {
        let limits = self.limits();
        let client = create_client(&limits)?;
        let (headers, entries) = self.list(&client, &limits).await?;
        let models = entries.iter().filter_map(ListedModel::from_json).collect();
        let mut software = from_header(&headers).or_else(|| from_list(&entries));
        for VersionSource { path, field, name } in VERSION_SOURCES {
            if software.as_deref().is_some_and(|known| known != *name) {
                continue;
            }
            if let Some(version) = self.version(&client, path, field, &limits).await {
                software = Some(format!("{name} {version}").trim_end().to_owned());
                break;
            }
        }
        Ok(ServerReport { software, models })
    }

    /// Returns the URL of a path below the base URL, whose query it keeps.
    fn url(&self, path: &str) -> Result<Url, ProviderError> {
        let url = parse_base_url(&self.base_url).map(|mut url| {
            let path = format!("{}{path}", url.path().trim_end_matches('/'));
            url.set_path(&path);
            url
        });
        url.map_err(|error| {
            ProviderError::new(
                Category::InvalidRequest,
                format!(
                    "invalid base URL `{}`: {error}",
                    redacted_base_url(&self.base_url)
                ),
            )
            .with_help("check the base URL (--base-url, OPENAI_BASE_URL or logue.toml)")
        })
    }

    /// Returns the version of a server of one kind, or `None` for other servers.
    async fn version(
        &self,
        client: &Client,
        path: &str,
        field: &str,
        limits: &HttpLimits,
    ) -> Option<String> {
        let mut url = self.url("").ok()?;
        url.set_path(path);
        url.set_query(None);
        let (_, answer) = self.get(client, &url, limits).await.ok()?;
        let version = answer.pointer(field)?;
        let version = version.as_str().unwrap_or_default();
        Some(version.chars().take(40).collect())
    }

    async fn get(
        &self,
        client: &Client,
        url: &Url,
        limits: &HttpLimits,
    ) -> Result<(HeaderMap, Value), ProviderError> {
        let mut request = client.get(url.clone()).header(ACCEPT, "application/json");
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| invalid_key())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| invalid_key())?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let mut response = send(request, url, limits).await?;
        let headers = response.headers().clone();
        let body = body(&mut response, limits).await?;
        let value = serde_json::from_slice(&body).map_err(|error| {
            ProviderError::new(
                Category::InvalidResponse,
                format!("{url} returned invalid JSON: {error}"),
            )
            .with_help("check the base URL; it often ends in `/v1`")
        })?;
        Ok((headers, value))
    }
}

/// The maximum size of a response in bytes.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

async fn body(response: &mut Response, limits: &HttpLimits) -> Result<Vec<u8>, ProviderError> {
    let mut body = Vec::new();
    while let Some(bytes) = next_bytes(response, limits).await? {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_BODY_BYTES {
            return Err(ProviderError::new(
                Category::InvalidResponse,
                format!("the list of models is larger than {MAX_BODY_BYTES} bytes"),
            ));
        }
    }
    Ok(body)
}

/// The address of the version of one kind of server.
struct VersionSource {
    path: &'static str,
    /// The JSON pointer to the version.
    field: &'static str,
    name: &'static str,
}

const VERSION_SOURCES: &[VersionSource] = &[
    VersionSource {
        path: "/api/version",
        field: "/version",
        name: "Ollama",
    },
    VersionSource {
        path: "/props",
        field: "/build_info",
        name: "llama.cpp",
    },
    VersionSource {
        path: "/version",
        field: "/version",
        name: "vLLM",
    },
];

fn from_header(headers: &HeaderMap) -> Option<String> {
    let server = headers.get(SERVER)?.to_str().ok()?.to_ascii_lowercase();
    server.contains("llama.cpp").then(|| "llama.cpp".to_owned())
}

/// Returns the software that the owner of the first listed model identifies.
fn from_list(entries: &[Value]) -> Option<String> {
    let owner = entries.first()?.get("owned_by")?.as_str()?;
    let name = match owner {
        "vllm" => "vLLM",
        "llamacpp" => "llama.cpp",
        "library" => "Ollama",
        "deepseek" => "DeepSeek",
        "openai" | "openai-internal" | "system" => "OpenAI",
        _ => return None,
    };
    Some(name.to_owned())
}

fn invalid_key() -> ProviderError {
    ProviderError::new(
        Category::Authentication,
        "the API key contains a character that is invalid in an HTTP header",
    )
    .with_help("set the variable of the key again, without a trailing newline")
}
