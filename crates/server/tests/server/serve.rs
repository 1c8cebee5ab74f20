//! Prompts as a server, with the client of the same library at the other end of a pipe in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use logue_agent::{Approvals, Environment, HostError, Model, Models};
use logue_model::{Echo, EventHandler, ModelRequest, ModelResponse, Provider, ProviderError};
use logue_server::{BearerToken, HttpOptions, PromptHost, PromptServer, ServeOptions};
use logue_tools::{BoxFuture, Roots};
use rmcp::model::{CallToolRequestParams, CallToolResult, GetPromptRequestParams, JsonObject};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::{ClientHandler, RoleClient, ServiceExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

/// A model that repeats what it is told when it is let go, and counts who asks it at once.
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
    go: Semaphore,
}

struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Provider for Crowd {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(async move {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            let _leaving = Leaving(&self.now);
            self.most.fetch_max(now, Ordering::SeqCst);
            self.go.acquire().await.unwrap().forget();
            Echo.complete(request, events).await
        })
    }
}

/// The files below a folder.
struct Folder {
    path: PathBuf,
    model: Arc<Crowd>,
}

impl PromptHost for Folder {
    fn files(&self) -> Vec<PathBuf> {
        let entries = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap();
            let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            paths
        };
        let below = entries(&self.path).into_iter().flat_map(|path| {
            if path.is_dir() {
                entries(&path)
            } else {
                vec![path]
            }
        });
        below.collect()
    }

    fn environment(&self, _: &Path) -> Result<Environment, HostError> {
        let mut environment = Environment::new(Arc::new(OneModel(Arc::clone(&self.model))));
        environment.approvals = Approvals::Never;
        Ok(environment)
    }
}

/// One model for all prompts but those that name an unknown one.
struct OneModel(Arc<Crowd>);

impl Models for OneModel {
    fn find(&self, named: Option<&str>, _: &Roots) -> Result<Model, HostError> {
        if named == Some("unknown") {
            return Err(HostError::new(
                "model_not_configured",
                "there is no such model",
            ));
        }
        Ok(Model::new(
            Arc::clone(&self.0) as Arc<dyn Provider>,
            "crowd",
            "crowd",
        ))
    }
}

/// A client that hears of changes.
#[derive(Clone, Default)]
struct Ear(Arc<Notify>);

impl ClientHandler for Ear {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.notify_one();
    }
}

struct Stage {
    folder: tempfile::TempDir,
    server: PromptServer,
    model: Arc<Crowd>,
}

fn stage(files: &[(&str, &str)], concurrency: usize) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let model = Arc::new(Crowd {
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        go: Semaphore::new(0),
    });
    let host = Folder {
        path: folder.path().to_owned(),
        model: Arc::clone(&model),
    };
    let options = ServeOptions::default().with_concurrency(concurrency);
    Stage {
        server: PromptServer::new(Arc::new(host), &options),
        folder,
        model,
    }
}

