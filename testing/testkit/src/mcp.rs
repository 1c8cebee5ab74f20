//! A scripted server of the Model Context Protocol with selectable failures.
//!
//! It implements the wire format without a library: over standard input and output of a process
//! ([`serve_stdio`]), or over HTTP on a real socket ([`McpServer`]).

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// The tools of every scenario.
const TOOLS: &[&str] = &["echo", "fail", "structured", "mixed", "not.safe"];

/// A PNG image of one pixel, as base64.
pub const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A GIF image of one pixel, as base64.
pub const GIF: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

/// The state of a server.
#[derive(Debug, Default)]
struct Memory {
    lists: u32,
}

/// Serves on standard input and output until the client closes its side.
///
/// The scenario selects a failure; `plain` has none.
///
/// | scenario | behavior |
/// |---|---|
/// | `plain`, `old` | correct; `old` in version 2024-11-05 |
/// | `noisy` | prints an invalid message before every message, on both streams |
/// | `exits` | exits at once, with text on standard error |
/// | `silent` | answers nothing |
/// | `dies` | ends in the first call |
/// | `huge` | answers a call with 100 MB |
/// | `liar` | answers calls under the id of another request |
/// | `malformed` | answers calls with an invalid result |
/// | `changing` | changes its tools at each listing, and notifies at each call |
/// | `asking` | asks the client for a model, a person and its roots before it answers a call |
/// | `slow` | answers no call; records the cancelled ones |
/// | `flood` | sends unsolicited messages without end from the first call on |
/// | `images` | answers calls with a text and two images: [`PNG`] and [`GIF`] |
/// | `pages` | lists the same page again and again |
/// | `parent` | starts a program that outlives it, and records its process id |
pub fn serve_stdio(scenario: &str) {
    let mut memory = Memory::default();
    let stdin = io::stdin();
    if scenario == "exits" {
        eprint_line("the licence has expired");
        std::process::exit(3);
    }
    if scenario == "parent"
        && let Ok(child) = std::process::Command::new("sleep").arg("1000").spawn()
    {
        drop(std::fs::write("grandchild", child.id().to_string()));
    }
    let mut stdin = stdin.lock();
    loop {
        let mut line = String::new();
        if stdin.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if scenario == "noisy" {
            noise();
        }
        if scenario == "silent" {
            continue;
        }
        if message["method"] == "notifications/cancelled" {
            drop(std::fs::write(
                "cancelled",
                message["params"]["requestId"].to_string(),
            ));
        }
        for answer in answers(scenario, &message, &mut memory) {
            say(&answer.to_string());
        }
        if message["method"] == "tools/call" {
            match scenario {
                "dies" => {
                    eprint_line("segmentation violation, as it were");
                    std::process::exit(9);
                }
                "asking" => ask(&mut stdin, &message),
                "flood" => flood(),
                _ => {}
            }
        }
    }
}

/// Returns the answers to one client message.
fn answers(scenario: &str, message: &Value, memory: &mut Memory) -> Vec<Value> {
    let Some(id) = message
        .get("id")
        .filter(|_| message.get("method").is_some())
    else {
        return Vec::new();
    };
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let asked = message["params"]["protocolVersion"].clone();
            let version = match scenario {
                "old" => json!("2024-11-05"),
                _ => asked,
            };
            vec![result(json!({
                "protocolVersion": version,
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": scenario, "version": "1"},
            }))]
        }
        "tools/list" => {
            memory.lists += 1;
            let mut tools: Vec<Value> = TOOLS.iter().map(|name| tool(name)).collect();
            if scenario == "changing" {
                tools.push(tool(&format!("new_{}", memory.lists)));
            }
            let mut list = json!({"tools": tools});
            if scenario == "pages" {
                list["nextCursor"] = json!("again");
            }
            if scenario == "noisy" {
                // One invalid tool among valid ones.
                list["tools"] = json!([tool("echo"), {"name": 7}, tool("fail")]);
            }
            vec![result(list)]
        }
        "tools/call" => called(scenario, id, &message["params"]),
        "ping" => vec![result(json!({}))],
        _ => vec![json!({"jsonrpc": "2.0", "id": id,
            "error": {"code": -32601, "message": "there is no such method"}})],
    }
}

fn called(scenario: &str, id: &Value, params: &Value) -> Vec<Value> {
    let answer = |result: Value| vec![json!({"jsonrpc": "2.0", "id": id, "result": result})];
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    match scenario {
        "dies" | "slow" | "asking" | "flood" => Vec::new(),
        "huge" => answer(text(&"x".repeat(100 * 1024 * 1024))),
        "images" => answer(json!({"content": [
            {"type": "text", "text": "before"},
            // The type of an image is detected from its content.
            {"type": "image", "data": PNG, "mimeType": "image/webp"},
            {"type": "text", "text": "between"},
            {"type": "image", "data": GIF, "mimeType": "image/gif"},
        ]})),
        "liar" => vec![json!({"jsonrpc": "2.0", "id": 4711, "result": text("somebody else's")})],
        "malformed" => vec![json!({"jsonrpc": "2.0", "id": id})],
        _ => {
            let mut said = answer(result_of(params));
            if scenario == "changing" {
                let changed = "notifications/tools/list_changed";
                said.insert(0, json!({"jsonrpc": "2.0", "method": changed}));
            }
            said
        }
    }
}

fn result_of(params: &Value) -> Value {
    let arguments = &params["arguments"];
    match params["name"].as_str().unwrap_or_default() {
        "echo" | "not.safe" => {
            json!({"content": [{"type": "text", "text": format!("you said {arguments}")}]})
        }
        "fail" => json!({"content": [{"type": "text", "text": "the disk is full"}],
            "isError": true}),
        "structured" => json!({"content": [], "structuredContent": {"degrees": 21}}),
        "mixed" => json!({"content": [
            {"type": "text", "text": "first"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
        ]}),
        other => json!({"content": [{"type": "text", "text": format!("{other} worked")}]}),
    }
}

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("The tool {name}.\nIt has a second line."),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    })
}

