//! Servers of the Model Context Protocol, good and bad: real processes and real sockets, and in the
//! end always an answer for the model.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use logue_message::ToolCall;
use logue_tools::mcp::{CatalogCache, McpOptions, McpServers, McpSettings};
use logue_tools::{
    FetchPolicy, Fetcher, Roots, ServerToolRequest, ToolResult, ToolServerError,
    ToolServerErrorKind, ToolServers as _, ToolSource, Toolbox,
};
use testkit::mcp::{McpServer, serve_stdio};

/// No test: with a scenario among its arguments this program is a server.
#[test]
fn peer() {
    let scenario =
        std::env::args().find_map(|word| Some(word.strip_prefix("scenario=")?.to_owned()));
    if let Some(scenario) = scenario {
        serve_stdio(&scenario);
    }
}

fn command(scenario: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let program = program.display();
    format!("stdio:'{program}' --exact mcp::peer --nocapture \"scenario={scenario}\"")
}

/// Servers, and what was said of them.
struct Around {
    servers: McpServers,
    notices: Arc<Mutex<Vec<String>>>,
    folder: tempfile::TempDir,
}

fn around_with(options: McpOptions, network: Option<Arc<Fetcher>>) -> Around {
    let notices = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&notices);
    let options = options
        .with_environment(vec![("PATH".into(), std::env::var_os("PATH").unwrap())])
        .with_notice(Arc::new(move |text| {
            log.lock().unwrap().push(text.to_owned());
        }));
    Around {
        servers: McpServers::new(options, network),
        notices,
        folder: tempfile::tempdir().unwrap(),
    }
}

fn around() -> Around {
    around_with(McpOptions::default(), None)
}

/// Where nothing that hangs hangs for long.
fn hasty() -> McpOptions {
    McpOptions::default()
        .with_start(Duration::from_secs(3))
        .with_call(Duration::from_secs(1))
}

impl Around {
    fn wanted(&self, server: &str) -> ServerToolRequest {
        let folder = self.folder.path().to_owned();
        let roots = Roots::new([folder.clone()]).unwrap();
        ServerToolRequest::new(server.to_owned(), folder).with_roots(roots)
    }

    async fn source(&self, server: &str) -> Result<Arc<dyn ToolSource>, ToolServerError> {
        self.servers.source(&self.wanted(server)).await
    }

    async fn toolbox(&self, server: &str) -> Toolbox {
        let mut toolbox = Toolbox::new();
        toolbox.add_source(self.source(server).await.unwrap());
        toolbox
    }

    fn notices(&self) -> String {
        self.notices.lock().unwrap().join("\n")
    }
}

async fn names(toolbox: &Toolbox) -> Vec<String> {
    let now = toolbox.current().await;
    let definitions = now.definitions().iter();
    definitions.map(|tool| tool.name.clone()).collect()
}

async fn call(toolbox: &Toolbox, name: &str, arguments: &str) -> ToolResult {
    let call = ToolCall::new("c", name, arguments);
    toolbox.current().await.call(&call).await
}

