//! What a model server says of itself: whether it answers, which software it is, what models it has.
//!
//! Nothing is asked of a model, so a probe costs nothing. The list of models is the one request that
//! every server of the two formats answers; what software it is, some of them say in that list, some
//! in a header, and some at an address of their own beside the base URL.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, SERVER};
use reqwest::{Client, Response, Url};
use serde_json::Value;

use crate::http::{self, Limits};
use crate::{Category, ProviderError};

/// What a server said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// The software, with its version where it tells one; `None` where nothing gave it away.
    pub software: Option<String>,
    /// The names of its models, in the order of its list.
    pub models: Vec<String>,
}

/// Where a server is, and what a request to it carries.
#[derive(Clone)]
pub struct ServerProbe {
    /// The address that `/models` is added to.
    pub base_url: String,
    /// Header fields, such as the one with the key. Their values are never told.
    pub headers: Vec<(String, String)>,
    /// Longest time for one request.
    pub patience: Duration,
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
    /// Asks the server for its models, and finds out which software it is.
    ///
    /// # Errors
    /// It cannot be reached, refuses the key, or answers something that is no list of models. The
    /// categories are those of a request to a model.
    pub async fn ask(&self) -> Result<ServerReport, ProviderError> {
        self.look().await.map_err(|error| self.blot(error))
    }

    /// Nothing that a server or a library says may carry a key, or the password of the address.
    fn blot(&self, mut error: ProviderError) -> ProviderError {
        let url = Url::parse(&self.base_url).ok();
        let password = url.as_ref().and_then(Url::password);
        let values = self.headers.iter().map(|(_, value)| value.as_str());
        let words = values.flat_map(|value| value.split(' ')).chain(password);
        for word in words.filter(|word| word.len() > 6 || Some(*word) == password) {
            if !word.is_empty() {
                error.message = error.message.replace(word, "[secret]");
            }
        }
        error
    }

    async fn look(&self) -> Result<ServerReport, ProviderError> {
        let limits = Limits {
            connect: self.patience,
            first_byte: self.patience,
            idle: self.patience,
            ..Limits::default()
        };
        let client = http::client(&limits)?;
        let url = self.url("/models")?;
        let (headers, list) = self.get(&client, &url, &limits).await?;
        let Some(entries) = list
            .get("data")
            .or_else(|| list.get("models"))
            .and_then(Value::as_array)
        else {
            return Err(ProviderError::new(
                Category::InvalidResponse,
                format!("{url} answered, but not with a list of models"),
            )
            .with_help("check that the base URL is one of a model server, often ending in `/v1`"));
        };
        let name = |entry: &Value| {
            let name = entry.get("id").or_else(|| entry.get("name"));
            name.and_then(Value::as_str).map(str::to_owned)
        };
        let models = entries.iter().filter_map(name).collect();
        let mut software = of_header(&headers).or_else(|| of_list(entries));
        for Door { path, field, name } in DOORS {
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

    fn url(&self, path: &str) -> Result<Url, ProviderError> {
        let base = self.base_url.trim_end_matches('/');
        Url::parse(&format!("{base}{path}")).map_err(|error| {
            ProviderError::new(
                Category::InvalidRequest,
                format!("`{}` is no address: {error}", self.base_url),
            )
            .with_help("check the base URL (--base-url, OPENAI_BASE_URL or logue.toml)")
        })
    }

    /// What a server of one kind answers at an address of its own; `None` from all others.
    async fn version(
        &self,
        client: &Client,
        path: &str,
        field: &str,
        limits: &Limits,
    ) -> Option<String> {
        let mut url = self.url("").ok()?;
        url.set_path(path);
        url.set_query(None);
        let (_, answer) = self.get(client, &url, limits).await.ok()?;
        let found = answer.pointer(field)?;
        let words = found.as_str().unwrap_or_default();
        Some(words.chars().take(40).collect())
    }

    async fn get(
        &self,
        client: &Client,
        url: &Url,
        limits: &Limits,
    ) -> Result<(HeaderMap, Value), ProviderError> {
        let mut request = client.get(url.clone()).header(ACCEPT, "application/json");
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| unsendable())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| unsendable())?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let mut response = http::send(request, url, limits).await?;
        let headers = response.headers().clone();
        let body = body(&mut response, limits).await?;
        let value = serde_json::from_slice(&body).map_err(|error| {
            ProviderError::new(
                Category::InvalidResponse,
                format!("{url} answered something that is not JSON: {error}"),
            )
            .with_help("check that the base URL is one of a model server, often ending in `/v1`")
        })?;
        Ok((headers, value))
    }
}

/// Bytes of an answer that are read.
const MOST: usize = 4 * 1024 * 1024;

async fn body(response: &mut Response, limits: &Limits) -> Result<Vec<u8>, ProviderError> {
    let mut body = Vec::new();
    while let Some(bytes) = http::next_bytes(response, limits).await? {
        body.extend_from_slice(&bytes);
        if body.len() > MOST {
            return Err(ProviderError::new(
                Category::InvalidResponse,
                format!("the list of models is larger than {MOST} bytes"),
            ));
        }
    }
    Ok(body)
}

/// An address beside the base URL at which one kind of server tells its version.
struct Door {
    path: &'static str,
    /// Where in the answer it is, as a JSON pointer.
    field: &'static str,
    name: &'static str,
}

const DOORS: &[Door] = &[
    Door {
        path: "/api/version",
        field: "/version",
        name: "Ollama",
    },
    Door {
        path: "/props",
        field: "/build_info",
        name: "llama.cpp",
    },
    Door {
        path: "/version",
        field: "/version",
        name: "vLLM",
    },
];

fn of_header(headers: &HeaderMap) -> Option<String> {
    let server = headers.get(SERVER)?.to_str().ok()?.to_ascii_lowercase();
    server.contains("llama.cpp").then(|| "llama.cpp".to_owned())
}

/// Whom the models of a list belong to gives most servers away.
fn of_list(entries: &[Value]) -> Option<String> {
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

fn unsendable() -> ProviderError {
    ProviderError::new(
        Category::Authentication,
        "the API key holds a character that no HTTP header can carry",
    )
    .with_help("set the variable with the key again, without a newline at its end")
}
