//! The messages of agents, kept beside the transcript of the prompt that asked them.
//!
//! The transcript contains only their answers. One line of `.chatmd/NAME.agents.jsonl` is one
//! message: an answer with its calls, or the result of a call.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use logue_harness::chat::Redact as _;
use logue_message::ChatMessage;
use logue_tools::FolderHandle;
use serde_json::{Value, json};

use crate::files::atomic_file::folder_of;
use crate::prompt::file_loader::PAYLOAD_FOLDER;
use crate::prompt::source_file::MAX_SOURCE_BYTES;
use crate::transcript::redaction::Redaction;
use crate::turn::listener::{AgentCallPath, Listener, TurnEvent};

/// The end of the name of the file beside a transcript.
const ENDING: &str = ".agents.jsonl";

/// A listener that keeps the messages of agents and forwards every event.
///
/// Messages are held until [`begin`](Self::begin), so that a refused turn writes nothing.
pub struct AgentLog {
    transcript: PathBuf,
    redaction: Redaction,
    listener: Arc<dyn Listener>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The lines that are not written yet.
    held: String,
    has_begun: bool,
    error: Option<io::Error>,
}

/// A message of an agent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentMessage {
    /// The agent's prompt, as its caller names it.
    pub src: String,
    /// The call that ran the agent; `None` if a prompt did while it was read.
    pub call_id: Option<String>,
    /// The message.
    pub message: ChatMessage,
}

impl AgentLog {
    /// A log beside a transcript, which forwards events to `listener`.
    pub fn new(transcript: &Path, redaction: Redaction, listener: Arc<dyn Listener>) -> Self {
        Self {
            transcript: transcript.to_owned(),
            redaction,
            listener,
            state: Mutex::default(),
        }
    }

    /// Writes the messages so far, and later ones at once.
    pub fn begin(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_begun = true;
        self.write(&mut state);
    }

    /// Returns the first error of writing, once.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.error.take()
    }

    fn keep(&self, agent: &AgentCallPath, message: &ChatMessage) {
        let mut message = message.clone();
        self.redaction.message(&mut message);
        let line = json!({
            "agent": agent.src,
            "call_id": agent.call_id,
            "depth": agent.depth,
            "message": message.to_json(),
        });
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held.push_str(&format!("{line}\n"));
        if state.has_begun {
            self.write(&mut state);
        }
    }

    fn write(&self, state: &mut State) {
        if state.held.is_empty() {
            return;
        }
        if let Err(error) = append(&self.transcript, &state.held) {
            state.error.get_or_insert(error);
        }
        state.held.clear();
    }
}

impl Listener for AgentLog {
    fn event(&self, event: TurnEvent) {
        if let TurnEvent::OfAgent { agent, event } = &event
            && let TurnEvent::MessageCompleted(message) = &**event
        {
            self.keep(agent, message);
        }
        self.listener.event(event);
    }
}

/// Reads the messages of agents beside a transcript, and counts the lines that are damaged.
///
/// # Errors
/// Returns an error if the file exists and cannot be read; a link is not followed.
pub fn agent_messages(transcript: &Path) -> io::Result<(Vec<AgentMessage>, usize)> {
    let opened = FolderHandle::open(folder_of(transcript))
        .and_then(|beside| beside.enter(OsStr::new(PAYLOAD_FOLDER)))
        .and_then(|folder| folder.open_file(&file_name(transcript)));
    let file = match opened {
        Ok((file, _)) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_SOURCE_BYTES).read_to_end(&mut bytes)?;
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    let read: Vec<Option<AgentMessage>> = lines.map(message_in).collect();
    let damaged = read.iter().filter(|message| message.is_none()).count();
    Ok((read.into_iter().flatten().collect(), damaged))
}

fn message_in(line: &[u8]) -> Option<AgentMessage> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(AgentMessage {
        src: text("agent")?,
        call_id: text("call_id"),
        message: ChatMessage::from_json(value.get("message")?).ok()?,
    })
}

/// Appends lines to the file, which is created if it is missing.
fn append(transcript: &Path, lines: &str) -> io::Result<()> {
    let beside = FolderHandle::open(folder_of(transcript))?;
    let folder = OsStr::new(PAYLOAD_FOLDER);
    match beside.create_folder(folder, true) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let folder = beside.enter(folder)?;
    let name = file_name(transcript);
    let mut file = match folder.open_to_write(&name) {
        Ok((file, _)) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => folder.create_file(&name, true)?,
        Err(error) => return Err(error),
    };
    let end = file.seek(SeekFrom::End(0))?;
    if end > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            // A killed process left a part of a line.
            file.write_all(b"\n")?;
        }
    }
    file.write_all(lines.as_bytes())?;
    file.sync_data()
}

fn file_name(transcript: &Path) -> OsString {
    let mut name = transcript.file_name().unwrap_or_default().to_owned();
    name.push(ENDING);
    name
}
