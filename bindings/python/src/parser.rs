//! The state of `StreamableParser` of openai-harmony, kept by the recovering reader.

use std::sync::{Mutex, MutexGuard, PoisonError};

use logue_o200k::special;
use logue_source::{Diagnostic, DiagnosticCode};
use openchatml::FrameRole;
use openchatml::harmony::{End, Event, HarmonyReadOptions, IdStream, MessageHeader};
use openchatml::limits::MAX_DIAGNOSTICS;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyString, PyType};

use crate::finding::Finding;
use crate::input;

static HARMONY_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// A message as the compatibility module builds it: role, name, recipient, channel, content type,
/// text.
type Fields = (
    &'static str,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    String,
);

/// The header of the current message.
#[derive(Default)]
struct Header {
    role: &'static str,
    name: Option<String>,
    recipient: Option<String>,
    channel: Option<String>,
    content_type: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    ExpectStart,
    Header,
    Content,
}

struct Inner {
    stream: IdStream,
    /// The implied role, until the first header is read.
    next_role: Option<FrameRole>,
    state: State,
    header: Header,
    /// Whether the current header has a `<|constrain|>`.
    constrained: bool,
    content: String,
    /// The length of the content before the last id.
    before: usize,
    /// Whether the last id changed the content of a message that is still open.
    has_delta: bool,
    tokens: Vec<u32>,
    messages: Vec<Fields>,
    ends: Vec<(&'static str, bool)>,
    diagnostics: Vec<Diagnostic>,
    failure: Option<Box<Diagnostic>>,
    /// The words of the header as Python has them.
    words: Words,
}

/// Words that are asked for after each id, made once for each message.
#[derive(Default)]
struct Words {
    channel: Option<Py<PyString>>,
    recipient: Option<Py<PyString>>,
    content_type: Option<Py<PyString>>,
}

/// A word as Python has it. A string is unknown to the garbage collector, so that making it while
/// the parser is locked runs no code of the caller.
fn word(
    py: Python<'_>,
    word: Option<&str>,
    made: &mut Option<Py<PyString>>,
) -> Option<Py<PyString>> {
    let word = word?;
    let made = made.get_or_insert_with(|| PyString::new(py, word).unbind());
    Some(made.clone_ref(py))
}

impl Inner {
    fn new(options: HarmonyReadOptions) -> Self {
        let next_role = options.start_role;
        Self {
            stream: IdStream::new(options),
            next_role,
            state: if next_role.is_some() {
                State::Header
            } else {
                State::ExpectStart
            },
            header: Header::default(),
            constrained: false,
            content: String::new(),
            before: 0,
            has_delta: false,
            tokens: Vec::new(),
            messages: Vec::new(),
            ends: Vec::new(),
            diagnostics: Vec::new(),
            failure: None,
            words: Words::default(),
        }
    }
}

/// The part of the state that events change.
struct Sink<'i> {
    next_role: &'i mut Option<FrameRole>,
    state: &'i mut State,
    header: &'i mut Header,
    constrained: &'i mut bool,
    content: &'i mut String,
    messages: &'i mut Vec<Fields>,
    ends: &'i mut Vec<(&'static str, bool)>,
    diagnostics: &'i mut Vec<Diagnostic>,
    failure: &'i mut Option<Box<Diagnostic>>,
    strict: bool,
}

