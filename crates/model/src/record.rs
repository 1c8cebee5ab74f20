//! A live run, written down as a recording.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use logue_message::ChatMessage;
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
    /// Whether the file is ours: it is made with the first answer, so that a run which never gets
    /// one leaves nothing.
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
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Err(error) = std::fs::metadata(folder.unwrap_or(Path::new("."))) {
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
        let response = self.inner.complete(request, events).await?;
        match self.keep(request, &response.message) {
            Ok(()) => Ok(response),
            // The answer was given and paid for: it goes along with the error.
            Err(mut error) => {
                error.answer = Some(Box::new(response.message));
                Err(error)
            }
        }
    }

    fn keep(&self, request: &Request<'_>, answer: &ChatMessage) -> Result<(), ProviderError> {
        let (mut asked, mut losses) = frames_from_messages(request.messages);
        let (answered, more) = frames_from_messages(std::slice::from_ref(answer));
        losses.extend(more);
        if let Some(loss) = losses.first() {
            return Err(failed(
                &self.path,
                &format!("a recording cannot hold it: {loss}"),
            ));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        restore_reasoning(&mut asked, &state.frames);
        asked.extend(answered);
        let text = self.text(request, &asked)?;
        if !state.claimed {
            private_file(&self.path, true)
                .map_err(|error| failed(&self.path, &error.to_string()))?;
            state.claimed = true;
        }
        state.frames = asked;
        write_durably(&self.path, &text).map_err(|error| failed(&self.path, &error.to_string()))
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
        Category::RecordFailed,
        format!("the recording {} cannot be written: {why}", path.display()),
    )
    .with_help("the answer is in the transcript; go on without --record, or record from the beginning to another file")
}

/// Replaces the file as a whole, so that a crash leaves the old or the new recording.
fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".logue-tmp");
    let temporary = path.with_file_name(name);
    let mut file = private_file(&temporary, false)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

/// Opens a file that only its owner may read: a recording holds what is hidden from users.
fn private_file(path: &Path, must_be_new: bool) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if must_be_new {
        options.create_new(true);
    } else {
        options.create(true).truncate(true);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}