/// Prints the output of a program that does not implement the protocol.
fn noise() {
    for line in [
        "Server starting…",
        "{\"level\":\"info\",\"msg\":\"ready\"}",
        "42",
        "[1, 2",
        "[]",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}",
        "\u{1b}[31mred\u{1b}[0m",
        "",
    ] {
        say(line);
    }
    let mut out = io::stdout().lock();
    drop(
        out.write_all(b"\xff\xfe not text\n")
            .and_then(|()| out.flush()),
    );
    for _ in 0..1_000 {
        eprint_line("a long log line that would fill an unread pipe");
    }
}

/// Sends every possible server request, and answers the call with the responses.
fn ask(stdin: &mut io::StdinLock<'_>, call: &Value) {
    let mut told = Vec::new();
    for (id, method, params) in [
        (
            901,
            "sampling/createMessage",
            json!({"messages": [], "maxTokens": 5}),
        ),
        (
            902,
            "elicitation/create",
            json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}),
        ),
        (903, "roots/list", json!({})),
    ] {
        say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        let mut line = String::new();
        drop(stdin.read_line(&mut line));
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        let said = answer.get("error").or_else(|| answer.get("result"));
        told.push(format!("{method}: {}", said.unwrap_or(&Value::Null)));
    }
    let content = json!([{"type": "text", "text": told.join("\n")}]);
    let result = json!({"jsonrpc": "2.0", "id": call["id"], "result": {"content": content}});
    say(&result.to_string());
}

/// Sends notifications, requests and foreign answers until the client closes the connection.
fn flood() {
    let mut number = 0_u64;
    loop {
        number += 1;
        for message in [
            json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "x".repeat(1_000)}}),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
            json!({"jsonrpc": "2.0", "id": number, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1_000_000 + number, "result": {}}),
        ] {
            if !say(&message.to_string()) {
                return;
            }
        }
    }
}

fn say(line: &str) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(line.as_bytes());
    written
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .is_ok()
}

fn eprint_line(line: &str) {
    let mut err = io::stderr().lock();
    drop(
        err.write_all(line.as_bytes())
            .and_then(|()| err.write_all(b"\n")),
    );
}

/// A server over HTTP, which stops when it is dropped.
///
/// It has the scenarios of [`serve_stdio`] about answers, and:
///
/// | scenario | behavior |
/// |---|---|
/// | `locked` | requires an unobtainable token |
/// | `bearer` | requires the token `sesame` |
/// | `garbage` | answers every call with a page of HTML |
/// | `broken` | answers every call with status 500 |
/// | `redirects` | redirects to another host |
/// | `silent` | answers no call |
#[derive(Debug)]
pub struct McpServer {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Value>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl McpServer {
    /// Starts a server on a free local port.
    ///
    /// # Errors
    /// Returns an error if no port is available.
    pub fn start(scenario: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (log, flag, scenario) = (
            Arc::clone(&received),
            Arc::clone(&stop),
            scenario.to_owned(),
        );
        let thread = std::thread::spawn(move || {
            let memory = Arc::new(Mutex::new(Memory::default()));
            for stream in listener.incoming() {
                if flag.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (scenario, memory) = (scenario.clone(), Arc::clone(&memory));
                let (log, flag) = (Arc::clone(&log), Arc::clone(&flag));
                std::thread::spawn(move || {
                    // A client that went away is the end of its connection and nothing else.
                    drop(converse(stream, &scenario, &memory, &log, &flag));
                });
            }
        });
        Ok(Self {
            address,
            received,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the URL for a client.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns the host rule that allows the server.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns the received messages in order.
    pub fn received(&self) -> Vec<Value> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.clone()
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A connection wakes the listener so that it sees the flag.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn converse(
    stream: TcpStream,
    scenario: &str,
    memory: &Mutex<Memory>,
    log: &Mutex<Vec<Value>>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (mut length, mut bearer) = (0_usize, false);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let header = header.trim();
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(':').unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "authorization" => bearer = value.trim() == "Bearer sesame",
                _ => {}
            }
        }
        let mut body = vec![0_u8; length];
        reader.read_exact(&mut body)?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_call = message["method"] == "tools/call";
        log.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message.clone());
        let locked = scenario == "locked" || (scenario == "bearer" && !bearer);
        let (status, headers, body) = match scenario {
            _ if locked => (
                "401 Unauthorized",
                "www-authenticate: Bearer\r\n",
                String::new(),
            ),
            "redirects" => (
                "307 Temporary Redirect",
                "location: http://203.0.113.7/mcp\r\n",
                String::new(),
            ),
            _ if !line.starts_with("POST") => ("405 Method Not Allowed", "", String::new()),
            "broken" if is_call => ("500 Internal Server Error", "", "oops".to_owned()),
            "garbage" if is_call => (
                "200 OK",
                "content-type: text/html\r\n",
                "<html>hello</html>".to_owned(),
            ),
            "silent" if is_call => {
                while !stop.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                return Ok(());
            }
            _ => {
                let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                let answers = answers(scenario, &message, &mut memory);
                match answers.last() {
                    Some(answer) => (
                        "200 OK",
                        "content-type: application/json\r\nmcp-session-id: one\r\n",
                        answer.to_string(),
                    ),
                    None => ("202 Accepted", "", String::new()),
                }
            }
        };
        let head = format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        writer.write_all(head.as_bytes())?;
        writer.write_all(body.as_bytes())?;
    }
}
