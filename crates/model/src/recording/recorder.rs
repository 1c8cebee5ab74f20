//! Recording of live requests to a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use logue_message::{ChatMessage, Content, ContentBlock};
use openchatml::{FrameBuf, HeaderBuf, frames_from_messages, write_frame, write_header};
use serde_json::Value;

use super::compare::{compare_frames, is_reasoning, settings_json, tools_json};
use crate::{
    BoxFuture, Category, EventHandler, ModelRequest, ModelResponse, Provider, ProviderError,
};

/// A provider adapter that writes requests and responses to a recording.
///
/// [`Replay`](crate::Replay) plays the file, which is complete after each response.
pub struct Recorder {
    inner: Arc<dyn Provider>,
    path: PathBuf,
    state: Mutex<State>,
}

/// The content of the file.
#[derive(Default)]
struct State {
    /// Whether this recorder created the file.
    has_file: bool,
    frames: Vec<FrameBuf>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// An error that prevents the start of a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The path exists; a recording never overwrites a file.
    #[error("{0} exists; a recording never overwrites a file")]
    Exists(PathBuf),
    /// The file cannot be created.
    #[error("cannot write {0}: {1}")]
    Io(PathBuf, #[source] io::Error),
}

impl Recorder {
    /// Wraps a provider with a recorder that writes to `path`.
    ///
    /// # Errors
    /// Returns [`RecordError::Exists`] if the path exists, and [`RecordError::Io`] if its directory is
    /// inaccessible.
    pub fn new(inner: Arc<dyn Provider>, path: &Path) -> Result<Self, RecordError> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(RecordError::Exists(path.to_owned()));
        }
        if let Err(error) = std::fs::metadata(directory_of(path)) {
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
        request: &ModelRequest<'_>,
        events: EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        // A request that cannot be recorded is rejected before it reaches the model.
        let is_first = self.write(request, None)?;
        let response = match self.inner.complete(request, events).await {
            Ok(response) => response,
            Err(error) => {
                if is_first {
                    self.remove();
                }
                return Err(error);
            }
        };
        match self.write(request, Some(&response.message)) {
            Ok(_) => Ok(response),
            // The response was paid for, so the error carries it.
            Err(mut error) => {
                error.answer = Some(Box::new(response.message));
                Err(error)
            }
        }
    }

    /// Writes the conversation and the response, and returns whether the file is new.
    fn write(
        &self,
        request: &ModelRequest<'_>,
        answer: Option<&ChatMessage>,
    ) -> Result<bool, ProviderError> {
        let mut frames = self.frames_of(request.messages)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        restore_reasoning(&mut frames, &state.frames);
        if let Some(answer) = answer {
            frames.extend(self.frames_of(std::slice::from_ref(answer))?);
        }
        let text = self.text(request, &frames)?;
        let is_first = !state.has_file;
        if is_first {
            private_file(&self.path).map_err(|error| failed(&self.path, &error.to_string()))?;
            state.has_file = true;
        }
        if let Err(error) = write_durably(&self.path, &text) {
            if is_first {
                state.has_file = false;
                drop(std::fs::remove_file(&self.path));
            }
            return Err(failed(&self.path, &error.to_string()));
        }
        state.frames = frames;
        Ok(is_first)
    }

    /// Removes the file of a run without a response.
    fn remove(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_file = false;
        state.frames.clear();
        drop(std::fs::remove_file(&self.path));
    }

    fn frames_of(&self, messages: &[ChatMessage]) -> Result<Vec<FrameBuf>, ProviderError> {
        let messages: Vec<ChatMessage> = messages.iter().map(without_evidence).collect();
        let (frames, losses) = frames_from_messages(&messages);
        match losses.first() {
            None => Ok(frames),
            Some(loss) => Err(failed(
                &self.path,
                &format!("a recording cannot represent it: {loss}"),
            )),
        }
    }

    fn text(
        &self,
        request: &ModelRequest<'_>,
        frames: &[FrameBuf],
    ) -> Result<String, ProviderError> {
        let write_error = |error: openchatml::WriteError| failed(&self.path, &error.to_string());
        let mut header =
            HeaderBuf::default().with_extra("tools", Value::Array(tools_json(request.tools)));
        header.model = (!request.model.is_empty()).then(|| request.model.to_owned());
        header.generation_settings = settings_json(request.settings);
        let mut text = write_header(&header).map_err(write_error)?;
        for frame in frames {
            write_frame(&mut text, frame).map_err(write_error)?;
        }
        Ok(text)
    }
}

impl Provider for Recorder {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn takes_images(&self) -> bool {
        self.inner.takes_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(self.ask(request, events))
    }
}

/// Restores the reasoning of earlier responses in requests that omit it.
fn restore_reasoning(frames: &mut Vec<FrameBuf>, recorded: &[FrameBuf]) {
    let mut merged = Vec::with_capacity(frames.len() + recorded.len());
    let mut remaining = std::mem::take(frames)
        .into_iter()
        .filter(|frame| !is_reasoning(frame))
        .peekable();
    for frame in recorded {
        if is_reasoning(frame) {
            merged.push(frame.clone());
        } else if remaining
            .peek()
            .is_some_and(|next| compare_frames(frame, next).is_none())
        {
            merged.extend(remaining.next());
        } else {
            break;
        }
    }
    merged.extend(remaining);
    *frames = merged;
}

fn failed(path: &Path, cause: &str) -> ProviderError {
    ProviderError::new(
        Category::RecordingWriteFailed,
        format!("cannot write the recording {}: {cause}", path.display()),
    )
    .with_help("continue without --record, or record to another file from the beginning; the transcript has the answer")
}

/// Removes the evidence of reasoning: ids, signatures and encrypted content.
///
/// A replay does not compare reasoning, and only the original provider can check the evidence.
fn without_evidence(message: &ChatMessage) -> ChatMessage {
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

/// Replaces the file atomically, so a crash leaves the old or the new recording.
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
        std::fs::File::open(directory_of(path))?.sync_all()?;
    }
    Ok(())
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Creates a file that only its owner may read, because a recording contains hidden content.
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