#[tokio::test]
async fn a_server_is_started_listed_called_and_ended() {
    let around = around();
    let toolbox = around.toolbox(&command("plain")).await;
    let now = toolbox.current().await;
    assert_eq!(
        names(&toolbox).await,
        ["echo", "fail", "structured", "mixed", "not_safe"]
    );
    assert!(
        now.definitions()[0]
            .description
            .starts_with("The tool echo.")
    );
    for (tool, arguments, ok, text) in [
        (
            "echo",
            r#"{"text":"hi"}"#,
            true,
            r#"you said {"text":"hi"}"#,
        ),
        ("echo", "", true, "you said {}"),
        ("not_safe", "{}", true, "you said {}"),
        ("fail", "{}", false, "the disk is full"),
        ("structured", "{}", true, r#"{"degrees":21}"#),
        (
            "mixed",
            "{}",
            true,
            "first\n[an image of image/png, 5 bytes: not shown: it is not a PNG, JPEG, GIF or WebP image; the type is detected from the content]\n[resource a: file:///a (text/plain)]\n[file:///b]\ninside",
        ),
    ] {
        let outcome = call(&toolbox, tool, arguments).await;
        assert_eq!((outcome.text.as_str(), outcome.ok), (text, ok), "{tool}");
        assert!(outcome.provenance.unwrap().source.starts_with("stdio:"));
    }
    let outcome = call(&toolbox, "echo", "[1]").await;
    assert!(
        outcome.text.starts_with("E-CALL-SCHEMA"),
        "{}",
        outcome.text
    );
    around.servers.close().await;
    assert_eq!(around.notices(), "");
}

#[tokio::test]
async fn declarations_take_what_they_name_and_no_empty_name() {
    let around = around();
    let take = async |names: &[&str], strict| {
        let mut wanted = around.wanted(&command("plain"));
        wanted.names = Some(names.iter().map(ToString::to_string).collect());
        wanted.strict = strict;
        let source = around.servers.source(&wanted).await?;
        let tools = source.tools().await;
        let tools = tools.iter().map(|tool| {
            let definition = tool.definition();
            (definition.name.clone(), definition.strict)
        });
        Ok::<_, ToolServerError>(tools.collect::<Vec<_>>())
    };
    let taken = take(&["fail", "echo", ""], true).await.unwrap();
    assert_eq!(taken, [("echo".into(), true), ("fail".into(), true)]);
    assert_eq!(take(&[""], false).await.unwrap(), []);
    let error = take(&["echo", "weather"], false).await.unwrap_err();
    assert_eq!(error.kind, ToolServerErrorKind::NoSuchTool);
    assert!(error.message.contains("`weather`"), "{error}");
    assert_eq!(
        error.help.unwrap(),
        "its tools are echo, fail, structured, mixed, not.safe"
    );
}

#[tokio::test]
async fn names_that_are_taken_get_the_name_of_their_server_before_them() {
    let around = around();
    let mut toolbox = around.toolbox(&command("plain")).await;
    toolbox.add_source(around.source(&command("old")).await.unwrap());
    let now = toolbox.current().await;
    let prefix = now.definitions()[5].name.strip_suffix("_echo").unwrap();
    let program = std::env::current_exe().unwrap();
    assert_eq!(Some(prefix), program.file_stem().unwrap().to_str());
    let fail = format!("{prefix}_fail");
    assert_eq!(call(&toolbox, &fail, "{}").await.text, "the disk is full");
}

#[tokio::test]
async fn a_noisy_server_and_an_old_one_do_their_work() {
    for scenario in ["noisy", "old"] {
        let around = around();
        let toolbox = around.toolbox(&command(scenario)).await;
        let offered = names(&toolbox).await;
        assert!(offered.contains(&"fail".to_owned()), "{offered:?}");
        let outcome = call(&toolbox, "echo", "{}").await;
        assert_eq!(outcome.text, "you said {}", "{scenario}");
        assert_eq!(around.notices(), "", "{scenario}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_offers_nothing_and_is_told_of() {
    for (server, expected) in [
        ("stdio:/no/such/program".to_owned(), "could not be started"),
        (command("exits"), "the licence has expired"),
        (command("silent"), "did not start within 3 s"),
        ("stdio:false".to_owned(), "it ended with exit status: 1"),
        ("stdio:cat".to_owned(), "cat"),
        ("stdio:yes".to_owned(), "yes"),
    ] {
        let around = around_with(hasty(), None);
        let toolbox = around.toolbox(&server).await;
        assert_eq!(names(&toolbox).await, [""; 0], "{server}");
        let notices = around.notices();
        assert!(notices.contains(expected), "{server}: {notices}");
        assert!(notices.contains("its tools are left out"), "{notices}");
    }
}

/// What bad servers do to a call, and that the next call of another server is none the worse.
#[tokio::test]
async fn a_server_that_fails_in_a_call_fails_that_call() {
    for (scenario, expected) in [
        ("dies", "segmentation violation, as it were"),
        ("huge", "longer than the limit"),
        ("liar", "E-TOOL-TIMEOUT"),
        ("slow", "E-TOOL-TIMEOUT"),
        ("malformed", "malformed"),
        ("flood", "E-TOOL-TIMEOUT"),
    ] {
        let around = around_with(
            hasty().with_call(Duration::from_secs(if scenario == "huge" { 60 } else { 2 })),
            None,
        );
        let mut toolbox = around.toolbox(&command(scenario)).await;
        toolbox.add_source(around.source(&command("plain")).await.unwrap());
        let outcome = call(&toolbox, "echo", "{}").await;
        assert!(!outcome.ok, "{scenario}: {}", outcome.text);
        assert!(
            outcome.text.contains(expected),
            "{scenario}: {}",
            outcome.text
        );
        toolbox.refresh().await;
        let now = toolbox.current().await;
        let other = now.definitions()[5].name.clone();
        let good = call(&toolbox, &other, "{}").await;
        assert_eq!(good.text, "you said {}", "{scenario}");
        let began = Instant::now();
        around.servers.close().await;
        assert!(began.elapsed() < Duration::from_secs(20), "{scenario}");
    }
}

#[tokio::test]
async fn a_dead_server_is_started_again_but_not_for_ever() {
    let around = around_with(hasty(), None);
    let toolbox = around.toolbox(&command("dies")).await;
    let mut said = Vec::new();
    for _ in 0..7 {
        said.push(call(&toolbox, "echo", "{}").await.text);
    }
    assert!(said[3].contains("it ended with exit status: 9"), "{said:?}");
    assert!(said[6].contains("is left alone"), "{said:?}");
}

#[tokio::test]
async fn new_tools_are_there_for_the_next_request() {
    let around = around();
    let toolbox = around.toolbox(&command("changing")).await;
    for round in 1..=3 {
        let new = format!("new_{round}");
        assert!(names(&toolbox).await.contains(&new));
        let outcome = call(&toolbox, &new, "{}").await;
        assert_eq!(outcome.text, format!("{new} worked"));
        // The news came with the answer; the list is the old one until the next request.
        assert!(names(&toolbox).await.contains(&new));
        toolbox.refresh().await;
        assert!(!names(&toolbox).await.contains(&new));
        let gone = call(&toolbox, &new, "{}").await;
        assert!(gone.text.contains("no tool named"), "{}", gone.text);
    }
}

#[tokio::test]
async fn a_server_that_asks_is_answered_politely() {
    let around = around();
    let toolbox = around.toolbox(&command("asking")).await;
    let outcome = call(&toolbox, "echo", "{}").await;
    let lines: Vec<&str> = outcome.text.lines().collect();
    assert!(
        lines[0].starts_with("sampling/createMessage: {\"code\":-32601"),
        "{lines:?}"
    );
    assert!(lines[1].contains("\"action\":\"decline\""), "{lines:?}");
    let root = around.folder.path().file_name().unwrap().to_string_lossy();
    assert!(
        lines[2].contains(&*root) && lines[2].contains("file:///"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_list_without_end_ends() {
    let around = around();
    let toolbox = around.toolbox(&command("pages")).await;
    // A name that comes again is the same server's, so one prefix is all that it gets.
    assert!(toolbox.current().await.definitions().len() <= 20);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    let around = around();
    let toolbox = around.toolbox(&command("slow")).await;
    let cancelled = around.folder.path().join("cancelled");
    let waiting = call(&toolbox, "echo", "{}");
    assert!(
        tokio::time::timeout(Duration::from_millis(500), waiting)
            .await
            .is_err()
    );
    assert!(appears(&cancelled).await, "nobody was told");
}

#[tokio::test]
async fn whatever_a_server_started_dies_with_it() {
    for gracefully in [true, false] {
        let around = around();
        let toolbox = around.toolbox(&command("parent")).await;
        assert!(call(&toolbox, "echo", "{}").await.ok);
        let pid = fs::read_to_string(around.folder.path().join("grandchild")).unwrap();
        assert!(is_alive(&pid));
        if gracefully {
            around.servers.close().await;
        } else {
            drop(toolbox);
            drop(around.servers);
        }
        let mut tries = 0;
        while is_alive(&pid) {
            tries += 1;
            assert!(tries < 500, "it lives");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn appears(file: &Path) -> bool {
    for _ in 0..500 {
        if file.exists() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[tokio::test]
async fn a_second_run_asks_no_server_what_it_offers() {
    let cache = tempfile::tempdir().unwrap();
    let options =
        |lifetime| hasty().with_cache(CatalogCache::new(cache.path().join("mcp"), lifetime));
    let hour = Duration::from_hours(1);
    let server = McpServer::start("changing").unwrap();
    let fetcher = fetcher(&server);
    let first = around_with(options(hour), Some(Arc::clone(&fetcher)));
    let one = first.toolbox(&server.url()).await;
    let listed = server.received().len();
    let second = around_with(options(hour), Some(Arc::clone(&fetcher)));
    let two = second.toolbox(&server.url()).await;
    assert_eq!(
        one.current().await.definitions(),
        two.current().await.definitions()
    );
    assert_eq!(server.received().len(), listed, "it was asked");
    // A name that the remembered list lacks is looked for.
    let mut wanted = second.wanted(&server.url());
    wanted.names = Some(vec!["new_2".to_owned()]);
    assert_eq!(
        second
            .servers
            .source(&wanted)
            .await
            .unwrap()
            .tools()
            .await
            .len(),
        1
    );
    // Too old, and another asker: asked again.
    let third = around_with(options(Duration::ZERO), Some(Arc::clone(&fetcher)));
    let three = third.toolbox(&server.url()).await;
    assert!(names(&three).await.contains(&"new_3".to_owned()));
    let settings = McpSettings::default().with_bearer("me".to_owned());
    let fourth = options(hour).with_servers([(server.url(), settings)].into());
    let fourth = around_with(fourth, Some(fetcher));
    let four = fourth.toolbox(&server.url()).await;
    assert!(names(&four).await.contains(&"new_4".to_owned()));
}

#[tokio::test]
async fn news_of_a_change_drops_what_is_remembered() {
    let cache = tempfile::tempdir().unwrap();
    let options = hasty().with_cache(CatalogCache::new(
        cache.path().to_owned(),
        Duration::from_hours(1),
    ));
    let around = around_with(options.clone(), None);
    let toolbox = around.toolbox(&command("changing")).await;
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    assert!(call(&toolbox, "echo", "{}").await.ok);
    around.servers.close().await;
    // The turn ended without another request, so nobody knows the new list.
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
}

fn fetcher(server: &McpServer) -> Arc<Fetcher> {
    let policy = FetchPolicy::allowing([server.host()]).unwrap();
    Arc::new(Fetcher::new(policy).unwrap())
}

#[tokio::test]
async fn a_server_over_http_does_its_work() {
    for (prefix, scenario) in [("", "plain"), ("mcp+", "old")] {
        let server = McpServer::start(scenario).unwrap();
        let around = around_with(McpOptions::default(), Some(fetcher(&server)));
        let toolbox = around.toolbox(&format!("{prefix}{}", server.url())).await;
        let outcome = call(&toolbox, "echo", r#"{"text":"hi"}"#).await;
        assert_eq!(outcome.text, r#"you said {"text":"hi"}"#);
        assert!(!call(&toolbox, "fail", "{}").await.ok);
        around.servers.close().await;
    }
}

#[tokio::test]
async fn a_bad_server_over_http_fails_its_call_and_nothing_else() {
    for (scenario, expected) in [
        ("silent", "E-TOOL-TIMEOUT"),
        ("garbage", "text/html"),
        ("broken", "500"),
        ("liar", "E-MCP-SERVER-FAILED"),
        ("huge", "E-MCP-SERVER-FAILED"),
    ] {
        let server = McpServer::start(scenario).unwrap();
        let options =
            hasty().with_call(Duration::from_secs(if scenario == "huge" { 60 } else { 2 }));
        let around = around_with(options, Some(fetcher(&server)));
        let toolbox = around.toolbox(&server.url()).await;
        assert_eq!(
            toolbox.current().await.definitions().len(),
            5,
            "{}",
            around.notices()
        );
        let outcome = call(&toolbox, "echo", "{}").await;
        assert!(!outcome.ok);
        let told = outcome.text.contains(expected) || scenario == "liar";
        assert!(told, "{scenario}: {}", outcome.text);
        assert!(outcome.text.len() < 4_000, "{scenario}");
    }
}

#[tokio::test]
async fn tokens_go_to_the_server_that_they_are_for() {
    let server = McpServer::start("bearer").unwrap();
    let settings = McpSettings::default().with_bearer("sesame".to_owned());
    let options = hasty().with_servers([(server.url(), settings)].into());
    let around = around_with(options, Some(fetcher(&server)));
    let toolbox = around.toolbox(&server.url()).await;
    assert!(
        call(&toolbox, "echo", "{}").await.ok,
        "{}",
        around.notices()
    );
}

#[tokio::test]
async fn a_server_that_wants_to_know_who_asks_is_told_how_to_be_told() {
    let server = McpServer::start("locked").unwrap();
    let around = around_with(hasty(), Some(fetcher(&server)));
    let toolbox = around.toolbox(&server.url()).await;
    assert_eq!(toolbox.current().await.definitions().len(), 0);
    let expected = format!("logue mcp login {}", server.url());
    assert!(around.notices().contains(&expected), "{}", around.notices());
}

#[tokio::test]
async fn servers_lead_nowhere_that_was_not_allowed() {
    let server = McpServer::start("redirects").unwrap();
    let around = around_with(hasty(), Some(fetcher(&server)));
    let toolbox = around.toolbox(&server.url()).await;
    assert_eq!(toolbox.current().await.definitions().len(), 0);
    assert!(
        around.notices().contains("cannot be reached"),
        "{}",
        around.notices()
    );
    // No network at all, another port, and names that lead to this machine.
    let off = around_with(hasty(), None);
    let denied = off.source(&server.url()).await.err().unwrap();
    assert_eq!(denied.kind, ToolServerErrorKind::Denied);
    assert!(
        denied
            .help
            .unwrap()
            .contains(&format!("--allow-host {}", server.host()))
    );
    for url in [
        "http://127.0.0.1:1/mcp",
        "http://169.254.169.254/latest",
        "http://user:pw@localhost/",
    ] {
        let denied = around.source(url).await.err().unwrap();
        assert!(!denied.message.contains("pw@"), "{denied}");
    }
    let not = around.source("ftp://x/").await.err().unwrap();
    assert_eq!(not.kind, ToolServerErrorKind::Address);
}
