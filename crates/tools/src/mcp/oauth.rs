//! Authorization of MCP servers with OAuth 2.1.
//!
//! A server that responds with status 401 names an authorization server. A person logs in once with
//! a browser ([`login`]: authorization code with PKCE and a loopback redirect), or the program has
//! its own account (client credentials). Tokens are stored in one private file per server and
//! refreshed before they expire. Every URL involved must be allowed by the network policy and
//! encrypted, except on this machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::address::Address;
use super::options::McpSettings;
use super::tokens::TokenStore;
use crate::Fetcher;

/// Maximum size in bytes of a response of an authorization server.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// Time limit of a request to an authorization server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Seconds before expiry at which a token counts as expired.
const EXPIRY_MARGIN: u64 = 60;

/// Returns the token of a server, if there is one.
///
/// A stored token is refreshed if it has expired; a new one is requested with client credentials.
///
/// # Errors
/// Returns an error if the client credentials are refused.
pub(crate) async fn token(
    network: &Fetcher,
    url: &str,
    settings: &McpSettings,
    store: Option<&TokenStore>,
) -> Result<Option<String>, String> {
    let kept = store.and_then(|store| store.get(url));
    if let Some(grant) = &kept {
        let access = grant["access_token"].as_str().map(str::to_owned);
        let fresh = grant["expires_at"]
            .as_u64()
            .is_none_or(|end| now() + EXPIRY_MARGIN < end);
        if fresh && access.is_some() {
            return Ok(access);
        }
        if let Some(refresh) = grant["refresh_token"].as_str() {
            let form = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
            // Without a successful refresh the server requests a login.
            if let Ok(renewed) = grant_of(network, grant, &form).await {
                let access = renewed["access_token"].as_str().map(str::to_owned);
                keep(store, url, &renewed);
                return Ok(access);
            }
        }
    }
    let (Some(id), Some(secret)) = (&settings.client_id, &settings.client_secret) else {
        return Ok(None);
    };
    let Some(authorization) = discover(network, url).await? else {
        return Ok(None);
    };
    let client = json!({
        "token_endpoint": authorization.server["token_endpoint"],
        "client_id": id,
        "client_secret": secret,
        "resource": authorization.resource,
    });
    let mut form = vec![("grant_type", "client_credentials")];
    if let Some(scope) = &authorization.scope {
        form.push(("scope", scope));
    }
    let mut grant = grant_of(network, &client, &form).await?;
    // Secrets from the settings are not stored.
    if let Some(grant) = grant.as_object_mut() {
        grant.remove("client_secret");
        grant.remove("refresh_token");
    }
    keep(store, url, &grant);
    Ok(grant["access_token"].as_str().map(str::to_owned))
}

fn keep(store: Option<&TokenStore>, url: &str, grant: &Value) {
    if let Some(store) = store {
        // A token that cannot be stored is requested again.
        drop(store.put(url, grant));
    }
}

/// Logs in to a server.
///
/// `show` receives the URL to open in a browser; the login ends with the redirect back. `secrets`
/// returns a new random text of at least 32 characters per call.
///
/// # Errors
/// Returns an error if the server requires no login, a URL is not allowed or the login is refused.
pub async fn login(
    network: &Fetcher,
    address: &str,
    settings: &McpSettings,
    store: &TokenStore,
    secrets: impl Fn() -> String,
    show: impl FnOnce(&str),
) -> Result<(), String> {
    let Ok(Address::Http(url)) = Address::parse(address) else {
        return Err(format!(
            "`{address}` is not an address of a server over HTTP"
        ));
    };
    let url = url.as_str();
    let Some(authorization) = discover(network, url).await? else {
        return Err(format!("{url} requires no login"));
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.map_err(|error| format!("no port is free: {error}"))?;
    let port = listener
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    let redirect = format!("http://127.0.0.1:{port}/callback");
    let mut client = register(network, &authorization, settings, &redirect).await?;
    client["token_endpoint"] = authorization.server["token_endpoint"].clone();
    client["resource"] = json!(authorization.resource);
    let id = client["client_id"].as_str().unwrap_or_default().to_owned();
    let (verifier, state) = (secrets(), secrets());
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let mut open = endpoint(&authorization.server, "authorization_endpoint")?;
    open.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &id)
        .append_pair("redirect_uri", &redirect)
        .append_pair("state", &state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &authorization.resource);
    if let Some(scope) = &authorization.scope {
        open.query_pairs_mut().append_pair("scope", scope);
    }
    show(open.as_str());
    let code = returned(&listener, &state).await?;
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", redirect.as_str()),
        ("code_verifier", verifier.as_str()),
    ];
    let grant = grant_of(network, &client, &form).await?;
    let kept = store.put(url, &grant);
    kept.map_err(|error| format!("the token cannot be kept: {error}"))
}

/// The authorization requirements of a server.
struct Authorization {
    /// The metadata of the authorization server.
    server: Value,
    /// The resource that the token is for.
    resource: String,
    /// The scope, if the server names one.
    scope: Option<String>,
}

