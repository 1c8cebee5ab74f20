//! HTTP requests to allowed hosts.
//!
//! A URL may come from a model or from a page that a model read, so it is hostile. It may point or
//! redirect into a private network, resolve differently between check and connection, respond
//! without end, or decompress to a thousand times its size. Each hop is checked against the policy,
//! names are resolved once, only checked addresses are connected to, and everything has a limit.
//! Proxies and cookies are not used, and requests share no state.

mod body;
mod error;
mod key;
mod policy;
mod public;
mod resolve;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use logue_source::excerpt;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION,
};
use reqwest::{Client, Response, Url};

pub use error::{FetchCategory, FetchError};
pub use key::FetchKey;
pub use policy::{FetchPolicy, HostRule, HostRuleError};
pub use resolve::Resolver;

use body::{Body, BodyError, Packing};
use resolve::{Checked, OnlyPrivate, System};

/// Maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 8_192;

/// Maximum length of a URL in an error, in characters.
const MAX_URL_CHARS: usize = 300;

/// Accepted media types, best first.
const WANTED: &str = "text/html, text/markdown, text/plain;q=0.9, */*;q=0.5";

/// Fetches URLs that a policy allows.
///
/// ```
/// use logue_tools::{FetchCategory, FetchPolicy, Fetcher};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// let fetcher = Fetcher::new(FetchPolicy::default()).unwrap();
/// let error = fetcher.get("https://example.com/").await.unwrap_err();
/// assert_eq!(error.category, FetchCategory::Denied);
/// assert!(error.help.unwrap().contains("--allow-host example.com"));
/// # });
/// ```
pub struct Fetcher {
    policy: FetchPolicy,
    /// Connects to public addresses only.
    public: Client,
    /// Connects to hosts that may be private.
    private: Client,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fetched {
    /// The URL after all redirects.
    pub url: String,
    /// The media type in lower case, without parameters.
    pub media_type: Option<String>,
    /// The encoding named by the server.
    pub charset: Option<String>,
    /// The decompressed body.
    pub bytes: Vec<u8>,
}

impl Fetched {
    /// Returns whether the body is HTML, by media type or else by its first bytes.
    pub fn is_html(&self) -> bool {
        match self.media_type.as_deref() {
            Some("text/html" | "application/xhtml+xml") => true,
            None | Some("application/octet-stream" | "text/plain" | "") => {
                logue_html::is_html(&self.bytes)
            }
            Some(_) => false,
        }
    }

    /// Returns whether the body is text.
    ///
    /// Without a clear media type, a body without NUL is text.
    pub fn is_text(&self) -> bool {
        let kind = self.media_type.as_deref().unwrap_or_default();
        match kind {
            "" | "application/octet-stream" => !self.bytes.contains(&0),
            "application/json"
            | "application/xml"
            | "application/javascript"
            | "application/yaml"
            | "application/x-yaml"
            | "application/toml"
            | "application/x-sh" => true,
            kind => kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml"),
        }
    }

    /// Decodes the body with the encoding named by the server or the page.
    pub fn text(&self) -> Cow<'_, str> {
        logue_html::decode(&self.bytes, self.charset.as_deref())
    }
}

impl Fetcher {
    /// Creates a fetcher that resolves names with the operating system.
    ///
    /// # Errors
    /// Returns an error if TLS is not available.
    pub fn new(policy: FetchPolicy) -> Result<Self, FetchError> {
        Self::with_lookup(policy, System)
    }

    /// Creates a fetcher that resolves names with `lookup`.
    ///
    /// # Errors
    /// As [`Fetcher::new`].
    pub fn with_lookup(
        policy: FetchPolicy,
        lookup: impl Resolver + 'static,
    ) -> Result<Self, FetchError> {
        static RING: OnceLock<()> = OnceLock::new();
        let lookup: Arc<dyn Resolver> = Arc::new(lookup);
        RING.get_or_init(|| {
            // An embedding program may have installed another provider before, which is then used.
            drop(rustls::crypto::ring::default_provider().install_default());
        });
        let client = |private| {
            Client::builder()
                .connect_timeout(policy.connect)
                .redirect(reqwest::redirect::Policy::none())
                // A proxy would resolve names without the check.
                .no_proxy()
                .referer(false)
                // Each request gets a new connection to an address that was just checked.
                .pool_max_idle_per_host(0)
                .user_agent(concat!("logue/", env!("CARGO_PKG_VERSION")))
                .dns_resolver(Checked {
                    lookup: Arc::clone(&lookup),
                    private,
                })
                .build()
                .map_err(|error| {
                    let message = format!("no HTTP client can be set up: {}", causes(&error));
                    FetchError::new(FetchCategory::Unreachable, "", message)
                        .with_help("check this machine's CA certificates (package ca-certificates)")
                })
        };
        Ok(Self {
            public: client(false)?,
            private: client(true)?,
            policy,
        })
    }

    /// Returns the policy.
    pub fn policy(&self) -> &FetchPolicy {
        &self.policy
    }

