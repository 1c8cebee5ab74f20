//! The native part of `StreamableParser` of openai-harmony, over the recovering reader.

mod completion;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use logue_source::{Diagnostic, DiagnosticCode};
use openchatml::FrameRole;
use openchatml::harmony::HarmonyReadOptions;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyString, PyType};

use crate::finding::{Finding, pair};
use crate::items::Items;
use crate::{ids, input};
use completion::{Change, Fields, Reading, State};

static HARMONY_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// [`HarmonyParser::last`]: the last id gave no text.
const NO_DELTA: u32 = u32::MAX;
/// [`HarmonyParser::last`]: the text of the last id is the end of the content.
const OTHER_DELTA: u32 = u32::MAX - 1;

/// Reads a completion id by id.
///
/// The subclass in Python has a slot for each of `current_channel`, `current_recipient` and
/// `current_content_type`. They are set when a message begins or ends, because servers read them
/// after each id, and reading a slot calls no function.
#[pyclass(frozen, subclass, module = "openchatml")]
pub(crate) struct HarmonyParser {
    options: HarmonyReadOptions,
    /// The last id if its text is the delta. Read without the lock.
    last: AtomicU32,
    inner: Mutex<Reading>,
}

impl HarmonyParser {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Reading> {
        let locked = self.inner.lock_py_attached(py);
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    fn set_last(&self, change: Change) {
        let last = match change {
            Change::Nothing => NO_DELTA,
            Change::Id(id) => id,
            Change::Text => OTHER_DELTA,
        };
        self.last.store(last, Ordering::Relaxed);
    }

    /// Reads with `work`, sets the slots of the header and raises the error of a strict parser.
    #[inline]
    fn read<'py>(
        slf: &Bound<'py, Self>,
        work: impl FnOnce(&mut Reading) -> Change,
    ) -> PyResult<Bound<'py, Self>> {
        let parser = slf.get();
        let (is_header_new, failure) = {
            let mut reading = parser.lock(slf.py());
            parser.set_last(work(&mut reading));
            let completion = reading.completion();
            (completion.is_header_new, completion.failure.clone())
        };
        if is_header_new {
            Self::set_header(slf)?;
        }
        match failure {
            None => Ok(slf.clone()),
            Some(found) => Err(Self::raise(slf.py(), &found)),
        }
    }

    /// Sets the slots while the parser is unlocked, since that may run code of a subclass.
    fn set_header(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        loop {
            let (channel, recipient, content_type) = {
                let mut reading = slf.get().lock(py);
                let completion = reading.completion();
                // Another thread may have set them, or read another header meanwhile.
                if !std::mem::take(&mut completion.is_header_new) {
                    return Ok(());
                }
                let word =
                    |word: &Option<String>| word.as_deref().map(|word| PyString::new(py, word));
                let header = &completion.header;
                (
                    word(&header.channel),
                    word(&header.recipient),
                    word(&header.content_type),
                )
            };
            slf.setattr(intern!(py, "current_channel"), channel)?;
            slf.setattr(intern!(py, "current_recipient"), recipient)?;
            slf.setattr(intern!(py, "current_content_type"), content_type)?;
        }
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
        let finding = Finding::at(found, pair(found.primary));
        let raised = HARMONY_ERROR
            .import(py, "openchatml._errors", "HarmonyError")
            .and_then(|class| class.call1((message,)))
            .and_then(|error| {
                error.setattr("code", found.code.as_str())?;
                error.setattr("byte_span", pair(found.primary))?;
                error.setattr("diagnostic", Py::new(py, finding)?)?;
                Ok(error)
            });
        raised.map_or_else(|error| error, PyErr::from_value)
    }
}

