//! Logging in at a server: a server, its authorization server and a browser on real sockets.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use logue_tools::mcp::{McpOptions, McpServers, McpSettings, TokenStore, login};
use logue_tools::{FetchPolicy, Fetcher, ServerToolRequest, ToolServers as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What the authorization server was asked for, as pairs.
type Asked = Arc<Mutex<Vec<Vec<(String, String)>>>>;

/// A server at `/mcp` and its authorization server, with tokens that live for `seconds`.
fn server(seconds: u64) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let asked = Asked::default();
    let (own, log) = (host.clone(), Arc::clone(&asked));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (own, log) = (own.clone(), Arc::clone(&log));
            std::thread::spawn(move || serve(stream.unwrap(), &own, seconds, &log));
        }
    });
    (host, asked)
}

fn serve(mut stream: TcpStream, host: &str, seconds: u64, log: &Asked) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let (mut length, mut authorization) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        match header.trim().split_once(": ") {
            None => break,
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("authorization", value)) => value.clone_into(&mut authorization),
            Some(_) => {}
        }
    }
    let mut body = vec![0_u8; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    let base = format!("http://{host}");
    let path = line.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let (status, headers, answer) = match path {
        "/mcp" if authorization.starts_with("Bearer token-") => {
            let message: Value = serde_json::from_str(&body).unwrap_or_default();
            let result = match message["method"].as_str().unwrap_or_default() {
                "initialize" => json!({"protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}),
                "tools/list" => json!({"tools": [{"name": authorization.replace("Bearer ", ""),
                    "inputSchema": {"type": "object"}}]}),
                _ => Value::Null,
            };
            match message.get("id") {
                Some(id) => (
                    200,
                    "",
                    json!({"jsonrpc": "2.0", "id": id, "result": result}),
                ),
                None => (202, "", Value::Null),
            }
        }
        "/mcp" => (
            401,
            "www-authenticate: Bearer resource_metadata=\"METADATA\"\r\n",
            Value::Null,
        ),
        "/about" => (
            200,
            "",
            json!({"resource": format!("{base}/mcp"), "authorization_servers": [format!("{base}/as")],
                "scopes_supported": ["read"]}),
        ),
        "/.well-known/oauth-authorization-server/as" => (
            200,
            "",
            json!({"authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register")}),
        ),
        "/register" => (201, "", json!({"client_id": "made for you"})),
        "/token" => {
            let url = reqwest::Url::parse(&format!("http://x/?{body}")).unwrap();
            let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            pairs.push(("authorization".to_owned(), authorization));
            let mut log = log.lock().unwrap();
            log.push(pairs);
            let number = log.len();
            (
                200,
                "",
                json!({"access_token": format!("token-{number}"), "expires_in": seconds,
                    "refresh_token": format!("refresh-{number}")}),
            )
        }
        _ => (404, "", Value::Null),
    };
    let headers = headers.replace("METADATA", &format!("{base}/about"));
    let answer = if answer.is_null() {
        String::new()
    } else {
        answer.to_string()
    };
    let text = format!(
        "HTTP/1.1 {status} x\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
    // A client that is gone needs no answer.
    drop(stream.write_all(text.as_bytes()));
}

fn fetcher(host: &str) -> Arc<Fetcher> {
    Arc::new(Fetcher::new(FetchPolicy::allowing([host]).unwrap()).unwrap())
}

/// The tools of the server for whoever has this store and these settings; each is named after the
/// token that it was asked with.
async fn tools(host: &str, store: &TokenStore, settings: McpSettings) -> Vec<String> {
    let url = format!("http://{host}/mcp");
    let options = McpOptions::default()
        .with_start(Duration::from_secs(20))
        .with_tokens(store.clone())
        .with_servers([(url.clone(), settings)].into());
    let servers = McpServers::new(options, Some(fetcher(host)));
    let wanted = ServerToolRequest::new(url, "");
    let source = servers.source(&wanted).await.unwrap();
    let tools = source.tools().await;
    tools
        .iter()
        .map(|tool| tool.definition().name.clone())
        .collect()
}

/// A browser: goes where it is sent, and comes back with a code after somebody who knows nothing.
fn browse(open: &str) {
    let url = reqwest::Url::parse(open).unwrap();
    let value = |key: &str| {
        url.query_pairs()
            .find(|(name, _)| name == key)
            .unwrap()
            .1
            .into_owned()
    };
    let back = reqwest::Url::parse(&value("redirect_uri")).unwrap();
    let address = format!("127.0.0.1:{}", back.port().unwrap());
    let state = value("state");
    std::thread::spawn(move || {
        for query in [
            "code=evil&state=guessed".to_owned(),
            format!("code=c0de&state={state}"),
        ] {
            let mut stream = TcpStream::connect(&address).unwrap();
            write!(stream, "GET /callback?{query} HTTP/1.1\r\n\r\n").unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).unwrap();
        }
    });
}

fn pair<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(name, _)| name == key)
        .map(|(_, value)| value.as_str())
}