    /// Fetches a URL. Dropping the future ends the request.
    ///
    /// # Errors
    /// Returns a [`FetchError`] unless the response is successful and within the limits.
    pub async fn get(&self, url: &str) -> Result<Fetched, FetchError> {
        self.get_with(url, None).await
    }

    /// Fetches a URL with a key for its host.
    ///
    /// # Errors
    /// As [`Fetcher::get`].
    pub async fn get_with(&self, url: &str, key: Option<&FetchKey>) -> Result<Fetched, FetchError> {
        let limit = self.policy.total;
        match tokio::time::timeout(limit, self.follow(url, key)).await {
            Ok(answer) => answer,
            Err(_) => Err(FetchError::new(
                FetchCategory::Timeout,
                &displayed_url(url),
                format!(
                    "{} took longer than {} s",
                    displayed_url(url),
                    limit.as_secs_f64()
                ),
            )
            .with_help("try again later, or name an address that answers sooner")),
        }
    }

    async fn follow(&self, asked: &str, key: Option<&FetchKey>) -> Result<Fetched, FetchError> {
        let mut url = parse(asked)?;
        let first = url.origin();
        let mut redirects = 0;
        loop {
            let key = key.filter(|_| url.origin() == first);
            let response = self.ask(&url, key).await.map_err(|mut error| {
                if redirects > 0 {
                    error.message =
                        format!("{} redirects: {}", displayed_url(asked), error.message);
                }
                error
            })?;
            let status = response.status();
            if status.is_success() {
                return self.read(&url, response).await;
            }
            if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Err(status_error(&url, status));
            }
            redirects += 1;
            if redirects > self.policy.max_redirects {
                let message = format!(
                    "{} redirects more than {} times",
                    displayed_url(asked),
                    self.policy.max_redirects
                );
                return Err(
                    FetchError::new(FetchCategory::Redirect, url.as_str(), message)
                        .with_help("name the address to which it leads in the end"),
                );
            }
            url = redirect(&url, header(response.headers(), &LOCATION))?;
        }
    }

    /// Checks the policy and sends the request of one hop.
    async fn ask(&self, url: &Url, key: Option<&FetchKey>) -> Result<Response, FetchError> {
        let client = if self.check(url)? {
            &self.private
        } else {
            &self.public
        };
        let mut request = client
            .get(url.clone())
            .header(ACCEPT, WANTED)
            .header(ACCEPT_ENCODING, "gzip");
        if let Some(key) = key {
            request = request.header(key.header.clone(), key.value.clone());
        }
        request
            .send()
            .await
            .map_err(|error| send_error(url, &error))
    }

    /// Returns an allowed URL with its client, for protocols other than fetching.
    ///
    /// The client follows no redirects and connects only to addresses that the policy allows for
    /// the URL.
    #[cfg(feature = "mcp")]
    pub(crate) fn client_for(&self, url: &str) -> Result<(Url, &Client), FetchError> {
        let url = parse(url)?;
        let private = self.check(&url)?;
        let client = if private { &self.private } else { &self.public };
        Ok((url, client))
    }

    /// Returns whether the host of an allowed URL may be private.
    fn check(&self, url: &Url) -> Result<bool, FetchError> {
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        let port = url.port_or_known_default().unwrap_or(0);
        let named = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        match self.policy.admits(host, port, url.port().is_none()) {
            Some(private) => Ok(private),
            None => Err(FetchError::new(
                FetchCategory::Denied,
                url.as_str(),
                format!("{url} was not fetched: the network is off for `{named}`"),
            )
            .with_help(format!(
                "if it may be fetched, give `--allow-host {named}`, or add \"{named}\" to `allowed_hosts` \
                 under [network] in logue.toml"
            ))),
        }
    }

    async fn read(&self, url: &Url, mut response: Response) -> Result<Fetched, FetchError> {
        let limit = self.policy.max_bytes;
        let encoding = header(response.headers(), &CONTENT_ENCODING).unwrap_or_default();
        let Some(packing) = Packing::named(&encoding) else {
            let message = format!("{url} answered in the encoding `{encoding}`, not asked for");
            return Err(FetchError::new(
                FetchCategory::Broken,
                url.as_str(),
                message,
            ));
        };
        let fault = |error| match error {
            BodyError::TooLarge => FetchError::new(
                FetchCategory::TooLarge,
                url.as_str(),
                format!("{url} has more than the {limit} bytes that are fetched"),
            )
            .with_help("shorten the address"),
            BodyError::Broken(error) => FetchError::new(
                FetchCategory::Broken,
                url.as_str(),
                format!("the answer of {url} cannot be unpacked: {error}"),
            ),
        };
        let announced = response.content_length();
        if announced.is_some_and(|length| usize::try_from(length).is_ok_and(|it| it > limit)) {
            return Err(fault(BodyError::TooLarge));
        }
        let (media_type, charset) = media_type(response.headers());
        let mut body = Body::new(packing, limit);
        loop {
            match response.chunk().await {
                Ok(Some(bytes)) => body.push(&bytes).map_err(fault)?,
                Ok(None) => break,
                Err(error) => {
                    let message = format!("the answer of {url} broke off: {}", causes(&error));
                    return Err(
                        FetchError::new(FetchCategory::Broken, url.as_str(), message)
                            .with_help("try again"),
                    );
                }
            }
        }
        Ok(Fetched {
            url: url.to_string(),
            media_type,
            charset,
            bytes: body.finish().map_err(fault)?,
        })
    }
}

