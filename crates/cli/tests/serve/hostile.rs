//! Hostile clients over raw sockets: each is refused or loses its connection, and the server lives on.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::client::Served;
use crate::program::folder;

const AGENT: &str = "<config model=\"echo:\"/>\n";
/// The longest wait for the end of a connection, above all limits of the server.
const PATIENCE: Duration = Duration::from_secs(180);
/// The body of a message.
const BODY: &str = r#"{"message": "go"}"#;

fn serve(arguments: &[&str]) -> (TempDir, Served) {
    let folder = folder(&[("agent.md", AGENT)]);
    let arguments: Vec<&str> = ["agent.md"].iter().chain(arguments).copied().collect();
    let served = Served::start(folder.path(), &arguments);
    (folder, served)
}

fn open(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(&served.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads to the end of a connection. A reset is an end, too.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends bytes and reads to the end of the connection.
fn answer(served: &Served, bytes: &[u8]) -> String {
    let mut stream = open(served);
    // The server may refuse before it has read everything.
    drop(stream.write_all(bytes));
    rest(stream)
}

/// Returns the statuses of the answers on a connection.
fn statuses(answer: &str) -> Vec<u16> {
    let heads = answer.split("HTTP/1.1 ").skip(1);
    heads.map(|head| head[..3].parse().unwrap()).collect()
}

/// Returns a request that ends its connection; `headers` has the line ends.
fn request(served: &Served, line: &str, headers: &str, body: &str) -> String {
    let host = &served.address;
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// Checks that the server answers, has stored nothing, and has reported no panic.
fn check_alive(served: &Served) {
    assert_eq!(served.get("/healthz").text, "ok\n");
    assert_eq!(served.get("/v1/sessions").json()["sessions"], json!([]));
    assert!(!served.said().contains("panicked"), "{}", served.said());
}

const SEND: &str = "POST /v1/sessions/s1/send";
const JSON: &str = "content-type: application/json\r\n";

#[test]
fn names_of_other_hosts_are_refused() {
    let (_folder, served) = serve(&[]);
    let port = served.address.rsplit_once(':').unwrap().1.to_owned();
    let hosts = [
        "rebound.example".to_owned(),
        format!("rebound.example:{port}"),
        format!("localhost.rebound.example:{port}"),
        format!("127.0.0.1.rebound.example:{port}"),
        format!("127.0.0.1@rebound.example:{port}"),
        "[::1].rebound.example".to_owned(),
        "[::1]rebound.example".to_owned(),
        "127.0.0.1,rebound.example".to_owned(),
        "localhost.".to_owned(),
        "0.0.0.0".to_owned(),
        String::new(),
    ];
    for host in &hosts {
        for line in [SEND, "GET /v1/sessions", "GET /"] {
            let length = BODY.len();
            let text = format!(
                "{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{JSON}\
                 content-length: {length}\r\n\r\n{BODY}"
            );
            let found = answer(&served, text.as_bytes());
            assert_eq!(statuses(&found), [403], "{host} {line}: {found}");
            assert!(found.contains("host_refused"), "{found}");
        }
    }
    let old = answer(&served, b"GET /v1/sessions HTTP/1.0\r\n\r\n");
    assert!(old.contains(" 403 "), "{old}");
    check_alive(&served);
}

#[test]
fn pages_of_other_origins_neither_read_nor_write() {
    let (_folder, served) = serve(&[]);
    let port = served.address.rsplit_once(':').unwrap().1.to_owned();
    let headers = [
        "origin: https://page.example\r\n".to_owned(),
        "origin: null\r\n".to_owned(),
        "origin: \r\n".to_owned(),
        // Another server of this machine, and another name of this one.
        "origin: http://127.0.0.1:1\r\n".to_owned(),
        format!("origin: http://localhost:{port}\r\n"),
        format!("origin: http://{}.page.example\r\n", served.address),
        "sec-fetch-site: cross-site\r\n".to_owned(),
        "sec-fetch-site: same-site\r\n".to_owned(),
    ];
    for header in &headers {
        for line in [
            SEND,
            "DELETE /v1/sessions/s1",
            "POST /v1/signals/x",
            "POST /v1/login",
            "GET /v1/sessions",
            "GET /v1/sessions/s1/events",
        ] {
            let text = request(&served, line, &format!("{header}{JSON}"), BODY);
            let found = answer(&served, text.as_bytes());
            assert_eq!(statuses(&found), [403], "{header} {line}: {found}");
            assert!(found.contains("origin_refused"), "{found}");
        }
    }
    // A link of another page leads to this one.
    let link = request(&served, "GET /", "sec-fetch-site: cross-site\r\n", "");
    assert_eq!(statuses(&answer(&served, link.as_bytes())), [200]);
    check_alive(&served);
}

#[test]
fn repeated_headers_are_refused() {
    let (_folder, served) = serve(&[]);
    let address = &served.address;
    let repeated = [
        format!("host: {address}\r\n"),
        "host: rebound.example\r\n".to_owned(),
        "content-length: 3\r\n".to_owned(),
        "authorization: Bearer a\r\nauthorization: Bearer b\r\n".to_owned(),
        "idempotency-key: a\r\nidempotency-key: b\r\n".to_owned(),
        format!("origin: http://{address}\r\norigin: https://page.example\r\n"),
        "content-type: text/plain\r\n".to_owned(),
    ];
    for headers in &repeated {
        let text = request(&served, SEND, &format!("{JSON}{headers}"), BODY);
        let found = answer(&served, text.as_bytes());
        assert_eq!(statuses(&found), [400], "{headers}: {found}");
    }
    let last = "last-event-id: 0-1\r\nlast-event-id: 5-1\r\n";
    let text = request(&served, "GET /v1/sessions/s1/events", last, "");
    let found = answer(&served, text.as_bytes());
    assert!(matches!(statuses(&found)[..], [400 | 404]), "{found}");
    check_alive(&served);
}

#[test]
fn a_body_that_is_not_json_is_refused() {
    let (_folder, served) = serve(&[]);
    let kinds = [
        "",
        "content-type: text/plain\r\n",
        "content-type: text/plain;charset=application/json\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: multipart/form-data; boundary=x\r\n",
        "content-type: application/jsonp\r\n",
        "content-type: \r\n",
    ];
    let lines = [
        SEND,
        "POST /v1/chat/completions",
        "POST /v1/responses",
        "POST /v1/ag-ui/agent",
        "POST /v1/sessions/s1/cancel",
        "DELETE /v1/sessions/s1",
    ];
    for kind in kinds {
        for line in lines {
            let text = request(&served, line, kind, BODY);
            let found = answer(&served, text.as_bytes());
            assert_eq!(statuses(&found), [415], "{line} {kind}: {found}");
            assert!(found.contains("content_type_unsupported"), "{found}");
        }
    }
    check_alive(&served);
    for kind in ["application/json; charset=utf-8", "application/vnd.x+JSON"] {
        let kind = format!("content-type: {kind}\r\n");
        let text = request(&served, SEND, &kind, BODY);
        assert_eq!(statuses(&answer(&served, text.as_bytes())), [200], "{kind}");
    }
}

#[test]
fn no_request_hides_in_the_body_of_another() {
    let (_folder, served) = serve(&[]);
    let host = &served.address;
    let hidden = format!(
        "{SEND} HTTP/1.1\r\nhost: {host}\r\n{JSON}content-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let start = format!("POST /v1/sessions/s2/cancel HTTP/1.1\r\nhost: {host}\r\n{JSON}");
    let chunked = "transfer-encoding: chunked\r\n";
    let all = hidden.len() + 5;
    let requests = [
        // The lengths differ.
        format!("{start}content-length: {all}\r\n{chunked}\r\n0\r\n\r\n{hidden}"),
        format!("{start}{chunked}content-length: {all}\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{start}content-length: 2\r\ncontent-length: {all}\r\n\r\n{{}}{hidden}"),
        format!("{start}content-length: +2\r\n\r\n{{}}{hidden}"),
        format!("{start}content-length: 2, 2\r\n\r\n{{}}{hidden}"),
        format!("{start}content-length: 18446744073709551618\r\n\r\n{{}}{hidden}"),
        // The last coding is not chunked, or only nearly.
        format!("{start}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{start}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{start}transfer-encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{start} transfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{start}{chunked}transfer-encoding: identity\r\n\r\n0\r\n\r\n{hidden}"),
        // The chunks are malformed.
        format!("{start}{chunked}\r\n-1\r\n\r\n{hidden}"),
        format!("{start}{chunked}\r\n2;\n{{}}\r\n0\r\n\r\n{hidden}"),
        format!("{start}{chunked}\r\n10000000000000002\r\n{{}}\r\n0\r\n\r\n{hidden}"),
        format!("{start}{chunked}\r\n0\r\n\r\n{hidden}")
            .replace("HTTP/1.1\r\nhost", "HTTP/1.0\r\nhost"),
    ];
    for text in &requests {
        let found = answer(&served, text.as_bytes());
        // A second answer would be that of the hidden request.
        assert!(statuses(&found).len() <= 1, "{text}: {found}");
        assert_eq!(served.get("/v1/sessions/s1").status, 404, "{text}");
    }
    check_alive(&served);
}

#[test]
fn malformed_heads_are_refused() {
    let (_folder, served) = serve(&[]);
    let host = format!("host: {}\r\nconnection: close\r\n", served.address);
    let large = "x".repeat(80 * 1024);
    let many = "x-a: b\r\n".repeat(300);
    let heads = [
        format!("GET /v1/sessions HTTP/1.1\r\n{host}x-large: {large}\r\n\r\n"),
        format!("GET /v1/sessions?{large} HTTP/1.1\r\n{host}\r\n"),
        format!("GET /v1/sessions HTTP/1.1\r\n{host}{many}\r\n"),
        format!("GET /v1/\x01sessions HTTP/1.1\r\n{host}\r\n"),
        format!("GET /v1/sess\0ions HTTP/1.1\r\n{host}\r\n"),
        format!("GET /v1/sessions\r HTTP/1.1\r\n{host}\r\n"),
        format!("GET /v1/ses sions HTTP/1.1\r\n{host}\r\n"),
        format!("G\x1bET /v1/sessions HTTP/1.1\r\n{host}\r\n"),
        format!("GET /v1/sessions HTTP/1.1\r\n{host}x-a: b\0c\r\n\r\n"),
        format!("GET /v1/sessions HTTP/1.1\r\n{host}x\x7fa: b\r\n\r\n"),
        format!("GET /v1/sessions HTTP/1.1\r\n{host}x-a: b\r\n c\r\n\r\n"),
        format!("GET /v1/sessions HTTP/3.7\r\n{host}\r\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n".to_owned(),
        "\r\n".repeat(50_000),
        // Targets that name another host than `Host`.
        format!("GET http://rebound.example/v1/sessions HTTP/1.1\r\n{host}\r\n"),
        format!(
            "GET http://user@{}/v1/sessions HTTP/1.1\r\n{host}\r\n",
            served.address
        ),
        format!("CONNECT rebound.example:443 HTTP/1.1\r\n{host}\r\n"),
        format!("GET //rebound.example/v1/sessions HTTP/1.1\r\n{host}\r\n"),
        format!("GET /page/../v1/sessions HTTP/1.1\r\n{host}\r\n"),
        format!("GET /page/%2e%2e/v1/sessions HTTP/1.1\r\n{host}\r\n"),
        format!("OPTIONS * HTTP/1.1\r\n{host}\r\n"),
    ];
    for head in &heads {
        let found = answer(&served, head.as_bytes());
        let is_refused = statuses(&found).iter().all(|status| *status >= 400);
        let start: String = head.chars().take(80).collect();
        assert!(
            is_refused && !found.contains("\"sessions\""),
            "{start:?}: {found}"
        );
    }
    check_alive(&served);
}

#[test]
fn a_body_above_the_limit_is_refused_before_it_is_read() {
    let (_folder, served) = serve(&[]);
    let host = &served.address;
    let start = format!("{SEND} HTTP/1.1\r\nhost: {host}\r\n{JSON}");
    let declared = format!("{start}content-length: 9000000\r\n\r\n");
    let found = answer(&served, declared.as_bytes());
    assert_eq!(statuses(&found), [413], "{found}");
    assert!(found.contains("body_too_large"), "{found}");

    let mut stream = open(&served);
    let head = format!("{start}transfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut written = 0;
    // Without a limit the chunks would never end.
    while stream.write_all(chunk.as_bytes()).is_ok() {
        written += 1;
        assert!(written < 10_000, "the server reads on");
    }
    // The answer may be lost with the connection.
    let found = rest(stream);
    assert!(matches!(statuses(&found)[..], [] | [413]), "{found}");
    check_alive(&served);
}

/// Writes bytes one by one until the server ends the connection, and returns what it sent.
fn trickle(served: &Served, start: &str, byte: u8) -> String {
    let mut stream = open(served);
    stream.write_all(start.as_bytes()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut found = Vec::new();
    let mut part = [0; 1024];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => found.extend(&part[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if stream.write_all(&[byte]).is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}

#[test]
fn slow_clients_lose_their_connections() {
    let (_folder, served) = serve(&["--max-connections", "4"]);
    let (_other_folder, other) = serve(&["--max-connections", "1"]);
    let host = format!("host: {}\r\n", served.address);
    let head = format!("GET /v1/sessions HTTP/1.1\r\n{host}x-a: ");
    let body = format!("{SEND} HTTP/1.1\r\n{host}{JSON}content-length: 1000\r\n\r\n{{");
    std::thread::scope(|scope| {
        let slow_head = scope.spawn(|| trickle(&served, &head, b'x'));
        let slow_body = scope.spawn(|| trickle(&served, &body, b' '));
        // Connections that send nothing, more than may be open.
        let idle = scope.spawn(|| {
            let idle: Vec<TcpStream> = (0..8).map(|_| open(&served)).collect();
            idle.into_iter().map(rest).collect::<String>()
        });
        let unread = scope.spawn(|| {
            // More than the buffers of a connection hold.
            let message = json!({ "message": "x".repeat(3 << 20) });
            for _ in 0..5 {
                let sent = other.post("/v1/sessions/s1/send", &message);
                assert_eq!(sent.status, 200);
            }
            let mut unread = open(&other);
            let line = "GET /v1/sessions/s1/messages";
            let sent = request(&other, line, "", "");
            unread.write_all(sent.as_bytes()).unwrap();
            // The only connection is free when the server has given up the client that never reads.
            let waiting = request(&other, "GET /v1/sessions/s1", "", "");
            let found = answer(&other, waiting.as_bytes());
            drop(unread);
            found
        });
        let found = slow_head.join().unwrap();
        assert!(matches!(statuses(&found)[..], [] | [408]), "{found}");
        let found = slow_body.join().unwrap();
        assert_eq!(statuses(&found), [408], "{found}");
        let found = idle.join().unwrap();
        assert!(
            statuses(&found).iter().all(|status| *status == 408),
            "{found}"
        );
        let found = unread.join().unwrap();
        assert_eq!(statuses(&found), [200], "{found}");
    });
    check_alive(&served);
}
