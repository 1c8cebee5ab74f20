//! Fetching from real servers on this machine that answer well, badly and never.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use logue_message::ToolCall;
use logue_tools::{
    AccessScope, BoxFuture, Builtin, FetchCategory, FetchError, FetchPolicy, Fetched, Fetcher,
    HostRule, Resolver, Roots, ToolResult, Toolbox,
};

/// Answers each request by its path, until the test's process ends.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), Arc::clone(&answer));
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                let mut asked = first.split(' ').nth(1).unwrap().to_owned();
                for line in lines {
                    let line = line.unwrap();
                    if line.is_empty() {
                        break;
                    }
                    if let Some(host) = line.strip_prefix("host: ") {
                        asked = format!("{host}{asked}");
                    }
                }
                answer(&asked, &mut stream);
            });
        }
    });
    port
}

/// A server whose answers are whole texts: status line, headers, empty line, body.
fn scripted(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> u16 {
    serve(move |asked, stream| {
        let text = answer(asked);
        let (head, body) = text.split_once("\n\n").unwrap();
        let head = head.replace('\n', "\r\n");
        let length = body.len();
        // A client that goes away early is not the server's failure.
        drop(write!(
            stream,
            "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ));
    })
}

fn fetcher(rules: &[&str]) -> Fetcher {
    Fetcher::new(FetchPolicy::allowing(rules).unwrap()).unwrap()
}

async fn get(rule: &str, url: &str) -> Result<Fetched, FetchError> {
    fetcher(&[rule]).get(url).await
}

async fn category(rule: &str, url: &str) -> FetchCategory {
    get(rule, url).await.unwrap_err().category
}

#[tokio::test]
async fn an_allowed_page_is_fetched_with_its_port_and_query() {
    let port = scripted(|asked| {
        format!("200 OK\ncontent-type: Text/HTML; Charset=\"latin1\"\n\nasked {asked}")
    });
    let url = format!("http://localhost:{port}/a/b?c=d&e#f");
    let page = get(&format!("localhost:{port}"), &url).await.unwrap();
    assert_eq!(page.text(), format!("asked localhost:{port}/a/b?c=d&e"));
    assert_eq!(page.url, format!("http://localhost:{port}/a/b?c=d&e"));
    assert_eq!(page.media_type.as_deref(), Some("text/html"));
    assert_eq!(page.charset.as_deref(), Some("latin1"));
    assert!(page.is_html() && page.is_text());
    let any = get("localhost:*", &url).await.unwrap();
    assert_eq!(any, page);
}

#[tokio::test]
async fn nothing_is_allowed_unless_it_is_named() {
    let port = scripted(|_| "200 OK\n\nx".to_owned());
    let url = format!("http://127.0.0.1:{port}/");
    let error = fetcher(&[]).get(&url).await.unwrap_err();
    assert_eq!(error.category, FetchCategory::Denied);
    assert_eq!(error.category.as_str(), "denied");
    assert!(error.message.contains(&url), "{error}");
    let help = error.help.unwrap();
    assert!(
        help.contains(&format!("--allow-host 127.0.0.1:{port}")),
        "{help}"
    );
    assert!(
        help.contains("[network]") && help.contains("logue.toml"),
        "{help}"
    );

    for rule in [
        "localhost:*",
        "127.0.0.1",
        "127.0.0.1:1",
        "*.example.com:*",
        "example.com",
    ] {
        assert_eq!(category(rule, &url).await, FetchCategory::Denied, "{rule}");
    }
    for url in [
        "https://example.com/",
        "http://example.com.evil.org",
        "https://xexample.com/",
        "https://a.example.com:8443/",
    ] {
        assert_eq!(
            category("*.example.com", url).await,
            FetchCategory::Denied,
            "{url}"
        );
    }
    // Other ways to write the same number are the same host.
    for host in ["0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{port}/");
        assert_eq!(
            category("example.com:*", &url).await,
            FetchCategory::Denied,
            "{url}"
        );
    }
    assert!(
        get("127.0.0.1:*", &format!("http://0x7f.1:{port}/"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn what_is_no_address_is_refused() {
    for url in [
        "",
        "example.com",
        "/a",
        "file:///etc/passwd",
        "ftp://example.com/",
        "http://",
        "data:text/html,x",
        "javascript:x",
    ] {
        assert_eq!(
            category("example.com", url).await,
            FetchCategory::Address,
            "{url}"
        );
    }
    let error = get("example.com", "https://me:secret@example.com/")
        .await
        .unwrap_err();
    assert_eq!(error.category, FetchCategory::Address);
    let all = format!("{error:?}");
    assert!(!all.contains("secret") && !all.contains("me:"), "{all}");
    let long = format!("https://example.com/{}", "x".repeat(10_000));
    assert_eq!(category("example.com", &long).await, FetchCategory::Address);
}

#[tokio::test]
async fn redirects_are_followed_within_the_policy() {
    let other = scripted(|_| "200 OK\n\nother".to_owned());
    let port = scripted(move |asked| {
        let path = asked.split_once('/').unwrap().1;
        match path {
            "end" => "200 OK\n\nend".to_owned(),
            "relative" => "302 Found\nlocation: ./end\n\n".to_owned(),
            "other" => format!("307 Moved\nlocation: http://127.0.0.1:{other}/\n\n"),
            "name" => format!("301 Moved\nlocation: http://localhost:{other}/\n\n"),
            "private" => {
                "301 Moved\nlocation: http://169.254.169.254/latest/meta-data\n\n".to_owned()
            }
            "file" => "301 Moved\nlocation: file:///etc/passwd\n\n".to_owned(),
            "login" => "301 Moved\nlocation: http://a:b@127.0.0.1/\n\n".to_owned(),
            "nowhere" => "301 Moved\n\n".to_owned(),
            "broken" => "301 Moved\nlocation: http://[\n\n".to_owned(),
            "loop" => "301 Moved\nlocation: /loop\n\n".to_owned(),
            number => {
                let next = number.parse::<u32>().unwrap() - 1;
                let next = if next == 0 {
                    "end".to_owned()
                } else {
                    next.to_string()
                };
                format!("308 Moved\nlocation: /{next}\n\n")
            }
        }
    });
    let rule = format!("127.0.0.1:{port}");
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let page = get(&rule, &url("relative")).await.unwrap();
    assert_eq!(
        (page.text().as_ref(), page.url.as_str()),
        ("end", url("end").as_str())
    );
    assert!(get(&rule, &url("5")).await.is_ok());
    for (path, expected) in [
        ("6", FetchCategory::Redirect),
        ("loop", FetchCategory::Redirect),
        ("nowhere", FetchCategory::Redirect),
        ("broken", FetchCategory::Redirect),
        ("file", FetchCategory::Redirect),
        ("login", FetchCategory::Redirect),
        ("other", FetchCategory::Denied),
        ("name", FetchCategory::Denied),
        ("private", FetchCategory::Denied),
    ] {
        let error = get(&rule, &url(path)).await.unwrap_err();
        assert_eq!(error.category, expected, "{path}: {error}");
        assert!(!format!("{error:?}").contains("a:b"), "{error:?}");
    }
    let both = fetcher(&[&rule, &format!("127.0.0.1:{other}")]);
    assert_eq!(both.get(&url("other")).await.unwrap().text(), "other");
}

/// Gives the numbers of a script, one answer after the other.
struct Script(Mutex<Vec<IpAddr>>, AtomicUsize);

impl Script {
    fn new(numbers: &[&str]) -> Arc<Self> {
        let numbers = numbers.iter().map(|one| one.parse().unwrap()).collect();
        Arc::new(Self(Mutex::new(numbers), AtomicUsize::new(0)))
    }
}

impl Resolver for Script {
    fn lookup<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
    }
}

#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_refused() {
    let port = scripted(|_| "200 OK\n\ninside".to_owned());
    for number in [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.127.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.0.1",
        "198.18.0.1",
        "203.0.113.5",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::7f00:1",
        "fe80::1",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2001::1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
    ] {
        let lookup = Script::new(&[number]);
        let rules = ["*.example.com:*", "wiki:*"];
        let policy = FetchPolicy::allowing(rules).unwrap();
        let fetcher = Fetcher::with_lookup(policy, lookup).unwrap();
        for host in ["rebind.example.com", "wiki"] {
            let error = fetcher
                .get(&format!("http://{host}:{port}/"))
                .await
                .unwrap_err();
            assert_eq!(error.category, FetchCategory::Private, "{number}: {error}");
            let help = error.help.unwrap();
            assert!(help.contains(&format!("private:{host}:{port}")), "{help}");
        }
    }
    let policy = FetchPolicy::allowing([format!("private:wiki:{port}")]).unwrap();
    let fetcher = Fetcher::with_lookup(policy, Script::new(&["127.0.0.1"])).unwrap();
    let page = fetcher.get(&format!("http://wiki:{port}/")).await.unwrap();
    assert_eq!(page.text(), "inside");
    let error = fetcher.get("http://wiki/").await.unwrap_err();
    assert_eq!(error.category, FetchCategory::Denied);
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_check_and_connection() {
    let port = scripted(|_| "200 OK\n\ninside".to_owned());
    let lookup = Script::new(&["127.0.0.1"]);
    let policy = FetchPolicy::allowing(["private:wiki:*"]).unwrap();
    let fetcher = Fetcher::with_lookup(policy, lookup.clone()).unwrap();
    fetcher.get(&format!("http://wiki:{port}/")).await.unwrap();
    assert_eq!(lookup.1.load(Ordering::SeqCst), 1);

    // Of a mixed answer only the public number is tried, and here nobody reaches it.
    let mut policy = FetchPolicy::allowing(["mixed:*"]).unwrap();
    policy.connect = Duration::from_millis(200);
    let lookup = Script::new(&["127.0.0.1", "1.2.3.4"]);
    let fetcher = Fetcher::with_lookup(policy, lookup).unwrap();
    let error = fetcher
        .get(&format!("http://mixed:{port}/"))
        .await
        .unwrap_err();
    let missed = [FetchCategory::Unreachable, FetchCategory::Timeout];
    assert!(missed.contains(&error.category), "{error}");
}

#[tokio::test]
async fn only_success_is_an_answer() {
    let port = scripted(|asked| {
        let status = asked.rsplit('/').next().unwrap();
        format!("{status} Scripted\n\nbody")
    });
    let rule = format!("localhost:{port}");
    for status in [304, 400, 401, 404, 429, 500, 503] {
        let error = get(&rule, &format!("http://localhost:{port}/{status}"))
            .await
            .unwrap_err();
        assert_eq!(error.category, FetchCategory::Status);
        assert_eq!(error.status, Some(status));
        assert!(error.message.contains(&status.to_string()), "{error}");
        assert!(error.help.is_some());
    }
    assert!(
        get(&rule, &format!("http://localhost:{port}/206"))
            .await
            .is_ok()
    );
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let nobody = closed.local_addr().unwrap().port();
    drop(closed);
    let url = format!("http://127.0.0.1:{nobody}/");
    assert_eq!(
        category("127.0.0.1:*", &url).await,
        FetchCategory::Unreachable
    );
    // A server without TLS has no certificate.
    let url = format!("https://localhost:{port}/200");
    assert_eq!(category(&rule, &url).await, FetchCategory::Unreachable);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// Bytes as an answer of no stated length, which ends with the connection.
fn raw(stream: &mut TcpStream, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}connection: close\r\n\r\n");
    drop(stream.write_all(&[head.as_bytes(), body].concat()));
}

#[tokio::test]
async fn a_body_has_a_limit_however_it_comes() {
    let port = serve(|asked, stream| match asked.split_once('/').unwrap().1 {
        "small" => raw(stream, "content-encoding: gzip\r\n", &gzip(b"hello")),
        "two" => {
            let both = [gzip(b"hello "), gzip(b"again")].concat();
            raw(stream, "content-encoding: GZIP\r\n", &both);
        }
        "bomb" => raw(
            stream,
            "content-encoding: gzip\r\n",
            &gzip(&vec![0; 20_000_000]),
        ),
        "truncated" => {
            let whole = gzip(b"hello hello hello hello");
            raw(
                stream,
                "content-encoding: gzip\r\n",
                &whole[..whole.len() - 12],
            );
        }
        "garbage" => raw(stream, "content-encoding: gzip\r\n", b"no gzip at all"),
        "brotli" => raw(stream, "content-encoding: br\r\n", b"x"),
        "short" => raw(stream, "content-length: 100\r\n", b"x"),
        "announced" => raw(stream, "content-length: 999999999\r\n", b"x"),
        "exact" => raw(stream, "", &vec![b'x'; 100_000]),
        "over" => raw(stream, "", &vec![b'x'; 100_001]),
        _ => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let mut sent = stream.write_all(head.as_bytes());
            while sent.is_ok() {
                sent = stream.write_all(format!("400\r\n{}\r\n", "y".repeat(0x400)).as_bytes());
            }
        }
    });
    let mut policy = FetchPolicy::allowing(["127.0.0.1:*"]).unwrap();
    policy.max_bytes = 100_000;
    let fetcher = Fetcher::new(policy).unwrap();
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    for (path, expected) in [
        ("small", Ok("hello".to_owned())),
        ("two", Ok("hello again".to_owned())),
        ("exact", Ok("x".repeat(100_000))),
        ("over", Err(FetchCategory::TooLarge)),
        ("bomb", Err(FetchCategory::TooLarge)),
        ("announced", Err(FetchCategory::TooLarge)),
        ("endless", Err(FetchCategory::TooLarge)),
        ("truncated", Err(FetchCategory::Broken)),
        ("garbage", Err(FetchCategory::Broken)),
        ("brotli", Err(FetchCategory::Broken)),
        ("short", Err(FetchCategory::Broken)),
    ] {
        let answer = fetcher.get(&url(path)).await;
        let found = answer
            .map(|page| page.text().into_owned())
            .map_err(|error| error.category);
        assert_eq!(found, expected, "{path}");
    }
}

#[tokio::test]
async fn everything_together_has_a_time() {
    let port = serve(|asked, stream| match asked.split_once('/').unwrap().1 {
        "silent" => std::thread::sleep(Duration::from_secs(60)),
        "drip" => {
            let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
            while sent.is_ok() {
                std::thread::sleep(Duration::from_millis(5));
                sent = stream.write_all(b"x");
            }
        }
        _ => {
            std::thread::sleep(Duration::from_millis(60));
            drop(
                stream.write_all(
                    b"HTTP/1.1 302 Found\r\nlocation: /again\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
                ),
            );
        }
    });
    let mut policy = FetchPolicy::allowing(["127.0.0.1:*"]).unwrap();
    policy.total = Duration::from_millis(300);
    policy.max_redirects = 1_000;
    let fetcher = Fetcher::new(policy).unwrap();
    for path in ["silent", "drip", "redirect"] {
        let error = fetcher
            .get(&format!("http://127.0.0.1:{port}/{path}"))
            .await
            .unwrap_err();
        assert_eq!(error.category, FetchCategory::Timeout, "{path}");
        assert!(error.message.contains("0.3 s"), "{error}");
    }
}

#[test]
fn rules_are_read_and_written() {
    for (written, shown) in [
        ("Example.COM", "example.com"),
        (" example.com. ", "example.com"),
        ("*.example.com:8443", "*.example.com:8443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("localhost:*", "localhost:*"),
        ("0x7f.1:80", "127.0.0.1:80"),
        ("[::1]", "[::1]"),
        ("[0:0::1]:99", "[::1]:99"),
        ("private:wiki:8080", "private:wiki:8080"),
    ] {
        let rule: HostRule = written.parse().unwrap();
        assert_eq!(rule.to_string(), shown);
        assert_eq!(shown.parse::<HostRule>().unwrap(), rule);
    }
    for written in [
        "",
        " ",
        "*",
        "*.",
        "a.*",
        "*.*.a",
        "https://a",
        "a/b",
        "a@b",
        "a:",
        "a:x",
        "a:0",
        "a:70000",
        "a b",
        "private:",
        "private:*.a",
        "*.localhost",
        "*.127.0.0.1",
        "*.0.0.1",
        "*.1",
        "::1",
        "[::1",
        "a?b",
        "a#b",
        "[]",
    ] {
        let rule = written.parse::<HostRule>();
        assert!(rule.is_err(), "{written}: {rule:?}");
    }
}

#[test]
fn text_is_told_from_other_bytes() {
    let port = serve(|asked, stream| {
        let (_, path) = asked.split_once('/').unwrap();
        let (kind, body) = match path {
            "html" => ("text/html", "x"),
            "page" => ("text/plain", "<!doctype html>"),
            "plain" => ("text/plain", "x"),
            "json" => ("application/problem+json", "{}"),
            "image" => ("image/png", "x"),
            "unknown" => ("application/octet-stream", "x"),
            _ => ("application/octet-stream", "\0"),
        };
        raw(
            stream,
            &format!("content-type: {kind}\r\n"),
            body.as_bytes(),
        );
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for (path, html, text) in [
        ("html", true, true),
        ("page", true, true),
        ("plain", false, true),
        ("json", false, true),
        ("image", false, false),
        ("unknown", false, true),
        ("nul", false, false),
    ] {
        let url = format!("http://localhost:{port}/{path}");
        let page = runtime.block_on(get("localhost:*", &url)).unwrap();
        assert_eq!((page.is_html(), page.is_text()), (html, text), "{path}");
    }
}

async fn page(network: Option<Fetcher>, arguments: &str) -> ToolResult {
    let mut toolbox = Toolbox::new();
    let roots = Arc::new(Roots::new([]).unwrap());
    let scope = network
        .into_iter()
        .fold(AccessScope::new(roots), |scope, network| {
            scope.with_network(Arc::new(network))
        });
    toolbox
        .add(Builtin::WebpageToMarkdown.tool(&scope))
        .unwrap();
    toolbox
        .call(&ToolCall::new("c", "webpage_to_markdown", arguments))
        .await
}

#[tokio::test]
async fn the_tool_gives_pages_as_markdown() {
    let port = scripted(|asked| match asked.split_once('/').unwrap().1 {
        "page" => {
            "200 OK\ncontent-type: text/html\n\n<h1>News</h1><p>One <a href=\"b\">big</a> thing."
                .to_owned()
        }
        "text" => "200 OK\ncontent-type: text/plain\n\n* as it is\n".to_owned(),
        "empty" => "200 OK\ncontent-type: text/html\n\n<script>x</script>".to_owned(),
        "long" => format!(
            "200 OK\ncontent-type: text/plain\n\n{}",
            "ä".repeat(300_000)
        ),
        "picture" => "200 OK\ncontent-type: image/png\n\nx".to_owned(),
        _ => "404 Not Found\n\nno".to_owned(),
    });
    let rule = format!("127.0.0.1:{port}");
    let get = |path: &str| {
        let arguments = format!("{{\"url\":\"http://127.0.0.1:{port}/{path}\"}}");
        let network = fetcher(&[&rule]);
        async move { page(Some(network), &arguments).await }
    };
    assert_eq!(
        get("page").await,
        ToolResult::success(format!(
            "# News\n\nOne [big](http://127.0.0.1:{port}/b) thing."
        ))
    );
    assert_eq!(get("text").await, ToolResult::success("* as it is\n"));
    assert!(get("empty").await.text.ends_with("the page holds no text"));
    let long = get("long").await;
    assert!(long.ok && long.text.ends_with("ä\n[cut after 380928 bytes]"));
    for (path, said) in [
        ("picture", "is not text, but image/png"),
        ("nothing", "404"),
    ] {
        let outcome = get(path).await;
        assert!(
            !outcome.ok && outcome.text.contains(said),
            "{}",
            outcome.text
        );
    }
}

#[tokio::test]
async fn the_tool_says_how_a_host_is_allowed() {
    for network in [None, Some(fetcher(&["example.org"]))] {
        let outcome = page(network, r#"{"url":"https://example.com/a"}"#).await;
        assert!(!outcome.ok);
        assert!(
            outcome.text.starts_with("E-NETWORK-DENIED: "),
            "{}",
            outcome.text
        );
        assert!(
            outcome.text.contains("--allow-host example.com"),
            "{}",
            outcome.text
        );
    }
    for arguments in [
        "",
        "{}",
        r#"{"url":1}"#,
        r#"{"url":"file:///etc/passwd"}"#,
        r#"{"url":"a b"}"#,
    ] {
        assert!(!page(None, arguments).await.ok, "{arguments}");
    }
}