/// Parses a URL with scheme http or https, a host and no credentials.
fn parse(text: &str) -> Result<Url, FetchError> {
    let error = |why: &str| {
        let message = format!("`{}` cannot be fetched: {why}", displayed_url(text));
        FetchError::new(FetchCategory::Address, &displayed_url(text), message)
    };
    if text.len() > MAX_URL_BYTES {
        return Err(error("it is too long for an address"));
    }
    let url = Url::parse(text.trim()).map_err(|why| {
        error(&why.to_string()).with_help("write it in full, as in `https://example.com/page`")
    })?;
    checked(url, error)
}

fn checked(mut url: Url, error: impl Fn(&str) -> FetchError) -> Result<Url, FetchError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(error("only http and https are fetched"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(error("it holds a user name or password")
            .with_help("leave them out: addresses are written to transcripts and logs"));
    }
    if url
        .host_str()
        .is_none_or(|host| host.trim_end_matches('.').is_empty())
    {
        return Err(error("it has no host"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Resolves the target of a redirect.
fn redirect(from: &Url, location: Option<String>) -> Result<Url, FetchError> {
    let error = |why: &str| {
        let message = format!("{from} redirects, but {why}");
        FetchError::new(FetchCategory::Redirect, from.as_str(), message)
    };
    let location = location.ok_or_else(|| error("does not say where to"))?;
    let to = (location.len() <= MAX_URL_BYTES)
        .then(|| from.join(&location).ok())
        .flatten();
    let to = to.ok_or_else(|| error("the target is not an address"))?;
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(error("to an address without encryption").with_help(format!(
            "name that address itself if it will do: {}",
            displayed_url(to.as_str())
        )));
    }
    checked(to, |why| {
        error(&format!("where to cannot be fetched: {why}"))
    })
}

fn status_error(url: &Url, status: reqwest::StatusCode) -> FetchError {
    let help = match status.as_u16() {
        401 | 403 => "it requires authorization",
        404 | 410 => "check the address",
        429 => "wait, then try again",
        500..=599 => "the server failed; try again later",
        _ => "the server does not give this to a plain request",
    };
    let message = format!("{url} answered {status}");
    let mut error = FetchError::new(FetchCategory::Status, url.as_str(), message).with_help(help);
    error.status = Some(status.as_u16());
    error
}

fn send_error(url: &Url, error: &reqwest::Error) -> FetchError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(private) = inner.downcast_ref::<OnlyPrivate>() {
            return private_error(url, private);
        }
        cause = inner.source();
    }
    if error.is_timeout() {
        let message = format!("no connection to {url} in time");
        return FetchError::new(FetchCategory::Timeout, url.as_str(), message)
            .with_help("try again later");
    }
    let message = format!("cannot reach {url}: {}", causes(error));
    FetchError::new(FetchCategory::Unreachable, url.as_str(), message)
        .with_help("check the address, and that this machine has a network")
}

fn private_error(url: &Url, private: &OnlyPrivate) -> FetchError {
    let host = url.host_str().unwrap_or_default();
    let named = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let message = format!(
        "{url} was not fetched: `{host}` leads to {}, which is not a public address",
        private.address
    );
    FetchError::new(FetchCategory::Private, url.as_str(), message).with_help(format!(
        "if this host of your own network is meant, give `--allow-host private:{named}`, or add \
         \"private:{named}\" to `allowed_hosts` under [network] in logue.toml"
    ))
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn media_type(headers: &HeaderMap) -> (Option<String>, Option<String>) {
    let Some(value) = header(headers, &CONTENT_TYPE) else {
        return (None, None);
    };
    let mut parts = value.split(';');
    let kind = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is = name.trim().eq_ignore_ascii_case("charset");
        is.then(|| value.trim().trim_matches('"').to_owned())
    });
    (Some(kind), charset)
}

/// Returns a URL for error messages: truncated and without credentials.
fn displayed_url(text: &str) -> String {
    let mut text = text.trim().to_owned();
    if let Ok(mut url) = Url::parse(&text)
        && (!url.username().is_empty() || url.password().is_some())
    {
        // Both fail only if the URL cannot have credentials.
        let cleared = url.set_username("").and_then(|()| url.set_password(None));
        text = cleared.map_or_else(|()| "an address".to_owned(), |()| url.to_string());
    }
    excerpt(text, MAX_URL_CHARS)
}

/// Formats an error with its causes, which contain the reason of a failed request.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
