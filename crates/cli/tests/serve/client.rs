//! A running `logue serve`, and a client of its HTTP interface.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::program::logue;
use crate::waiting::wait_until;

/// The longest wait for a byte of the server.
const SILENCE: Duration = Duration::from_secs(60);

/// A server process, which is killed when it is dropped.
pub(crate) struct Served {
    pub(crate) child: Child,
    /// Its address, with the port.
    pub(crate) address: String,
    /// The text of its standard error.
    said: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// A server that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl Event {
    pub(crate) fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap()
    }
}

/// A stream of events that is open.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    /// The bytes of the current chunk that are not read yet.
    buffer: Vec<u8>,
}

impl Served {
    /// Starts a server in a folder with these arguments after `serve`, on a free port.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_with(logue(folder), arguments)
    }

    /// Starts a server by a command that has an environment already.
    pub(crate) fn start_with(command: Command, arguments: &[&str]) -> Self {
        Self::start_at(command, "127.0.0.1:0", arguments)
    }

    /// Starts a server at an address, such as that of an earlier one.
    pub(crate) fn start_at(command: Command, address: &str, arguments: &[&str]) -> Self {
        Self::start_on(command, address, "sqlite:s.db", arguments)
    }

    /// Starts a server at an address on a store.
    pub(crate) fn start_on(
        mut command: Command,
        address: &str,
        store: &str,
        arguments: &[&str],
    ) -> Self {
        let mut child = command
            .arg("serve")
            .args(["--listen", address, "--store", store])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            let read = lines.read_line(&mut line).unwrap();
            assert!(read > 0, "the server ended: {said}");
            if let Some(address) = line.trim().strip_prefix("listening on http://") {
                // A prefix of paths follows the port.
                break address.split('/').next().unwrap_or_default().to_owned();
            }
            said.push_str(&line);
        };
        // A full pipe would stop the server.
        let said = Arc::new(Mutex::new(said));
        let log = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                log.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Self {
            child,
            address,
            said,
            reader: Some(reader),
        }
    }

    /// Sends a request and reads the whole answer.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answered {
        self.try_request(method, path, headers, body).unwrap()
    }

    /// Sends a request and reads the answer; `None` if the server ends meanwhile.
    pub(crate) fn try_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answered> {
        let stream = self.connect(method, path, headers, body).ok()?;
        let mut reader = BufReader::new(stream);
        let (status, head) = read_head(&mut reader)?;
        let mut text = Vec::new();
        let is_chunked = head
            .to_ascii_lowercase()
            .contains("transfer-encoding: chunked");
        if is_chunked {
            while let Some(chunk) = read_chunk(&mut reader) {
                text.extend(chunk);
            }
        } else {
            reader.read_to_end(&mut text).ok()?;
        }
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
        let is_whole = length.is_none_or(|length: usize| length == text.len());
        let text = String::from_utf8(text).ok()?;
        is_whole.then_some(Answered { status, head, text })
    }

    pub(crate) fn get(&self, path: &str) -> Answered {
        self.request("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answered {
        self.request("POST", path, &[], &body.to_string())
    }

    /// Opens a stream of events.
    pub(crate) fn events(
        &self,
        method: &str,
        path: &str,
        last: Option<&str>,
        body: &str,
    ) -> Events {
        let headers: Vec<_> = last
            .map(|last| ("last-event-id", last))
            .into_iter()
            .collect();
        self.try_events(method, path, &headers, body).unwrap()
    }

    /// Opens a stream of events; `None` if the server ends meanwhile.
    pub(crate) fn try_events(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Events> {
        let headers = [headers, &[("accept", "text/event-stream")]].concat();
        let stream = self.connect(method, path, &headers, body).ok()?;
        let mut reader = BufReader::new(stream);
        let (status, head) = read_head(&mut reader)?;
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("text/event-stream"), "{head}");
        Some(Events {
            reader,
            buffer: Vec::new(),
        })
    }

    /// Connects and sends a request.
    pub(crate) fn connect(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(SILENCE))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type") {
            head.push_str("content-type: application/json\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = body.len();
        head.push_str(&format!(
            "connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        ));
        stream.write_all(head.as_bytes())?;
        Ok(stream)
    }

    /// Ends the server by SIGTERM.
    pub(crate) fn end(mut self) -> Ended {
        let id = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
        let mut status = None;
        wait_until(
            || "the server does not end".to_owned(),
            || {
                status = self.child.try_wait().unwrap();
                status.is_some()
            },
        );
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().unwrap();
        pipe.read_to_string(&mut stdout).unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        Ended {
            status: status.unwrap().code(),
            stdout,
            stderr: self.said(),
        }
    }

    /// Returns what the server has written to standard error.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Returns the events of a session from the first one, as text; without turns that run.
    pub(crate) fn logged_events(&self, session: &str) -> String {
        let path = format!("/v1/sessions/{session}");
        let shown = self.get(&path);
        if shown.status == 404 {
            return String::new();
        }
        let shown = shown.json();
        let last = shown["events_after"].as_str().unwrap();
        let count = last.split_once('-').unwrap().0.parse().unwrap();
        let mut stream = self.events("GET", &format!("{path}/events"), Some("0-1"), "");
        let mut text = String::new();
        for _ in 0..count {
            text.push_str(&format!("{:?}\n", stream.next().unwrap()));
        }
        text
    }

    /// Kills the server as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Events {
    /// Reads up to a number of bytes, which are lost, and closes the connection.
    pub(crate) fn cut(mut self, bytes: usize) {
        if self.buffer.is_empty() {
            let mut lost = vec![0; bytes];
            drop(self.reader.read(&mut lost));
        }
    }

    /// Reads the next event; `None` if the stream ends.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            let end = self.buffer.windows(2).position(|two| two == b"\n\n");
            let Some(end) = end else {
                self.buffer.extend(read_chunk(&mut self.reader)?);
                continue;
            };
            let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let block = String::from_utf8(block).unwrap();
            let field = |name: &str| {
                let mut lines = block.lines();
                lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            };
            if let Some(data) = field("data") {
                return Some(Event {
                    // Streams of other APIs have no ids.
                    id: field("id").unwrap_or_default().to_owned(),
                    data: serde_json::from_str(data).unwrap(),
                });
            }
        }
    }

    /// Reads up to an event of this type, which is included.
    pub(crate) fn until(&mut self, kind: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next();
            let event = event.unwrap_or_else(|| panic!("no `{kind}` after {events:?}"));
            let is_last = event.kind() == kind;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }
}

/// Reads the status of an answer, whose body stays in the connection.
pub(crate) fn status_of(stream: &TcpStream) -> u16 {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    read_head(&mut reader).unwrap().0
}

/// Reads the head of an answer; `None` if the connection ends.
fn read_head(reader: &mut BufReader<TcpStream>) -> Option<(u16, String)> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        if read == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Some((status, head))
}

/// Reads a chunk of a chunked body; `None` at its end, or where the connection ends.
pub(crate) fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    (length > 0).then_some(chunk)
}
