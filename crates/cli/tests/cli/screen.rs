//! The program on a real pseudo-terminal, and a prompt whose tool is asked about.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::pty::openpty;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};
use crate::waiting::wait_until;

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";
const DEPLOY: &str = "echo \"ran $*\" >> runs\n";

/// The program with a terminal for its input and its output.
pub(crate) struct Screen {
    pub(crate) child: Child,
    pub(crate) keys: File,
    pub(crate) seen: Arc<Mutex<String>>,
    /// The thread that reads the screen until the terminal is closed.
    pub(crate) reader: JoinHandle<()>,
}

impl Screen {
    pub(crate) fn start(command: &mut Command) -> Self {
        let pair = openpty(None, None).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let child = command
            .env("TERM", "dumb")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        // While the command is there it holds the terminal open too.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        drop(pair.slave);
        let keys = File::from(pair.master);
        let mut screen = keys.try_clone().unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut block = [0; 4096];
            // The terminal ends with an error.
            while let Ok(count @ 1..) = screen.read(&mut block) {
                let text = String::from_utf8_lossy(&block[..count]).replace('\r', "");
                shown.lock().unwrap().push_str(&text);
            }
        });
        Self {
            child,
            keys,
            seen,
            reader,
        }
    }

    pub(crate) fn text(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until something was shown so many times.
    pub(crate) fn expect_times(&self, text: &str, times: usize) {
        wait_until(
            || format!("`{text}` was not shown:\n{}", self.text()),
            || self.text().matches(text).count() >= times,
        );
    }

    pub(crate) fn expect(&self, text: &str) {
        self.expect_times(text, 1);
    }

    pub(crate) fn press(&mut self, keys: &str) {
        // The program discards what was typed before it reads, which no event reports.
        std::thread::sleep(Duration::from_millis(100));
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// The exit status and everything that was shown.
    pub(crate) fn end(mut self) -> (i32, String) {
        let (seen, mut status) = (Arc::clone(&self.seen), None);
        wait_until(
            || format!("it does not end:\n{}", seen.lock().unwrap()),
            || {
                status = self.child.try_wait().unwrap();
                status.is_some() && self.reader.is_finished()
            },
        );
        let status = status.unwrap();
        (status.code().unwrap_or(-1), self.text())
    }
}

pub(crate) fn call(id: &str, argument: &str) -> Reply {
    let arguments = serde_json::json!({ "arguments": [argument] }).to_string();
    Reply::Answer(Answer::text("").with_call(id, "deploy", arguments))
}

pub(crate) fn text_reply(text: &str) -> Reply {
    Reply::Answer(Answer::text(text))
}

pub(crate) fn server(replies: Vec<Reply>) -> ModelServer {
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

pub(crate) fn prepared() -> tempfile::TempDir {
    folder(&[("p.md", PROMPT), ("deploy.sh", DEPLOY)])
}

/// The program where everything is trusted and `deploy` is asked about.
pub(crate) fn asked(folder: &Path, server: &ModelServer) -> Command {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", server.base_url()).args([
        "run",
        "--permission",
        "deploy=ask",
        "p.md",
        "go",
    ]);
    command
}

pub(crate) fn runs(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("runs")).unwrap_or_default()
}

/// The result of the last call, as the model was told it.
pub(crate) fn last_tool_result(server: &ModelServer) -> String {
    let requests = server.received();
    let messages = requests.last().unwrap().body["messages"].clone();
    let messages = messages.as_array().unwrap();
    let result = messages.iter().rfind(|message| message["role"] == "tool");
    result.unwrap()["content"].as_str().unwrap().to_owned()
}

pub(crate) fn records(folder: &Path) -> Vec<serde_json::Value> {
    let shown: Ran = logue(folder)
        .args(["sessions", "show", "p.md", "--audit", "--json"])
        .output()
        .unwrap()
        .into();
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    shown["audit"].as_array().unwrap().clone()
}
