//! Requests to prompts that are served over HTTP.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::ModelServer;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{Running, SECRET, Scene, answers, traffic, wait_until};

const TOKEN: &str = "only a client with the token uses a served prompt";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::local("served-no-token", TOKEN, no_token),
    Attack::local("served-wrong-token", TOKEN, wrong_token),
    Attack::local(
        "served-page",
        "no page of a browser uses a served prompt",
        page,
    ),
    Attack::local(
        "served-rebinding",
        "no other host name reaches a served prompt",
        rebinding,
    ),
    Attack::local("served-names", "a served name opens no other file", names),
    Attack::local(
        "served-large-requests",
        "a large request does not stop the server",
        large,
    ),
    Attack::local(
        "served-short-token",
        "a network address needs a strong token",
        short_token,
    ),
    Attack::local(
        "served-token-file",
        "the token is readable by its user only",
        token_file,
    ),
];

/// A served prompt, stopped when it is dropped.
struct Served {
    scene: Scene,
    running: Running,
    model: ModelServer,
    address: SocketAddr,
    token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.running.child.kill());
        drop(self.running.child.wait());
    }
}

impl Served {
    fn start(arena: &Arena) -> Result<Self, Failure> {
        let scene = Scene::new(arena)?;
        let model = answers(Vec::new())?;
        scene.file("p.md", "<config model=\"m\"/>\n<system>Help.</system>\n")?;
        let run = scene.logue(["mcp", "serve", "--http", "0", "p.md"]);
        let mut running = run.with_server(&model).start()?;
        let (mut address, mut token) = (None, String::new());
        wait_until(|| {
            let text = running.stderr().unwrap_or_default();
            let words: Vec<&str> = text.split_whitespace().collect();
            let url = words.iter().find_map(|word| word.strip_prefix("http://"));
            address = url.and_then(|url| url.split('/').next()?.parse().ok());
            let secret = words
                .iter()
                .find(|word| word.len() >= 32 && !word.contains('/'));
            token = secret.map(|word| (*word).to_owned()).unwrap_or_default();
            address.is_some() && !token.is_empty()
        });
        let address = address.ok_or_else(|| {
            Failure::Control(format!(
                "nothing is served: {}",
                running.stderr().unwrap_or_default()
            ))
        })?;
        Ok(Self {
            scene,
            running,
            model,
            address,
            token,
        })
    }

    /// Sends a message; returns the response with its headers.
    fn post(&self, headers: &str, message: &Value) -> Result<String, Failure> {
        let body = message.to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nconnection: close\r\n\
             content-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        self.send(request.as_bytes())
    }

    fn send(&self, bytes: &[u8]) -> Result<String, Failure> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        // The server may refuse the request before all of it was sent.
        drop(stream.write_all(bytes));
        let mut response = Vec::new();
        drop(stream.read_to_end(&mut response));
        Ok(String::from_utf8_lossy(&response).into_owned())
    }

    /// Calls a served prompt with these headers; returns the responses.
    fn call(&self, headers: &str, name: &str) -> Result<String, Failure> {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "attacker", "version": "1"}}});
        let first = self.post(headers, &hello)?;
        let mut headers = headers.to_owned();
        for line in first.lines() {
            if line.to_ascii_lowercase().starts_with("mcp-session-id:") {
                headers.push_str(&format!("{line}\r\n"));
            }
        }
        self.post(
            &headers,
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        )?;
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": name, "arguments": {"input": "hello"}}});
        let prompt = json!({"jsonrpc": "2.0", "id": 3, "method": "prompts/get",
            "params": {"name": name}});
        Ok(format!(
            "{first}{}{}",
            self.post(&headers, &call)?,
            self.post(&headers, &prompt)?
        ))
    }

    fn bearer(&self) -> String {
        format!(
            "host: {}\r\nauthorization: Bearer {}\r\n",
            self.address, self.token
        )
    }

    /// Shows that a proper client is served.
    fn serves(&self) -> Outcome {
        let before = self.model.received().len();
        let response = self.call(&self.bearer(), "p")?;
        control(
            self.model.received().len() == before + 1,
            format!("a proper client is not served: {response}"),
        )
    }

    /// Sends requests with these headers, none of which may reach the model.
    fn refuses(&self, headers: &[String]) -> Outcome {
        for headers in headers {
            let before = self.model.received().len();
            self.call(headers, "p")?;
            promise(self.model.received().len() == before, headers.trim())?;
        }
        self.serves()
    }
}

fn no_token(arena: &Arena) -> Outcome {
    let served = Served::start(arena)?;
    let host = format!("host: {}\r\n", served.address);
    served.refuses(&[
        host.clone(),
        format!("{host}authorization: Bearer\r\n"),
        format!("{host}authorization: Bearer \r\n"),
        format!("{host}cookie: token={}\r\n", served.token),
    ])
}

fn wrong_token(arena: &Arena) -> Outcome {
    let served = Served::start(arena)?;
    let host = format!("host: {}\r\n", served.address);
    let token = &served.token;
    let shorter = &token[..token.len() - 1];
    let headers = [
        format!("{host}authorization: Bearer {shorter}\r\n"),
        format!("{host}authorization: Bearer {token}0\r\n"),
        format!(
            "{host}authorization: Bearer {}\r\n",
            token.replace(|c| c != 'x', "0")
        ),
        format!("{host}authorization: Basic {token}\r\n"),
        format!("{host}authorization: Bearer undefined\r\n"),
        format!("{host}authorization: Bearer {shorter}\r\nauthorization: Bearer {shorter}\r\n"),
    ];
    served.refuses(&headers)
}