impl Sink<'_> {
    fn take(&mut self, event: Event<'_>) {
        if self.failure.is_some() {
            return;
        }
        match event {
            Event::Start(head) => self.start(head),
            Event::Delta(text) => self.content.push_str(text),
            Event::End(ended) => {
                let header = std::mem::take(self.header);
                let text = std::mem::take(self.content);
                self.messages.push((
                    header.role,
                    header.name,
                    header.recipient,
                    header.channel,
                    header.content_type,
                    text,
                ));
                self.ends.push((ended.end.as_str(), ended.complete));
                *self.state = match ended.end {
                    End::Implicit => State::Header,
                    _ => State::ExpectStart,
                };
            }
            Event::Amended(end) => {
                if let Some(last) = self.ends.last_mut() {
                    *last = (end.as_str(), true);
                }
            }
            Event::Diagnostic(found) => {
                if self.strict && found.is_error() {
                    *self.failure = Some(Box::new(found.clone()));
                }
                if self.diagnostics.len() < MAX_DIAGNOSTICS {
                    self.diagnostics.push(found);
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, head: &MessageHeader) {
        let constrained = std::mem::take(self.constrained);
        let content_type = head.content_type.as_ref().map(|name| {
            if constrained {
                format!("<|constrain|>{name}")
            } else {
                name.clone()
            }
        });
        // Text outside of messages is the model's, too.
        let role = head.role.as_str().unwrap_or("assistant");
        *self.header = Header {
            role,
            name: head.name.clone(),
            recipient: head.recipient.clone(),
            channel: head.channel.clone(),
            content_type,
        };
        self.content.clear();
        *self.next_role = None;
        *self.state = State::Content;
    }
}

/// Reads a completion id by id.
#[pyclass(frozen, subclass, module = "openchatml")]
pub(crate) struct HarmonyParser {
    options: HarmonyReadOptions,
    inner: Mutex<Inner>,
}

impl HarmonyParser {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Inner> {
        let locked = self.inner.lock_py_attached(py);
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// The exception of a strict parser's error, also for every later call.
    fn raise(py: Python<'_>, found: &Diagnostic) -> PyErr {
        let message = match found.code {
            // The words that openai-harmony has for it.
            DiagnosticCode::ParseHeader => format!(
                "unexpected tokens remaining in message header: {} ({})",
                found.message, found.code
            ),
            code => format!("{} ({code})", found.message),
        };
        let finding = Finding::at(found, (found.primary.start, found.primary.end));
        let raised = HARMONY_ERROR
            .import(py, "openchatml._errors", "HarmonyError")
            .and_then(|class| class.call1((message,)))
            .and_then(|error| {
                error.setattr("code", found.code.as_str())?;
                error.setattr("byte_span", (found.primary.start, found.primary.end))?;
                error.setattr("diagnostic", Py::new(py, finding)?)?;
                Ok(error)
            });
        raised.map_or_else(|error| error, PyErr::from_value)
    }
}

fn feed(inner: &mut Inner, id: u32, strict: bool) {
    let Inner {
        stream,
        next_role,
        state,
        header,
        constrained,
        content,
        before,
        has_delta,
        tokens,
        messages,
        ends,
        diagnostics,
        failure,
        words,
    } = inner;
    tokens.push(id);
    match id {
        special::START if *state != State::Content => *state = State::Header,
        special::CONSTRAIN if *state == State::Header => *constrained = true,
        _ => {}
    }
    *before = content.len();
    let count = messages.len();
    let mut sink = Sink {
        next_role,
        state,
        header,
        constrained,
        content,
        messages,
        ends,
        diagnostics,
        failure,
        strict,
    };
    stream.push_harmony(id, &mut |event: Event<'_>| sink.take(event));
    if messages.len() != count || content.len() < *before {
        *before = 0;
    }
    if *state != State::Content || *before == 0 {
        *words = Words::default();
    }
    *has_delta = *state == State::Content && content.len() > *before;
}

#[pymethods]
impl HarmonyParser {
    #[new]
    #[pyo3(signature = (encoding, role, *, strict=None, tools=Vec::new()))]
    fn new(
        encoding: &Bound<'_, PyAny>,
        role: Option<&Bound<'_, PyAny>>,
        strict: Option<bool>,
        tools: Vec<String>,
    ) -> PyResult<Self> {
        // There is one encoding; the argument is part of the signature.
        encoding.getattr("stop_tokens")?;
        let options = HarmonyReadOptions::default()
            .with_start_role(input::role(role)?)
            .with_strict(strict.unwrap_or(false))
            .with_tools(tools);
        Ok(Self {
            inner: Mutex::new(Inner::new(options.clone())),
            options,
        })
    }

    /// Reads an id and returns the parser.
    fn process(slf: PyRef<'_, Self>, token: u32) -> PyResult<PyRef<'_, Self>> {
        let py = slf.py();
        let strict = slf.options.strict;
        let failure = {
            let mut inner = slf.lock(py);
            if inner.failure.is_none() {
                feed(&mut inner, token, strict);
            }
            inner.failure.clone()
        };
        match failure {
            None => Ok(slf),
            Some(found) => Err(Self::raise(py, &found)),
        }
    }

    /// Reads several ids and returns the parser.
    fn process_many(slf: PyRef<'_, Self>, tokens: Vec<u32>) -> PyResult<PyRef<'_, Self>> {
        let py = slf.py();
        let strict = slf.options.strict;
        let failure = {
            let mut inner = slf.lock(py);
            let inner = &mut *inner;
            py.detach(|| {
                for token in tokens {
                    if inner.failure.is_some() {
                        break;
                    }
                    feed(inner, token, strict);
                }
            });
            inner.failure.clone()
        };
        match failure {
            None => Ok(slf),
            Some(found) => Err(Self::raise(py, &found)),
        }
    }

    /// Ends the completion; a message that is open is closed.
    fn process_eos(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        let py = slf.py();
        let options = slf.options.clone();
        let failure = {
            let mut inner = slf.lock(py);
            if inner.failure.is_none() {
                let strict = options.strict;
                let fresh = IdStream::new(options.with_start_role(None));
                let Inner {
                    stream,
                    next_role,
                    state,
                    header,
                    constrained,
                    content,
                    before,
                    has_delta,
                    messages,
                    ends,
                    diagnostics,
                    failure,
                    words,
                    tokens: _,
                } = &mut *inner;
                let stream = std::mem::replace(stream, fresh);
                // A message that the limit of tokens cut is not an error of the model.
                let in_header = *state == State::Header;
                let mut sink = Sink {
                    next_role,
                    state,
                    header,
                    constrained,
                    content,
                    messages,
                    ends,
                    diagnostics,
                    failure,
                    strict: strict && in_header,
                };
                stream.finish(&mut |event: Event<'_>| sink.take(event));
                *words = Words::default();
                *next_role = None;
                *state = State::ExpectStart;
                *before = 0;
                *has_delta = false;
            }
            inner.failure.clone()
        };
        match failure {
            None => Ok(slf),
            Some(found) => Err(Self::raise(py, &found)),
        }
    }

    /// The text of the current message so far.
    #[getter]
    fn current_content(&self, py: Python<'_>) -> String {
        self.lock(py).content.clone()
    }

    /// The text that the last id completed; `None` if there is none.
    #[getter]
    fn last_content_delta<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        let inner = self.lock(py);
        if !inner.has_delta {
            return None;
        }
        let delta = inner.content.get(inner.before..)?;
        Some(PyString::new(py, delta))
    }

    /// The recipient of the current message.
    #[getter]
    fn current_recipient(&self, py: Python<'_>) -> Option<Py<PyString>> {
        let inner = &mut *self.lock(py);
        word(
            py,
            inner.header.recipient.as_deref(),
            &mut inner.words.recipient,
        )
    }

    /// The channel of the current message.
    #[getter]
    fn current_channel(&self, py: Python<'_>) -> Option<Py<PyString>> {
        let inner = &mut *self.lock(py);
        word(
            py,
            inner.header.channel.as_deref(),
            &mut inner.words.channel,
        )
    }

    /// The content type of the current message.
    #[getter]
    fn current_content_type(&self, py: Python<'_>) -> Option<Py<PyString>> {
        let inner = &mut *self.lock(py);
        word(
            py,
            inner.header.content_type.as_deref(),
            &mut inner.words.content_type,
        )
    }

    /// The role of the current message, or the one that is implied for the next.
    #[getter]
    fn _current_role(&self, py: Python<'_>) -> Option<&'static str> {
        let inner = self.lock(py);
        match inner.state {
            State::Content => Some(inner.header.role),
            _ => inner.next_role.and_then(FrameRole::as_str),
        }
    }

    /// The state: `ExpectStart`, `Header` or `Content`.
    #[getter]
    fn _state(&self, py: Python<'_>) -> &'static str {
        match self.lock(py).state {
            State::ExpectStart => "ExpectStart",
            State::Header => "Header",
            State::Content => "Content",
        }
    }

    /// Every id so far.
    #[getter]
    fn tokens(&self, py: Python<'_>) -> Vec<u32> {
        self.lock(py).tokens.clone()
    }

    /// How each message ended, and whether that was a stop token.
    #[getter]
    fn ends(&self, py: Python<'_>) -> Vec<(&'static str, bool)> {
        self.lock(py).ends.clone()
    }

    /// What was repaired, with spans in bytes of the text that the ids spell.
    #[getter]
    fn diagnostics(&self, py: Python<'_>) -> Vec<Finding> {
        let diagnostics = self.lock(py).diagnostics.clone();
        let findings = diagnostics.iter();
        findings
            .map(|found| Finding::at(found, (found.primary.start, found.primary.end)))
            .collect()
    }

    /// The messages from `first` on.
    fn _messages_from(&self, py: Python<'_>, first: usize) -> Vec<Fields> {
        let inner = self.lock(py);
        inner.messages.get(first..).unwrap_or_default().to_vec()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let inner = self.lock(py);
        format!(
            "<StreamableParser {} messages, {} ids>",
            inner.messages.len(),
            inner.tokens.len()
        )
    }
}