impl Stage {
    async fn client(&self, ear: Ear) -> RunningService<RoleClient, Ear> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let server = self.server.clone();
        let (read, write) = tokio::io::split(far);
        tokio::spawn(async move { server.serve_lines(read, write).await });
        ear.serve(near).await.unwrap()
    }

    async fn until(&self, asking: usize) {
        for _ in 0..1_000 {
            if self.model.now.load(Ordering::SeqCst) == asking {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(self.model.now.load(Ordering::SeqCst), asking);
    }
}

fn call(name: &str, input: &str) -> CallToolRequestParams {
    let arguments: JsonObject = json!({"input": input}).as_object().unwrap().clone();
    CallToolRequestParams::new(name.to_owned()).with_arguments(arguments)
}

fn text(result: &CallToolResult) -> String {
    let value = serde_json::to_value(result).unwrap();
    value["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn prompts_are_offered_under_the_names_of_their_files() {
    let stage = stage(
        &[
            (
                "a/review.md",
                "<system>\n\n Reads code. \n</system><user>x</user>",
            ),
            ("b/review.md", "<user>Reads prose.</user>"),
            ("b/wörter zählen.chatmd", "<config model=\"m\"/>"),
        ],
        1,
    );
    let client = stage.client(Ear::default()).await;
    let tools = client.list_all_tools().await.unwrap();
    let listed: Vec<(String, String)> = tools
        .into_iter()
        .map(|tool| {
            (
                tool.name.into_owned(),
                tool.description.unwrap().into_owned(),
            )
        })
        .collect();
    let expected = [("review", "Reads code."), ("b_review", "Reads prose.")];
    for (listed, (name, description)) in listed.iter().zip(expected) {
        assert_eq!((listed.0.as_str(), listed.1.as_str()), (name, description));
    }
    assert_eq!(listed[2].0, "w_rter_z_hlen");
    assert!(
        listed[2].1.starts_with("Runs the prompt"),
        "{}",
        listed[2].1
    );
    let prompts = client.list_all_prompts().await.unwrap();
    assert_eq!(prompts.len(), 3);
    let mut asked = GetPromptRequestParams::new("review");
    asked.arguments = json!({"input": "Now."}).as_object().cloned();
    let prompt = client.get_prompt(asked).await.unwrap();
    let prompt = serde_json::to_value(prompt).unwrap();
    let texts = prompt["messages"].as_array().unwrap().iter();
    let texts: Vec<_> = texts
        .map(|message| message["content"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["\n\n Reads code. \n", "x", "Now."]);
}

#[tokio::test]
async fn calls_wait_for_their_turn_and_are_cancelled_while_they_wait_or_run() {
    let stage = stage(&[("p.md", "<system>Be.</system>")], 2);
    let client = stage.client(Ear::default()).await;
    let peer = client.peer().clone();
    let running: Vec<_> = (0..5)
        .map(|number| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call_tool(call("p", &format!("n{number}"))).await })
        })
        .collect();
    stage.until(2).await;
    stage.model.go.add_permits(5);
    for (number, task) in running.into_iter().enumerate() {
        let result = task.await.unwrap().unwrap();
        assert_eq!(text(&result), format!("n{number}"));
    }
    assert_eq!(stage.model.most.load(Ordering::SeqCst), 2);
    // The connection ends, and with it what runs and what waits.
    for _ in 0..3 {
        let peer = peer.clone();
        tokio::spawn(async move { peer.call_tool(call("p", "never")).await });
    }
    stage.until(2).await;
    drop(client);
    stage.until(0).await;
}

#[tokio::test]
async fn what_goes_wrong_is_a_result_with_its_code() {
    let stage = stage(
        &[
            ("broken.md", "<user>a"),
            ("empty.md", "<config model=\"m\"/>"),
            ("lost.md", "<config model=\"unknown\"/>"),
            ("p.md", "<user>Hi</user>"),
        ],
        1,
    );
    stage.model.go.add_permits(9);
    let client = stage.client(Ear::default()).await;
    for (name, input, expected) in [
        ("broken", "x", "E-MD-UNCLOSED-TAG: "),
        ("empty", " ", "no_user_input: "),
        ("lost", "x", "model_not_configured: there is no such model"),
    ] {
        let result = client.call_tool(call(name, input)).await.unwrap();
        assert_eq!(result.is_error, Some(true), "{name}");
        assert!(text(&result).starts_with(expected), "{}", text(&result));
    }
    // A prompt that says something itself needs no input.
    let result = client.call_tool(call("p", "")).await.unwrap();
    assert_eq!(text(&result), "Hi");
    let result = client
        .call_tool(CallToolRequestParams::new("p"))
        .await
        .unwrap();
    assert!(
        text(&result).starts_with("E-CALL-SCHEMA"),
        "{}",
        text(&result)
    );
    let unknown = client.call_tool(call("nobody", "x")).await.unwrap_err();
    assert!(
        unknown
            .to_string()
            .contains("there are: broken, empty, lost, p"),
        "{unknown}"
    );
}

