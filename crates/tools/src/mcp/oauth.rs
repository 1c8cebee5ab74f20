//! Who asks, for servers that want to know it: tokens of OAuth 2.1.
//!
//! A server that answers 401 names an authorization server. A person logs in there once with a browser
//! ([`login`]: authorization code with PKCE, back through a loopback address), or the program has an
//! account of its own (client credentials). Tokens are kept in a private file for each server and
//! renewed when they are old. Every address on the way has to be allowed, as all of the network has,
//! and is encrypted unless it is on this machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::McpSettings;
use super::address::Address;
use super::tokens::TokenStore;
use crate::Fetcher;

/// Bytes of an answer of an authorization server.
const MOST_BYTES: usize = 256 * 1024;

/// Time for one answer of an authorization server.
const PATIENCE: Duration = Duration::from_secs(30);

/// A token counts as old so many seconds before it is.
const EARLY: u64 = 60;

/// The token for a server, if there is one: kept from a login and renewed if it is old, or asked for
/// with the program's own account.
///
/// # Errors
/// The account of the settings was refused.
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
            .is_none_or(|end| now() + EARLY < end);
        if fresh && access.is_some() {
            return Ok(access);
        }
        if let Some(refresh) = grant["refresh_token"].as_str() {
            let form = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
            // One that cannot be renewed is as good as none: the server will ask for a login.
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
    let Some(place) = discover(network, url).await? else {
        return Ok(None);
    };
    let client = json!({
        "token_endpoint": place.server["token_endpoint"],
        "client_id": id,
        "client_secret": secret,
        "resource": place.resource,
    });
    let mut form = vec![("grant_type", "client_credentials")];
    if let Some(scope) = &place.scope {
        form.push(("scope", scope));
    }
    let mut grant = grant_of(network, &client, &form).await?;
    // What the settings know is not written down.
    if let Some(grant) = grant.as_object_mut() {
        grant.remove("client_secret");
        grant.remove("refresh_token");
    }
    keep(store, url, &grant);
    Ok(grant["access_token"].as_str().map(str::to_owned))
}

fn keep(store: Option<&TokenStore>, url: &str, grant: &Value) {
    if let Some(store) = store {
        // One that cannot be kept is asked for again.
        drop(store.put(url, grant));
    }
}

/// Logs a person in: `show` is given the address to open in a browser, and the login ends when the
/// browser comes back. `secrets` gives a new random word of at least 32 characters each time.
///
/// # Errors
/// The server wants no login, an address on the way is not allowed, or somebody refused.
pub async fn login(
    network: &Fetcher,
    address: &str,
    settings: &McpSettings,
    store: &TokenStore,
    secrets: impl Fn() -> String,
    show: impl FnOnce(&str),
) -> Result<(), String> {
    let Ok(Address::Http(url)) = Address::parse(address) else {
        return Err(format!("`{address}` is no address of a server over HTTP"));
    };
    let url = url.as_str();
    let Some(place) = discover(network, url).await? else {
        return Err(format!("{url} does not ask who it is talking to"));
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.map_err(|error| format!("no port is free: {error}"))?;
    let port = listener
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    let redirect = format!("http://127.0.0.1:{port}/callback");
    let mut client = register(network, &place, settings, &redirect).await?;
    client["token_endpoint"] = place.server["token_endpoint"].clone();
    client["resource"] = json!(place.resource);
    let id = client["client_id"].as_str().unwrap_or_default().to_owned();
    let (verifier, state) = (secrets(), secrets());
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let mut open = endpoint(&place.server, "authorization_endpoint")?;
    open.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &id)
        .append_pair("redirect_uri", &redirect)
        .append_pair("state", &state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &place.resource);
    if let Some(scope) = &place.scope {
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

/// Where a server sends those who want to be known.
struct Place {
    /// What the authorization server says of itself.
    server: Value,
    /// What the token is for.
    resource: String,
    /// What may be done with it, if the server says.
    scope: Option<String>,
}

/// Asks the server as a stranger and follows where it sends strangers. `None` if it takes them.
async fn discover(network: &Fetcher, url: &str) -> Result<Option<Place>, String> {
    let (own, client) = network.client_for(url).map_err(|error| error.message)?;
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "logue", "version": env!("CARGO_PKG_VERSION")}}});
    let asked = client
        .post(own.clone())
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .timeout(PATIENCE)
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
    // Without metadata the server is its own authorization server, as it was in earlier versions.
    let issuer = metadata["authorization_servers"][0].as_str();
    let issuer = if let Some(issuer) = issuer {
        Url::parse(issuer).map_err(|error| format!("{issuer}: {error}"))?
    } else {
        let mut origin = own.clone();
        origin.set_path("");
        origin
    };
    let resource = metadata["resource"].as_str().unwrap_or(url).to_owned();
    // A server that names another one's resource would be given a token for that.
    if Url::parse(&resource).map(|named| named.origin()) != Ok(own.origin()) {
        return Err(format!("{url} says that it is {resource}"));
    }
    let mut why = String::new();
    let places = well_known(&issuer, "oauth-authorization-server");
    for at in places
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
                return Ok(Some(Place {
                    server,
                    resource,
                    scope: scope.filter(|scope| !scope.is_empty()),
                }));
            }
            Ok(_) => why = format!("{at} names no token endpoint"),
            Err(error) => why = error,
        }
    }
    Err(format!(
        "{url} wants to know who asks, but not where to log in: {why}"
    ))
}

