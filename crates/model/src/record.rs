//! A live run, written down as a recording.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use logue_message::{ChatMessage, Content, ContentBlock};
use openchatml::{FrameBuf, HeaderBuf, frames_from_messages, write_frame, write_header};
use serde_json::Value;

use crate::recording::{compare_frames, is_reasoning, settings_json, tools_json};
use crate::{BoxFuture, Category, EventSink, Provider, ProviderError, Request, Response};

/// A provider that asks another one and writes what was asked and answered to a file, in the form
/// that [`Replay`](crate::Replay) plays. The file is complete after each answer.
pub struct Recorder {
    inner: Arc<dyn Provider>,
    path: PathBuf,
    state: Mutex<State>,
}

/// What the file holds.
#[derive(Default)]
struct State {
    /// Whether the file is ours.
    claimed: bool,
    frames: Vec<FrameBuf>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A recording that cannot be begun.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Something is at the path already, and a recording never overwrites.
    #[error("{0} exists already; a recording never overwrites a file")]
    Exists(PathBuf),
    /// The file cannot be made.
    #[error("{0} cannot be written: {1}")]
    Io(PathBuf, #[source] io::Error),
}

impl Recorder {
    /// A recorder around `inner` that writes to `path`.
    ///
    /// # Errors
    /// The path exists already or cannot be written.
    pub fn new(inner: Arc<dyn Provider>, path: &Path) -> Result<Self, RecordError> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(RecordError::Exists(path.to_owned()));
        }
        if let Err(error) = std::fs::metadata(folder_of(path)) {
            return Err(RecordError::Io(path.to_owned(), error));
        }
        Ok(Self {
            inner,
            path: path.to_owned(),
            state: Mutex::default(),
        })
    }

    async fn ask(
        &self,
        request: &Request<'_>,
        events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        // What cannot be recorded is refused before the model is asked.
        let first = self.keep(request, None)?;
        let response = match self.inner.complete(request, events).await {
            Ok(response) => response,
            Err(error) => {
                if first {
                    self.forget();
                }
                return Err(error);
            }
        };
        match self.keep(request, Some(&response.message)) {
            Ok(_) => Ok(response),
            // The answer was given and paid for: it goes along with the error.
            Err(mut error) => {
                error.answer = Some(Box::new(response.message));
                Err(error)
            }
        }
    }

    /// Writes the conversation up to and with an answer; says whether this made the file.
    fn keep(
        &self,
        request: &Request<'_>,
        answer: Option<&ChatMessage>,
    ) -> Result<bool, ProviderError> {
        let mut asked = self.frames_of(request.messages)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        restore_reasoning(&mut asked, &state.frames);
        if let Some(answer) = answer {
            asked.extend(self.frames_of(std::slice::from_ref(answer))?);
        }
        let text = self.text(request, &asked)?;
        let first = !state.claimed;
        if first {
            private_file(&self.path).map_err(|error| failed(&self.path, &error.to_string()))?;
            state.claimed = true;
        }
        if let Err(error) = write_durably(&self.path, &text) {
            if first {
                state.claimed = false;
                drop(std::fs::remove_file(&self.path));
            }
            return Err(failed(&self.path, &error.to_string()));
        }
        state.frames = asked;
        Ok(first)
    }

    /// A run that never got an answer leaves no recording.
    fn forget(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.claimed = false;
        state.frames.clear();
        drop(std::fs::remove_file(&self.path));
    }

    fn frames_of(&self, messages: &[ChatMessage]) -> Result<Vec<FrameBuf>, ProviderError> {
        let messages: Vec<ChatMessage> = messages.iter().map(without_proofs).collect();
        let (frames, losses) = frames_from_messages(&messages);
        match losses.first() {
            None => Ok(frames),
            Some(loss) => Err(failed(
                &self.path,
                &format!("a recording cannot hold it: {loss}"),
            )),
        }
    }

    fn text(&self, request: &Request<'_>, frames: &[FrameBuf]) -> Result<String, ProviderError> {
        let refused = |error: openchatml::WriteError| failed(&self.path, &error.to_string());
        let mut header =
            HeaderBuf::default().with_extra("tools", Value::Array(tools_json(request.tools)));
        header.model = (!request.model.is_empty()).then(|| request.model.to_owned());
        header.generation_settings = settings_json(request.settings);
        let mut text = write_header(&header).map_err(refused)?;
        for frame in frames {
            write_frame(&mut text, frame).map_err(refused)?;
        }
        Ok(text)
    }
}

impl Provider for Recorder {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(self.ask(request, events))
    }
}

/// Puts the reasoning of earlier answers back to its place, for requests that do not carry it.
fn restore_reasoning(asked: &mut Vec<FrameBuf>, recorded: &[FrameBuf]) {
    let mut merged = Vec::with_capacity(asked.len() + recorded.len());
    let mut rest = std::mem::take(asked)
        .into_iter()
        .filter(|frame| !is_reasoning(frame))
        .peekable();
    for frame in recorded {
        if is_reasoning(frame) {
            merged.push(frame.clone());
        } else if rest
            .peek()
            .is_some_and(|next| compare_frames(frame, next).is_none())
        {
            merged.extend(rest.next());
        } else {
            break;
        }
    }
    merged.extend(rest);
    *asked = merged;
}

fn failed(path: &Path, why: &str) -> ProviderError {
    ProviderError::new(
        Category::RecordingWriteFailed,
        format!("the recording {} cannot be written: {why}", path.display()),
    )
    .with_help("the answer is in the transcript; go on without --record, or record from the beginning to another file")
}

/// Reasoning is played and never compared, and only by a provider that checks none of it. So what
/// proves it to its own provider is left out: ids, signatures and what only that one can read.
fn without_proofs(message: &ChatMessage) -> ChatMessage {
    let mut message = message.clone();
    if let Content::Blocks(blocks) = &mut message.content {
        blocks.retain_mut(|block| match block {
            ContentBlock::Thinking {
                text,
                signature,
                id,
            } => {
                *signature = None;
                *id = None;
                !text.is_empty()
            }
            ContentBlock::Text { signature, .. } => {
                *signature = None;
                true
            }
            ContentBlock::RedactedThinking { .. } => false,
            _ => true,
        });
    }
    for call in &mut message.tool_calls {
        call.signature = None;
    }
    message
}

/// Replaces the file as a whole, so that a crash leaves the old or the new recording.
fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".logue-tmp");
    let temporary = path.with_file_name(name);
    match std::fs::remove_file(&temporary) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = private_file(&temporary)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        drop(std::fs::remove_file(&temporary));
        return written;
    }
    if cfg!(unix) {
        std::fs::File::open(folder_of(path))?.sync_all()?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a new file that only its owner may read: a recording holds what is hidden from users.
fn private_file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}