#[tokio::test]
async fn a_person_logs_in_once_and_tokens_are_renewed() {
    let (host, asked) = server(30);
    let folder = tempfile::tempdir().unwrap();
    let store = TokenStore::new(folder.path().join("tokens"));
    assert_eq!(tools(&host, &store, McpSettings::default()).await, [""; 0]);
    let url = format!("http://{host}/mcp");
    let network = fetcher(&host);
    let opened = Mutex::new(String::new());
    let show = |open: &str| {
        open.clone_into(&mut opened.lock().unwrap());
        browse(open);
    };
    let count = AtomicU32::new(0);
    let secret = || {
        format!(
            "secret-of-32-characters-or-more-{}",
            count.fetch_add(1, Ordering::Relaxed)
        )
    };
    let settings = McpSettings::default();
    login(&network, &url, &settings, &store, secret, show)
        .await
        .unwrap();
    let opened = opened.lock().unwrap().clone();
    assert!(opened.starts_with(&format!("http://{host}/authorize?response_type=code")));
    assert!(
        opened.contains("client_id=made+for+you") && opened.contains("scope=read"),
        "{opened}"
    );
    let given = asked.lock().unwrap()[0].clone();
    assert_eq!(pair(&given, "grant_type"), Some("authorization_code"));
    assert_eq!(pair(&given, "code"), Some("c0de"));
    assert_eq!(pair(&given, "resource"), Some(url.as_str()));
    assert_eq!(pair(&given, "client_id"), Some("made for you"));
    // The browser saw only the hash of what the code is exchanged with.
    let verifier = pair(&given, "code_verifier").unwrap();
    let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    assert!(opened.contains(&format!("code_challenge={hash}&code_challenge_method=S256")));
    assert!(!opened.contains(verifier));
    let file = store.file(&url);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // A token of half a minute is as good as old: each run renews it with what the last one gave.
    assert_eq!(
        tools(&host, &store, McpSettings::default()).await,
        ["token-2"]
    );
    assert_eq!(
        tools(&host, &store, McpSettings::default()).await,
        ["token-3"]
    );
    let log = asked.lock().unwrap();
    assert_eq!(pair(&log[1], "refresh_token"), Some("refresh-1"));
    assert_eq!(pair(&log[2], "refresh_token"), Some("refresh-2"));
}

#[tokio::test]
async fn an_account_of_the_program_needs_no_person() {
    let (host, asked) = server(3_600);
    let folder = tempfile::tempdir().unwrap();
    let store = TokenStore::new(folder.path().to_owned());
    let settings = McpSettings::default()
        .with_client_id("me".to_owned())
        .with_client_secret("a b:c".to_owned());
    assert_eq!(tools(&host, &store, settings.clone()).await, ["token-1"]);
    // It is kept for the next run, without what the settings know.
    assert_eq!(tools(&host, &store, settings).await, ["token-1"]);
    let kept = fs::read_to_string(store.file(&format!("http://{host}/mcp"))).unwrap();
    assert!(!kept.contains("a b:c"), "{kept}");
    let log = asked.lock().unwrap();
    assert_eq!(pair(&log[0], "grant_type"), Some("client_credentials"));
    assert_eq!(pair(&log[0], "scope"), Some("read"));
    // `me:a+b%3Ac`, in base64.
    assert_eq!(
        pair(&log[0], "authorization"),
        Some("Basic bWU6YStiJTNBYw==")
    );
}

#[tokio::test]
async fn a_login_goes_nowhere_that_was_not_allowed() {
    let (host, _) = server(30);
    let folder = tempfile::tempdir().unwrap();
    let store = TokenStore::new(folder.path().to_owned());
    let elsewhere = Fetcher::new(FetchPolicy::allowing(["example.com"]).unwrap()).unwrap();
    for url in [format!("http://{host}/mcp"), "stdio:x".to_owned()] {
        let shown = |_: &str| panic!("there is nothing to show");
        let secret = String::new;
        let settings = McpSettings::default();
        let error = login(&elsewhere, &url, &settings, &store, secret, shown).await;
        assert!(error.is_err());
    }
}