#[pymethods]
impl HarmonyParser {
    #[new]
    #[pyo3(signature = (encoding, role, *, strict=None, tools=Items::default()),
        text_signature = "(encoding, role, *, strict=None, tools=())")]
    fn new(
        encoding: &Bound<'_, PyAny>,
        role: Option<&Bound<'_, PyAny>>,
        strict: Option<bool>,
        tools: Items<String>,
    ) -> PyResult<Self> {
        // There is one encoding; the argument is part of the signature.
        encoding.getattr("stop_tokens")?;
        let options = HarmonyReadOptions::default()
            .with_start_role(input::role(role)?)
            .with_strict(strict.unwrap_or(false))
            .with_tools(tools.0);
        Ok(Self {
            last: AtomicU32::new(NO_DELTA),
            inner: Mutex::new(Reading::new(&options)),
            options,
        })
    }

    /// Reads an id and returns the parser.
    fn process<'py>(slf: &Bound<'py, Self>, token: u32) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let parser = slf.get();
        if ids::is_text(py, token) {
            let mut reading = parser.lock(py);
            if reading.push_text(token) {
                parser.set_last(Change::Id(token));
                return Ok(slf.clone());
            }
        }
        let parser = Self::read(slf, |reading| reading.push(token))?;
        if parser.get().last.load(Ordering::Relaxed) == token {
            // The next time the id is known to be text.
            ids::text(py, token);
        }
        Ok(parser)
    }

    /// Reads several ids and returns the parser.
    fn process_many<'py>(slf: &Bound<'py, Self>, tokens: Items<u32>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        Self::read(slf, |reading| {
            py.detach(|| {
                let mut change = Change::Nothing;
                for token in tokens.0 {
                    change = reading.push(token);
                }
                change
            })
        })
    }

    /// Ends the completion; a message that is open is closed.
    fn process_eos<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        Self::read(slf, |reading| {
            reading.finish(&slf.get().options);
            Change::Nothing
        })
    }

    /// The text of the current message so far.
    #[getter]
    fn current_content(&self, py: Python<'_>) -> String {
        self.lock(py).completion().content.clone()
    }

    /// The text that the last id completed; `None` if there is none.
    #[getter]
    fn last_content_delta<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        match self.last.load(Ordering::Relaxed) {
            NO_DELTA => None,
            OTHER_DELTA => {
                let mut reading = self.lock(py);
                let completion = reading.completion();
                let delta = completion.content.get(completion.before..)?;
                Some(PyString::new(py, delta))
            }
            id => ids::text(py, id),
        }
    }

    /// The role of the current message, or the one that is implied for the next.
    #[getter]
    fn _current_role(&self, py: Python<'_>) -> Option<&'static str> {
        let mut reading = self.lock(py);
        let completion = reading.completion();
        match completion.state {
            State::Content => Some(completion.header.role),
            _ => completion.next_role.and_then(FrameRole::as_str),
        }
    }

    /// The state: `ExpectStart`, `Header` or `Content`.
    #[getter]
    fn _state(&self, py: Python<'_>) -> &'static str {
        match self.lock(py).completion().state {
            State::ExpectStart => "ExpectStart",
            State::Header => "Header",
            State::Content => "Content",
        }
    }

    /// Every id so far.
    #[getter]
    fn tokens(&self, py: Python<'_>) -> Vec<u32> {
        self.lock(py).tokens().to_vec()
    }

    /// The end of each message, and whether that was a stop token.
    #[getter]
    fn ends(&self, py: Python<'_>) -> Vec<(&'static str, bool)> {
        self.lock(py).completion().ends.clone()
    }

    /// The repairs, with spans in bytes of the text that the ids spell.
    #[getter]
    fn diagnostics(&self, py: Python<'_>) -> Vec<Finding> {
        let diagnostics = self.lock(py).completion().diagnostics.clone();
        let findings = diagnostics.iter();
        findings
            .map(|found| Finding::at(found, pair(found.primary)))
            .collect()
    }

    /// The messages from `first` on.
    fn _messages_from(&self, py: Python<'_>, first: usize) -> Vec<Fields> {
        let mut reading = self.lock(py);
        let messages = &reading.completion().messages;
        messages.get(first..).unwrap_or_default().to_vec()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let mut reading = self.lock(py);
        format!(
            "<StreamableParser {} messages, {} ids>",
            reading.completion().messages.len(),
            reading.tokens().len()
        )
    }
}