fn page(arena: &Arena) -> Outcome {
    let served = Served::start(arena)?;
    let bearer = served.bearer();
    served.refuses(&[
        format!("{bearer}origin: https://evil.example\r\n"),
        format!("{bearer}origin: null\r\n"),
        format!("{bearer}origin: http://127.0.0.1.evil.example\r\n"),
        format!("{bearer}origin: http://localhost.evil.example:80\r\n"),
    ])
}

fn rebinding(arena: &Arena) -> Outcome {
    let served = Served::start(arena)?;
    let token = format!("authorization: Bearer {}\r\n", served.token);
    let port = served.address.port();
    served.refuses(&[
        format!("{token}host: evil.example:{port}\r\n"),
        format!("{token}host: evil.example\r\n"),
        format!("{token}host: 127.0.0.1.evil.example:{port}\r\n"),
        format!("{token}host: localhost.evil.example:{port}\r\n"),
        format!("{token}host: 127.0.0.1:{port}\r\nhost: evil.example\r\n"),
    ])
}

fn names(arena: &Arena) -> Outcome {
    let served = Served::start(arena)?;
    let secret = format!("<config model=\"m\"/>\n<system>{SECRET}</system>\n");
    std::fs::write(served.scene.outside().join("a.md"), &secret)?;
    served.scene.file("hidden/a.md", &secret)?;
    let absolute = served.scene.outside().join("a").display().to_string();
    for name in [
        "../../outside/a",
        "../../outside/a.md",
        "hidden/a",
        "a",
        &absolute,
        "p/../hidden/a",
    ] {
        let session = "mcp-session-id: ../../outside/a\r\n";
        let response = served.call(&format!("{}{session}", served.bearer()), name)?;
        let response = format!("{response}{}", served.call(&served.bearer(), name)?);
        promise(!response.contains(SECRET), name)?;
        promise(!traffic(&served.model).contains(SECRET), name)?;
    }
    served.serves()
}

fn large(arena: &Arena) -> Outcome {
    let served = Served::start(arena)?;
    let host = format!("host: {}\r\n", served.address);
    let headers = format!("x: {}\r\n", "a".repeat(4000)).repeat(500);
    let start = format!("POST /mcp HTTP/1.1\r\n{host}");
    let body = "a".repeat(32 * 1024 * 1024);
    let requests = [
        format!("{start}{headers}\r\n"),
        format!("{start}x: {}\r\n\r\n", "a".repeat(4 * 1024 * 1024)),
        format!("{start}content-length: {}\r\n\r\n{body}", body.len()),
        format!(
            "{start}authorization: Bearer {}\r\ncontent-type: application/json\r\n\
                 accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            served.token,
            body.len()
        ),
        format!(
            "{start}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nPOST /mcp HTTP/1.1\r\n\r\n"
        ),
        format!("{start}content-length: 5\r\ncontent-length: 6\r\n\r\nhello"),
        format!("{start}content-length: -1\r\n\r\n"),
        "\0\r\n\r\n".to_owned(),
    ];
    let peak = || crate::scene::memory(served.running.child.id()) / 1024;
    let before = peak();
    for request in &requests {
        served.send(request.as_bytes())?;
    }
    promise(
        served.model.received().is_empty(),
        "a request reached the model",
    )?;
    // A body that is read whole takes its 32 MiB.
    let more = peak().saturating_sub(before);
    promise(more < 24, format!("it uses {more} MiB more"))?;
    served.serves()
}

fn short_token(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file("p.md", "<config model=\"m\"/>\n<system>Help.</system>\n")?;
    let is_served = |token: &str| -> Result<bool, Failure> {
        let run = scene.logue([
            "mcp", "serve", "--http", "0", "--bind", "0.0.0.0", "--token", token, "p.md",
        ]);
        let mut running = run.start()?;
        let mut is_served = false;
        wait_until(|| {
            let text = running.stderr().unwrap_or_default();
            let port = text
                .split("0.0.0.0:")
                .nth(1)
                .and_then(|text| text.split('/').next());
            let port = port.and_then(|port| port.parse::<u16>().ok());
            is_served = port.is_some_and(|port| TcpStream::connect(("127.0.0.1", port)).is_ok());
            is_served || !matches!(running.child.try_wait(), Ok(None))
        });
        drop(running.child.kill());
        drop(running.child.wait());
        Ok(is_served)
    };
    let strong = "3f9a1c5be2d8470694b1e7f02c6d8a357e91b4c0d2f6a8135b7c9e0f1a2d4c68";
    control(is_served(strong)?, "a strong token is refused")?;
    for token in ["a", "", "12345678", "secret-password", &"a".repeat(64)] {
        promise(!is_served(token)?, format!("`{token}` is served"))?;
    }
    Ok(())
}

fn token_file(arena: &Arena) -> Outcome {
    let served = Served::start(arena)?;
    // The token is printed before its file is written.
    let mut files = Vec::new();
    for _ in 0..200 {
        files = crate::scene::files_with(&served.scene.home(), &served.token);
        if !files.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    control(!files.is_empty(), "no file contains the token")?;
    for file in files {
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file)?);
        promise(
            mode.trailing_zeros() >= 6,
            format!("{} has mode {mode:o}", file.display()),
        )?;
    }
    let line = std::fs::read(format!("/proc/{}/cmdline", served.running.child.id()))?;
    let line = String::from_utf8_lossy(&line).into_owned();
    promise(!line.contains(&served.token), "the process list shows it")
}
