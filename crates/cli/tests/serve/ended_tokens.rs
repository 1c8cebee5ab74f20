//! Requests and streams that are open when their token is revoked or expires.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use testkit::{Delivery, Gate, ModelServer, Reply, text_delta};

use crate::client::Served;
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n";
/// The wait after which a connection counts as open.
const OPEN: Duration = Duration::from_secs(20);

fn create(folder: &Path, name: &str, arguments: &[&str]) -> String {
    let create = ["serve", "token", "create", name, "--scope", "read,send"];
    let ran = run(folder, [&create[..], arguments].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran.stdout.trim().to_owned()
}

/// Reads a connection to its end, and returns its bytes as text.
fn to_end(what: &str, mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(OPEN)).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{what} is open: {error}"),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Returns a model that sends a piece of each answer and no end.
fn unending() -> ModelServer {
    let pieces = vec![text_delta("one "), text_delta("two")];
    ModelServer::start_by(
        move |_| Reply::Gated(pieces.clone(), Gate::new()),
        Delivery::Whole,
    )
    .unwrap()
}

/// The requests of all faces that last, with the text by which each has begun.
fn requests() -> Vec<(&'static str, String, String, bool)> {
    let user = json!([{"role": "user", "content": "go"}]);
    let run = json!({"threadId": "t1", "runId": "r1", "tools": [], "context": [], "state": {},
        "forwardedProps": {}, "messages": [{"id": "m", "role": "user", "content": "go"}]});
    let chat = "/v1/chat/completions".to_owned();
    let responses = "/v1/responses".to_owned();
    let mut requests = Vec::new();
    for is_stream in [true, false] {
        let send = format!("/v1/sessions/send-{is_stream}/send");
        requests.push((
            "POST",
            send,
            json!({"message": "go"}).to_string(),
            is_stream,
        ));
        for (path, body) in [
            (
                &chat,
                json!({"model": "agent", "messages": user, "stream": is_stream}),
            ),
            (
                &responses,
                json!({"model": "agent", "input": "go", "stream": is_stream}),
            ),
            (
                &responses,
                json!({"model": "agent", "input": "go", "stream": is_stream, "store": false}),
            ),
        ] {
            requests.push(("POST", path.clone(), body.to_string(), is_stream));
        }
    }
    requests.push(("POST", "/v1/ag-ui/agent".to_owned(), run.to_string(), true));
    let events = "/v1/sessions/first/events?after=0-1".to_owned();
    requests.push(("GET", events, String::new(), true));
    requests
}

/// Opens requests of all faces, ends their token, and requires the end of each.
fn check(served: &Served, header: (&str, &str), other: &str, end: impl FnOnce()) {
    let origin = format!("http://{}", served.address);
    let other = format!("Bearer {other}");
    let begin = json!({"message": "go"}).to_string();
    let own = [("authorization", other.as_str())];
    let mut first = served
        .try_events("POST", "/v1/sessions/first/send", &own, &begin)
        .unwrap();
    first.until("answer.delta");
    let opened: Vec<_> = requests()
        .into_iter()
        .map(|(method, path, body, is_stream)| {
            let accept = if is_stream {
                "text/event-stream"
            } else {
                "application/json"
            };
            let headers = [header, ("origin", origin.as_str()), ("accept", accept)];
            let stream = served.connect(method, &path, &headers, &body).unwrap();
            (format!("{path} {body}"), stream, is_stream)
        })
        .collect();
    // All turns run: those of the requests, and the first one.
    let turns = opened.len();
    wait_until(
        || "the turns have not begun".to_owned(),
        || {
            let metrics = served.request("GET", "/metrics", &own, "").text;
            let count = metrics.lines().find_map(|line| {
                let first = line.strip_prefix("logue_turn_first_delta_seconds_count{")?;
                first.rsplit(' ').next()?.parse().ok()
            });
            count == Some(turns)
        },
    );
    end();
    for (what, stream, is_stream) in opened {
        let text = to_end(&what, stream);
        if is_stream {
            assert!(text.starts_with("HTTP/1.1 200 "), "{what}: {text}");
            assert!(text.contains("one "), "{what}: {text}");
            // The connection is cut, so that no client takes a part for the whole.
            assert!(!text.ends_with("0\r\n\r\n"), "{what}: {text}");
        } else {
            assert!(text.starts_with("HTTP/1.1 401 "), "{what}: {text}");
            assert!(text.contains("\"unauthorized\""), "{what}: {text}");
        }
    }
    // Nothing of others ends.
    let shown = served.request("GET", "/v1/sessions/first", &own, "");
    assert_eq!(shown.status, 200, "{shown:?}");
    let cancelled = served.request("POST", "/v1/sessions/first/cancel", &own, "{}");
    assert_eq!(cancelled.json()["cancelling"], true, "{cancelled:?}");
    first.until("turn.failed");
}

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md"])
}

#[test]
fn open_requests_end_when_their_token_is_revoked() {
    let model = unending();
    let folder = folder(&[("agent.md", AGENT)]);
    let other = create(folder.path(), "other", &[]);
    let secret = create(folder.path(), "phone", &[]);
    let served = serve(folder.path(), &model);
    let bearer = format!("Bearer {secret}");
    check(&served, ("authorization", &bearer), &other, || {
        let ran = run(folder.path(), ["serve", "token", "revoke", "phone"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    });
}

#[test]
fn open_requests_of_a_cookie_end_with_its_token() {
    let model = unending();
    let folder = folder(&[("agent.md", AGENT)]);
    let other = create(folder.path(), "other", &[]);
    let secret = create(folder.path(), "phone", &[]);
    let served = serve(folder.path(), &model);
    let (bearer, origin) = (
        format!("Bearer {secret}"),
        format!("http://{}", served.address),
    );
    let headers = [("authorization", &*bearer), ("origin", &*origin)];
    let login = served.request("POST", "/v1/login", &headers, "");
    let cookie = login.head.split("set-cookie: ").nth(1).unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    check(&served, ("cookie", &cookie), &other, || {
        let ran = run(folder.path(), ["serve", "token", "revoke", "phone"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    });
}

#[test]
fn open_requests_end_when_their_token_expires() {
    let model = unending();
    let folder = folder(&[("agent.md", AGENT)]);
    let other = create(folder.path(), "other", &[]);
    let served = serve(folder.path(), &model);
    let secret = create(folder.path(), "phone", &["--expires", "1h"]);
    let bearer = format!("Bearer {secret}");
    let headers = [("authorization", &*bearer)];
    wait_until(
        || "the token does not work".to_owned(),
        || served.request("GET", "/v1/me", &headers, "").status == 200,
    );
    check(&served, headers[0], &other, || {
        // The hour is over.
        let file = folder.path().join(".local/state/logue/serve-tokens.json");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut tokens: serde_json::Value = serde_json::from_str(&text).unwrap();
        let token = tokens.as_array_mut().unwrap().last_mut().unwrap();
        assert_eq!(token["name"], "phone");
        token["expires_at"] = json!(1);
        std::fs::write(&file, tokens.to_string()).unwrap();
    });
}

#[test]
fn a_token_that_no_request_saw_closes_the_server() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    let path = "/v1/sessions/s1/events";
    let open = served.connect("GET", path, &[], "").unwrap();
    create(folder.path(), "phone", &[]);
    // The stream of a client without a token ends, which shows that the server has read the file.
    let text = to_end(path, open);
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let ran = run(folder.path(), ["serve", "token", "revoke", "phone"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(served.get("/v1/me").status, 401);
}
