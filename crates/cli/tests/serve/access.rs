//! Access to a server: tokens, scopes, hosts and origins.

use std::path::Path;

use serde_json::json;

use crate::client::Served;
use crate::program::{folder, run};

const AGENT: &str = "<config model=\"echo:\"/>\n";

fn token(folder: &Path, arguments: &[&str]) -> String {
    let arguments = ["serve", "token", "create"].iter().chain(arguments);
    let ran = run(folder, arguments);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran.stdout.trim().to_owned()
}

fn status(served: &Served, method: &str, path: &str, token: &str, body: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    served.request(method, path, &headers, body).status
}

#[test]
fn a_token_permits_its_scopes_only() {
    let folder = folder(&[("agent.md", AGENT), ("other.md", AGENT)]);
    let reader = token(folder.path(), &["reader", "--scope", "read"]);
    let sender = token(
        folder.path(),
        &["sender", "--scope", "read,send", "--agent", "agent"],
    );
    let approver = token(folder.path(), &["approver", "--scope", "approve"]);
    let whole = token(folder.path(), &["whole", "--scope", "read,send"]);
    let served = Served::start(folder.path(), &["agent.md", "other.md"]);
    let message = json!({"message": "go", "agent": "agent"}).to_string();
    let other = json!({"message": "go", "agent": "other"}).to_string();
    let decision = json!({"approval": "approve"}).to_string();
    let (send, list, signal) = ("/v1/sessions/s1/send", "/v1/sessions", "/v1/signals/none");
    let cases = [
        ("POST", send, &reader, &message, 403),
        ("POST", send, &approver, &message, 403),
        ("POST", send, &sender, &message, 200),
        ("POST", "/v1/sessions/s2/send", &sender, &other, 404),
        ("POST", "/v1/sessions/s2/send", &whole, &other, 200),
        ("GET", list, &reader, &String::new(), 200),
        ("GET", list, &approver, &String::new(), 403),
        ("POST", signal, &sender, &decision, 403),
        ("POST", signal, &approver, &decision, 404),
    ];
    for (method, path, token, body, expected) in cases {
        let found = status(&served, method, path, token, body);
        assert_eq!(found, expected, "{method} {path} {body}");
    }
    // Metrics have labels of the agents of the token only.
    for (token, agents) in [
        (&whole, ["agent", "other"].as_slice()),
        (&sender, &["agent"]),
    ] {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        let text = served.request("GET", "/metrics", &headers, "").text;
        let named = ["agent", "other"].into_iter();
        let named = named.filter(|name| text.contains(&format!("agent=\"{name}\"")));
        assert_eq!(named.collect::<Vec<_>>(), agents, "{text}");
    }
    // With tokens, a client without one is refused on loopback, too.
    assert_eq!(served.get(list).status, 401);
    assert_eq!(status(&served, "GET", list, "logue_wrong", ""), 401);
    assert_eq!(served.get("/healthz").status, 200);
    // Clients of the OpenAI API read its errors only.
    let refused = served.post("/v1/chat/completions", &json!({})).json();
    assert_eq!(refused["error"]["type"], "authentication_error");

    // Neither the store of tokens nor the process list contains a token.
    let stored =
        std::fs::read_to_string(folder.path().join(".local/state/logue/serve-tokens.json"));
    let stored = stored.unwrap();
    for secret in [&reader, &sender, &approver, &whole] {
        assert!(!stored.contains(secret.as_str()), "{stored}");
    }
    let listed = run(folder.path(), ["serve", "token", "list"]);
    assert_eq!(
        listed.stdout,
        "reader  read\nsender  read,send\napprover  approve\nwhole  read,send\n"
    );
    let revoked = run(folder.path(), ["serve", "token", "revoke", "reader"]);
    assert_eq!(revoked.status, 0, "{}", revoked.stderr);
    crate::waiting::wait_until(
        || "the token works".to_owned(),
        || status(&served, "GET", list, &reader, "") == 401,
    );
}

#[test]
fn one_token_cannot_send_and_approve() {
    let folder = folder(&[]);
    let arguments = ["serve", "token", "create", "all", "--scope", "send,approve"];
    let ran = run(folder.path(), arguments);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert_eq!(run(folder.path(), ["serve", "token", "list"]).stdout, "");
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let folder = folder(&[("agent.md", AGENT)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let message = json!({"message": "go"}).to_string();
    let send = |headers: &[(&str, &str)]| {
        let answer = served.request("POST", "/v1/sessions/s1/send", headers, &message);
        answer.status
    };
    let own = format!("http://{}", served.address);
    assert_eq!(send(&[("origin", "https://page.example")]), 403);
    assert_eq!(send(&[("origin", "null")]), 403);
    assert_eq!(send(&[("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(send(&[("host", "page.example")]), 403);
    assert_eq!(
        send(&[("host", "localhost"), ("host", "page.example")]),
        400
    );
    assert!(!served.get("/v1/sessions").text.contains("s1"));
    assert_eq!(send(&[("origin", own.as_str())]), 200);
}

#[test]
fn an_address_of_the_network_requires_a_token() {
    let folder = folder(&[("agent.md", AGENT)]);
    let network = ["--listen", "0.0.0.0:0"];
    // The clients of a proxy are on this machine for the server.
    let proxy = ["--host-name", "chat.example.org"];
    for flag in [network, proxy] {
        let ran = run(folder.path(), [&["serve", "agent.md"][..], &flag].concat());
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        let help = "logue serve token create";
        assert!(ran.stderr.contains(help), "{}", ran.stderr);
    }
}

#[test]
fn another_token_of_the_same_name_owns_no_responses() {
    let folder = folder(&[("agent.md", AGENT)]);
    let create = ["phone", "--scope", "read,send"];
    let first = token(folder.path(), &create);
    let served = Served::start(folder.path(), &["agent.md"]);
    let bearer = format!("Bearer {first}");
    let headers = [("authorization", bearer.as_str())];
    let body = json!({"model": "agent", "input": "mine"}).to_string();
    let answered = served.request("POST", "/v1/responses", &headers, &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    let answered = answered.json();
    let path = format!("/v1/responses/{}", answered["id"].as_str().unwrap());
    assert_eq!(status(&served, "GET", &path, &first, ""), 200);
    let revoked = run(folder.path(), ["serve", "token", "revoke", "phone"]);
    assert_eq!(revoked.status, 0, "{}", revoked.stderr);
    let second = token(folder.path(), &create);
    crate::waiting::wait_until(
        || "the new token does not work".to_owned(),
        || status(&served, "GET", "/v1/sessions", &second, "") == 200,
    );
    assert_eq!(status(&served, "GET", &path, &second, ""), 404);
}