/// Requests the server without a token and reads its authorization metadata; `None` if it accepts.
async fn discover(network: &Fetcher, url: &str) -> Result<Option<Authorization>, String> {
    let (own, client) = network.client_for(url).map_err(|error| error.message)?;
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "logue", "version": env!("CARGO_PKG_VERSION")}}});
    let asked = client
        .post(own.clone())
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .timeout(TIMEOUT)
        .body(hello.to_string());
    let answer = asked
        .send()
        .await
        .map_err(|error| format!("{url}: {error}"))?;
    if answer.status().as_u16() != 401 {
        return Ok(None);
    }
    let challenge = answer.headers().get(WWW_AUTHENTICATE);
    let challenge = challenge
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let named = parameter(challenge, "resource_metadata").and_then(|at| Url::parse(&at).ok());
    let mut metadata = Value::Null;
    for at in named
        .into_iter()
        .chain(well_known(&own, "oauth-protected-resource"))
    {
        if let Ok(found) = get(network, &at).await {
            metadata = found;
            break;
        }
    }
    // Without metadata the server is its own authorization server, as in earlier versions.
    let issuer = metadata["authorization_servers"][0].as_str();
    let issuer = if let Some(issuer) = issuer {
        Url::parse(issuer).map_err(|error| format!("{issuer}: {error}"))?
    } else {
        let mut origin = own.clone();
        origin.set_path("");
        origin
    };
    let resource = metadata["resource"].as_str().unwrap_or(url).to_owned();
    // Otherwise a server could obtain a token for the resource of another one.
    if Url::parse(&resource).map(|named| named.origin()) != Ok(own.origin()) {
        return Err(format!("{url} says that it is {resource}"));
    }
    let mut reason = String::new();
    let locations = well_known(&issuer, "oauth-authorization-server");
    for at in locations
        .into_iter()
        .chain(well_known(&issuer, "openid-configuration"))
    {
        match get(network, &at).await {
            Ok(server) if server["token_endpoint"].is_string() => {
                let scopes = metadata["scopes_supported"].as_array();
                let scopes = scopes.map(|scopes| {
                    let scopes = scopes.iter().filter_map(Value::as_str);
                    scopes.collect::<Vec<_>>().join(" ")
                });
                let scope = parameter(challenge, "scope").or(scopes);
                return Ok(Some(Authorization {
                    server,
                    resource,
                    scope: scope.filter(|scope| !scope.is_empty()),
                }));
            }
            Ok(_) => reason = format!("{at} names no token endpoint"),
            Err(error) => reason = error,
        }
    }
    Err(format!(
        "{url} requires authorization, but names no place to log in: {reason}"
    ))
}

/// Returns the well-known metadata URLs of an address, with and without its path.
fn well_known(url: &Url, what: &str) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let with_path = format!("/.well-known/{what}{path}");
    let bare = format!("/.well-known/{what}");
    let mut locations = vec![with_path, bare];
    locations.dedup();
    let at = |path: String| {
        let mut location = url.clone();
        location.set_query(None);
        location.set_path(&path);
        location
    };
    locations.into_iter().map(at).collect()
}

