//! Addresses of the upstream server with a path, a query or a fragment.

use std::net::TcpListener;

use serde_json::json;
use testkit::{Delivery, ModelServer};

use super::{PATH, body, gateway, reply, user};
use crate::program::{Ran, folder, logue};

const DONE: &str = "<|channel|>final<|message|>done<|return|>";
/// Its slashes are no part of a path.
const QUERY: &str = "?key=a%2Fb/c/&x=1";

#[test]
fn the_query_of_the_upstream_server_follows_the_path_of_the_request() {
    let model = ModelServer::start(vec![reply(DONE)], Delivery::Whole).unwrap();
    let base = model.base_url();
    let origin = base.strip_suffix("/v1").unwrap();
    let folder = folder(&[]);
    let cases = [
        ("", "/v1/completions"),
        ("/", "/v1/completions"),
        ("/own", "/own/completions"),
        ("/own/deep/", "/own/deep/completions"),
    ];
    for (number, (path, expected)) in cases.into_iter().enumerate() {
        for (end, query) in ["", QUERY].into_iter().enumerate() {
            let upstream = format!("{origin}{path}{query}");
            let served = gateway(folder.path(), &upstream, &[]);
            let answer = served.post(PATH, &body(&json!([user("go")]), &json!({})));
            assert_eq!(answer.status, 200, "{upstream}: {answer:?}");
            let received = model.received();
            assert_eq!(received.len(), 2 * number + end + 1);
            let line = &received.last().unwrap().line;
            let expected = format!("POST {expected}{query} HTTP/1.1");
            assert_eq!(*line, expected, "{upstream}");
        }
    }
}

#[test]
fn a_fragment_is_refused_at_the_start() {
    let folder = folder(&[]);
    for upstream in [
        "http://127.0.0.1:9/own?key=secret-value#part",
        "http://127.0.0.1:9#part",
        "http://127.0.0.1:9/own#",
    ] {
        let mut command = logue(folder.path());
        command.args(["serve", "harmony:gpt-oss-20b", "--listen", "127.0.0.1:0"]);
        command.args(["--upstream", upstream]);
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.status, 3, "{upstream}: {}", ran.stderr);
        assert!(ran.stderr.contains("it has a fragment"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("secret-value"), "{}", ran.stderr);
    }
}

/// A query may contain a key.
#[test]
fn the_query_of_the_upstream_server_is_in_no_message() {
    let folder = folder(&[]);
    // Nothing listens on the port of a listener that is closed.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = format!(
        "http://{}/own?key=secret-value",
        closed.local_addr().unwrap()
    );
    drop(closed);
    let served = gateway(folder.path(), &upstream, &["--debug-view"]);
    let answer = served.post(PATH, &body(&json!([user("go")]), &json!({})));
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(!answer.text.contains("secret-value"), "{answer:?}");
    let said = served.end().stderr;
    assert!(said.contains("/own/completions?[secret]"), "{said}");
    assert!(!said.contains("secret-value"), "{said}");
}