/// Where metadata about an address may be: with its path behind, and without.
fn well_known(url: &Url, what: &str) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let with_path = format!("/.well-known/{what}{path}");
    let bare = format!("/.well-known/{what}");
    let mut places = vec![with_path, bare];
    places.dedup();
    let at = |path: String| {
        let mut place = url.clone();
        place.set_query(None);
        place.set_path(&path);
        place
    };
    places.into_iter().map(at).collect()
}

/// The program's name at the authorization server: from the settings, or made for this login.
async fn register(
    network: &Fetcher,
    place: &Place,
    settings: &McpSettings,
    redirect: &str,
) -> Result<Value, String> {
    if let Some(id) = &settings.client_id {
        return Ok(json!({"client_id": id, "client_secret": settings.client_secret}));
    }
    if !place.server["registration_endpoint"].is_string() {
        return Err(
            "the authorization server registers nobody: give `client_id_env` under [mcp.servers.\"URL\"]"
                .to_owned(),
        );
    }
    let at = endpoint(&place.server, "registration_endpoint")?;
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

/// Asks for a token; what comes back holds what the next one needs as well.
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

/// An address that the authorization server names: encrypted, or on this machine.
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
    let (url, client) = network.client_for(url.as_str()).map_err(told)?;
    let asked = client.get(url.clone()).header(ACCEPT, "application/json");
    body(&url, asked.timeout(PATIENCE)).await
}

async fn post(
    network: &Fetcher,
    url: &Url,
    kind: &str,
    text: String,
    authorization: Option<String>,
) -> Result<Value, String> {
    let (url, client) = network.client_for(url.as_str()).map_err(told)?;
    let mut asked = client
        .post(url.clone())
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, kind)
        .timeout(PATIENCE)
        .body(text);
    if let Some(authorization) = authorization {
        asked = asked.header(AUTHORIZATION, authorization);
    }
    body(&url, asked).await
}

fn told(error: crate::FetchError) -> String {
    match error.help {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message,
    }
}

/// The JSON of a successful answer.
async fn body(url: &Url, asked: reqwest::RequestBuilder) -> Result<Value, String> {
    let failed = |error: reqwest::Error| format!("{url}: {}", error.without_url());
    let mut answer = asked.send().await.map_err(failed)?;
    let status = answer.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MOST_BYTES {
            return Err(format!("{url} answered more than {MOST_BYTES} bytes"));
        }
    }
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if status.is_success() {
        return Ok(value);
    }
    let why = value["error_description"]
        .as_str()
        .or(value["error"].as_str());
    Err(match why {
        Some(why) => format!("{url} answered {status}: {why}"),
        None => format!("{url} answered {status}"),
    })
}

/// Waits for the browser to come back, and says so to it.
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
        // Whoever does not know the word is not the browser that was sent.
        let ours = url.path() == "/callback" && value("state").as_deref() == Some(state);
        let (said, result) = match (ours, value("code"), value("error")) {
            (false, ..) => ("this is no login that was asked for", None),
            (true, Some(code), None) => ("done: this page can be closed", Some(Ok(code))),
            (true, _, error) => {
                let why = value("error_description").or(error).unwrap_or_default();
                (
                    "the login was refused",
                    Some(Err(format!("the login was refused: {why}"))),
                )
            }
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}",
            said.len()
        );
        // A browser that is gone has done its part.
        drop(stream.write_all(answer.as_bytes()).await);
        drop(stream.shutdown().await);
        if let Some(result) = result {
            return result;
        }
    }
}

/// The head of a request, which may come in pieces.
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

/// A parameter of a challenge, `name="value"`.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let at = challenge.find(&format!("{name}=\""))? + name.len() + 2;
    let rest = challenge.get(at..)?;
    Some(rest.get(..rest.find('"')?)?.to_owned())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