/// Returns the client registration: from the settings, or a new one for this login.
async fn register(
    network: &Fetcher,
    authorization: &Authorization,
    settings: &McpSettings,
    redirect: &str,
) -> Result<Value, String> {
    if let Some(id) = &settings.client_id {
        return Ok(json!({"client_id": id, "client_secret": settings.client_secret}));
    }
    if !authorization.server["registration_endpoint"].is_string() {
        return Err(
            "the authorization server does not register clients: give `client_id_env` under [mcp.servers.\"URL\"]"
                .to_owned(),
        );
    }
    let at = endpoint(&authorization.server, "registration_endpoint")?;
    let wanted = json!({
        "client_name": "Logue",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let made = post(network, &at, "application/json", wanted.to_string(), None).await?;
    let known = |key: &str| made[key].as_str().map(str::to_owned);
    let Some(id) = known("client_id") else {
        return Err(format!("{at} gave no name"));
    };
    Ok(json!({"client_id": id, "client_secret": known("client_secret")}))
}

/// Requests a token; the result contains everything that a refresh needs.
async fn grant_of(
    network: &Fetcher,
    client: &Value,
    form: &[(&str, &str)],
) -> Result<Value, String> {
    let at = endpoint(client, "token_endpoint")?;
    let id = client["client_id"].as_str().unwrap_or_default();
    let mut body = Url::parse("http://form/").map_err(|error| error.to_string())?;
    body.query_pairs_mut().extend_pairs(form);
    if let Some(resource) = client["resource"].as_str() {
        body.query_pairs_mut().append_pair("resource", resource);
    }
    let basic = client["client_secret"].as_str().map(|secret| {
        let encoded = |text: &str| {
            let mut url = at.clone();
            url.query_pairs_mut().clear().append_key_only(text);
            url.query().unwrap_or_default().to_owned()
        };
        let pair = format!("{}:{}", encoded(id), encoded(secret));
        format!("Basic {}", STANDARD.encode(pair))
    });
    if basic.is_none() {
        body.query_pairs_mut().append_pair("client_id", id);
    }
    let form = body.query().unwrap_or_default().to_owned();
    let kind = "application/x-www-form-urlencoded";
    let answer = post(network, &at, kind, form, basic).await?;
    let Some(access) = answer["access_token"].as_str() else {
        return Err(format!("{at} gave no token"));
    };
    let lifetime = answer["expires_in"].as_u64();
    let refresh = answer["refresh_token"].as_str();
    Ok(json!({
        "access_token": access,
        "refresh_token": refresh.or(client["refresh_token"].as_str()),
        "expires_at": lifetime.map(|seconds| now().saturating_add(seconds)),
        "token_endpoint": client["token_endpoint"],
        "client_id": id,
        "client_secret": client["client_secret"],
        "resource": client["resource"],
    }))
}

/// Returns an endpoint of the authorization server, which must be encrypted or local.
fn endpoint(server: &Value, key: &str) -> Result<Url, String> {
    let text = server[key].as_str().unwrap_or_default();
    let url = Url::parse(text).map_err(|error| format!("`{key}` is {text:?}: {error}"))?;
    let here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme() == "https" || (url.scheme() == "http" && here) {
        Ok(url)
    } else {
        Err(format!("`{key}` is {text:?}, which is not encrypted"))
    }
}

async fn get(network: &Fetcher, url: &Url) -> Result<Value, String> {
    let (url, client) = network.client_for(url.as_str()).map_err(describe)?;
    let asked = client.get(url.clone()).header(ACCEPT, "application/json");
    body(&url, asked.timeout(TIMEOUT)).await
}

async fn post(
    network: &Fetcher,
    url: &Url,
    kind: &str,
    text: String,
    authorization: Option<String>,
) -> Result<Value, String> {
    let (url, client) = network.client_for(url.as_str()).map_err(describe)?;
    let mut asked = client
        .post(url.clone())
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, kind)
        .timeout(TIMEOUT)
        .body(text);
    if let Some(authorization) = authorization {
        asked = asked.header(AUTHORIZATION, authorization);
    }
    body(&url, asked).await
}

fn describe(error: crate::FetchError) -> String {
    match error.help {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message,
    }
}

/// Returns the JSON body of a successful response.
async fn body(url: &Url, asked: reqwest::RequestBuilder) -> Result<Value, String> {
    let failed = |error: reqwest::Error| format!("{url}: {}", error.without_url());
    let mut answer = asked.send().await.map_err(failed)?;
    let status = answer.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_RESPONSE_BYTES {
            return Err(format!(
                "{url} answered more than {MAX_RESPONSE_BYTES} bytes"
            ));
        }
    }
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if status.is_success() {
        return Ok(value);
    }
    let reason = value["error_description"]
        .as_str()
        .or(value["error"].as_str());
    Err(match reason {
        Some(reason) => format!("{url} answered {status}: {reason}"),
        None => format!("{url} answered {status}"),
    })
}

/// Waits for the redirect of the browser and responds to it.
async fn returned(listener: &TcpListener, state: &str) -> Result<String, String> {
    loop {
        let (mut stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
        let head = tokio::time::timeout(Duration::from_secs(5), head(&mut stream)).await;
        let Ok(Some(text)) = head else { continue };
        let target = text.split(' ').nth(1).unwrap_or_default();
        let Ok(url) = Url::parse(&format!("http://127.0.0.1{target}")) else {
            continue;
        };
        let value = |key: &str| {
            let mut pairs = url.query_pairs();
            pairs.find_map(|(name, value)| (name == key).then(|| value.into_owned()))
        };
        // Only the browser of this login knows the state.
        let ours = url.path() == "/callback" && value("state").as_deref() == Some(state);
        let (page, result) = match (ours, value("code"), value("error")) {
            (false, ..) => ("this login was not requested", None),
            (true, Some(code), None) => ("done: this page can be closed", Some(Ok(code))),
            (true, _, error) => {
                let reason = value("error_description").or(error).unwrap_or_default();
                (
                    "the login was refused",
                    Some(Err(format!("the login was refused: {reason}"))),
                )
            }
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
            page.len()
        );
        // The browser may have closed the connection.
        drop(stream.write_all(answer.as_bytes()).await);
        drop(stream.shutdown().await);
        if let Some(result) = result {
            return result;
        }
    }
}

/// Reads the head of a request, which may arrive in parts.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut block = [0_u8; 1024];
    while !head.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut block).await.ok()?;
        if count == 0 || head.len() > 16 * 1024 {
            return None;
        }
        head.extend_from_slice(block.get(..count)?);
    }
    String::from_utf8(head).ok()
}

/// Returns a parameter of a challenge, `name="value"`.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let at = challenge.find(&format!("{name}=\""))? + name.len() + 2;
    let rest = challenge.get(at..)?;
    Some(rest.get(..rest.find('"')?)?.to_owned())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