#[tokio::test]
async fn files_that_come_go_and_change_are_news() {
    let stage = stage(&[("one.md", "<user>One.</user>")], 1);
    let watched = stage.server.clone();
    let watching = tokio::spawn(async move { watched.watch(Duration::from_millis(10)).await });
    let ear = Ear::default();
    let client = stage.client(ear.clone()).await;
    let two = stage.folder.path().join("two.md");
    for (text, expected) in [
        (Some("<user>Two.</user>"), Some("Two.")),
        (Some("<user>2.</user>"), Some("2.")),
        (None, None),
    ] {
        match text {
            Some(text) => fs::write(&two, text).unwrap(),
            None => fs::remove_file(&two).unwrap(),
        }
        // A file may be seen while it is still empty, which is news as well.
        loop {
            let heard = tokio::time::timeout(Duration::from_secs(20), ear.0.notified()).await;
            heard.unwrap();
            let tools = client.list_all_tools().await.unwrap();
            let two = tools.iter().find(|tool| tool.name == "two");
            let two = two.map(|tool| tool.description.as_deref().unwrap());
            if two == expected {
                break;
            }
        }
    }
    watching.abort();
}

#[test]
fn tokens_are_words_that_fit_into_a_header() {
    let long = "Zm9vYmFyLXF1dXgtMTIzNDU";
    for bad in [
        "",
        "a b",
        "ä",
        "a\nb",
        "a",
        "secret",
        &long[..21],
        "0123456789abcdef",
        "0123456789abcdef0123456789abcde",
        &"ab".repeat(32),
        "abcdefghijklmnopqrstuvwxyz0123456789",
        "0123456789abcdef0123456789abcdef",
        "qwertyuiopasdfghjklzxcvbnm1234567890",
        &"Zm9vYmFyLXF1d".repeat(5),
        &format!("{long} x"),
    ] {
        assert!(BearerToken::new(bad).is_err(), "{bad:?}");
    }
    assert_eq!(
        format!("{:?}", BearerToken::new(&long[..22]).unwrap()),
        "BearerToken(…)"
    );
}

#[test]
fn random_tokens_are_accepted() {
    // A generator with a fixed start, so that the test has one outcome.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::from(state.to_be_bytes()[3])
    };
    let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (letters, length) in [(&base64[..], 22), (b"0123456789abcdef", 32)] {
        for _ in 0..20_000 {
            let token: Vec<u8> = (0..length)
                .map(|_| letters[byte() % letters.len()])
                .collect();
            let token = String::from_utf8(token).unwrap();
            assert!(BearerToken::new(&token).is_ok(), "{token}");
        }
    }
}

#[tokio::test]
async fn a_request_with_two_host_names_is_refused() {
    let token = "8c1f0e5b7a93d264e0b59f3871ca4d26".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = HttpOptions::new(BearerToken::new(&token).unwrap());
    let server = stage(&[], 1).server;
    let served = server.serve_http(listener, options, std::future::pending());
    let client = async {
        let mut statuses = Vec::new();
        let own = format!("host: {address}\r\n");
        let other = "host: evil.example\r\n";
        for hosts in [
            own.clone(),
            format!("{own}{other}"),
            format!("{other}{own}"),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!(
                "GET /mcp HTTP/1.1\r\n{hosts}authorization: Bearer {token}\r\n\
                 connection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            statuses.push(response.split(' ').nth(1).unwrap().to_owned());
        }
        statuses
    };
    let statuses = tokio::select! {
        served = served => panic!("{served:?}"),
        statuses = client => statuses,
    };
    // The first one passes the check of the host, and lacks the session.
    assert_ne!(statuses[0], "400");
    assert_ne!(statuses[0], "403");
    assert_eq!(statuses[1..], ["400", "400"]);
}
