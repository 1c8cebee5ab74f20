//! A server reached through nginx, with compression, a path prefix and a short read timeout.

use std::io::{self, BufRead as _, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flate2::read::GzDecoder;
use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Received, Reply, soak};

use crate::client::{Served, read_chunk};
use crate::program::{folder, logue};
use crate::waiting::wait_until;

/// nginx, which is ended when it is dropped.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns nginx of the system, or the one that `testing/testkit/nginx/fetch` has unpacked.
fn nginx() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unpacked = root.join("testing/testkit/nginx/.cache/usr/sbin/nginx");
    let system = PathBuf::from("/usr/sbin/nginx");
    [unpacked, system].into_iter().find(|path| path.is_file())
}

fn start(program: &Path, folder: &Path, port: u16, upstream: &str, seconds: u32) -> Nginx {
    let configuration = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr;\n\
         events {{}}\n\
         http {{ access_log off; gzip on; gzip_types *; gzip_min_length 1;\n\
         client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3;\n\
         uwsgi_temp_path t4; scgi_temp_path t5;\n\
         server {{ listen 127.0.0.1:{port};\n\
         location /agents/ {{ proxy_pass http://{upstream}; proxy_http_version 1.1;\n\
         proxy_set_header Host localhost; proxy_set_header Connection \"\";\n\
         proxy_read_timeout {seconds}s; }} }} }}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, configuration).unwrap();
    let child = Command::new(program)
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(
        || "nginx does not listen".to_owned(),
        || TcpStream::connect(("127.0.0.1", port)).is_ok(),
    );
    Nginx(child)
}

/// The body of a chunked response.
struct Chunks {
    reader: BufReader<TcpStream>,
    rest: Vec<u8>,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = read_chunk(&mut self.reader).unwrap_or_default();
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

/// Returns a port that is free now.
fn free_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    free.local_addr().unwrap().port()
}

#[test]
fn a_proxy_removes_the_prefix_or_leaves_it() {
    let Some(program) = nginx() else {
        println!("SKIPPED: nginx is not installed; run testing/testkit/nginx/fetch");
        return;
    };
    let variants = [
        (&["agent.md"][..], "/"),
        (&["agent.md", "--path-prefix", "/agents"], ""),
    ];
    for (arguments, path) in variants {
        let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
        let mut served = Served::start(folder.path(), arguments);
        let port = free_port();
        let upstream = format!("{}{path}", served.address);
        let _nginx = start(&program, folder.path(), port, &upstream, 10);
        served.address = format!("127.0.0.1:{port}");
        assert!(
            served.get("/agents/").text.contains("<title>"),
            "{arguments:?}"
        );
        assert_eq!(served.get("/agents/page/app.js").status, 200);
        let body = json!({"message": "go"}).to_string();
        let mut stream = served.events("POST", "/agents/v1/sessions/s1/send", None, &body);
        stream.until("turn.completed");
        let shown = served.get("/agents/v1/sessions/s1/messages").json();
        assert_eq!(shown["messages"][0]["content"], "go");
        assert_eq!(served.get("/v1/sessions/s1").status, 404);
    }
}

#[test]
fn a_silent_tool_survives_a_proxy_with_a_short_timeout() {
    let Some(program) = nginx() else {
        println!("SKIPPED: nginx is not installed; run testing/testkit/nginx/fetch");
        return;
    };
    // The silence is longer than the timeout of the proxy.
    let (timeout, silence) = (soak::rounds(10, 15), soak::rounds(12, 90));
    let answer = |request: &Received| {
        let messages = request.body["messages"].as_array().unwrap();
        let has_result = messages.iter().any(|message| message["role"] == "tool");
        Reply::Answer(if has_result {
            Answer::text("the end")
        } else {
            Answer::text("").with_call("c1", "work", "{}")
        })
    };
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let agent = "<config model=\"m\"/>\n<tool name=\"work\" command=\"sh work.sh\"/>\n";
    let script = format!("sleep {silence}\ntouch ended\nprintf done\n");
    // The default limit of a command is shorter than the long silence.
    let settings = "[tools]\ntimeout_seconds = 120\n";
    let folder = folder(&[
        ("agent.md", agent),
        ("work.sh", &script),
        ("logue.toml", settings),
    ]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let mut served = Served::start_with(command, &["agent.md", "--permission", "work=allow"]);
    let port = free_port();
    let upstream = format!("{}/", served.address);
    let _nginx = start(&program, folder.path(), port, &upstream, timeout);
    served.address = format!("127.0.0.1:{port}");

    let body = json!({"message": "go"}).to_string();
    let path = "/agents/v1/sessions/s1/send";
    let headers = [("accept-encoding", "gzip"), ("accept", "text/event-stream")];
    let connection = served.connect("POST", path, &headers, &body).unwrap();
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let lower = head.to_ascii_lowercase();
    assert!(lower.contains("content-encoding: gzip"), "{head}");
    let chunks = Chunks {
        reader,
        rest: Vec::new(),
    };
    let mut lines = BufReader::new(GzDecoder::new(chunks)).lines();
    let mut until = |kind: &str| {
        let kind = format!("event: {kind}");
        let found = lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| *line == kind);
        assert!(found.is_some(), "the stream ended before `{kind}`");
    };
    until("turn.accepted");
    until("tool.started");
    // The first events have passed before the tool ends.
    assert!(!folder.path().join("ended").exists());
    until("tool.ended");
    until("turn.completed");
    let shown = served.get("/agents/v1/sessions/s1/messages").json();
    let result = shown["messages"][2]["content"].as_str().unwrap();
    assert!(result.starts_with("done"), "{result}");
    assert_eq!(shown["messages"][3]["content"], "the end");
}
