//! `Recoverer`: ids one by one, for the sampling loop of a server.

use std::sync::Mutex;

use openchatml::harmony::{Event, HarmonyReadOptions, IdStream};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyString, PyTuple};

use crate::error;
use crate::event::start_role;
use crate::input;

/// Ids that are read before other threads may run: about 20 µs of work.
const SLICE: usize = 512;

/// More of one channel.
#[pyclass(frozen, module = "openchatml")]
pub(crate) struct ChannelDelta {
    /// The index of the message, from 0.
    #[pyo3(get)]
    index: usize,
    /// The channel's name; `None` if it is unknown, which is not `final`.
    #[pyo3(get)]
    channel: Option<Py<PyString>>,
    /// The recipient, such as `functions.search`.
    #[pyo3(get)]
    recipient: Option<Py<PyString>>,
    /// The text; empty at the end of a message.
    #[pyo3(get)]
    text: Py<PyString>,
    /// Whether a person may see the text.
    #[pyo3(get)]
    visible: bool,
    /// `None`, or the end of the message: `end`, `call`, `return`, `eos`, `implicit`.
    #[pyo3(get)]
    end: Option<&'static str>,
}

#[pymethods]
impl ChannelDelta {
    #[classattr]
    const fn __match_args__() -> (&'static str, &'static str) {
        ("channel", "text")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Self>()
            .is_ok_and(|other| self.fields() == other.get().fields())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = |word: &Option<Py<PyString>>| word.as_ref().map(ToString::to_string);
        let channel = shown(&self.channel).unwrap_or_else(|| "?".to_owned());
        let end = self.end.map_or_else(String::new, |end| format!(" {end}"));
        let to = shown(&self.recipient).map_or_else(String::new, |to| format!(" to={to}"));
        let text = self.text.bind(py).to_string_lossy();
        format!("<ChannelDelta {} {channel}{to} {text:?}{end}>", self.index)
    }
}

/// What two deltas are compared by.
type Compared<'d> = (
    usize,
    Option<String>,
    Option<String>,
    String,
    bool,
    Option<&'d str>,
);

impl ChannelDelta {
    fn fields(&self) -> Compared<'_> {
        let word = |word: &Option<Py<PyString>>| word.as_ref().map(ToString::to_string);
        (
            self.index,
            word(&self.channel),
            word(&self.recipient),
            self.text.to_string(),
            self.visible,
            self.end,
        )
    }
}

#[derive(Default)]
struct Current {
    started: usize,
    channel: Option<Py<PyString>>,
    recipient: Option<Py<PyString>>,
    visible: bool,
    /// The text of a delta that may still grow.
    text: String,
}

struct Inner {
    stream: Option<IdStream>,
    current: Current,
    repairs: usize,
}

/// Reads ids of `o200k_harmony` one by one and gives deltas by channel.
///
/// What a model emits malformed is repaired; memory does not grow with the number of ids.
#[pyclass(frozen, module = "openchatml")]
pub(crate) struct Recoverer {
    options: HarmonyReadOptions,
    inner: Mutex<Inner>,
}

/// What one call completes. Mostly that is one delta, which needs no list.
#[derive(Default)]
struct Output<'py> {
    first: Option<Bound<'py, ChannelDelta>>,
    more: Vec<Bound<'py, ChannelDelta>>,
    error: Option<PyErr>,
}

impl<'py> Output<'py> {
    fn add(&mut self, py: Python<'py>, delta: ChannelDelta) {
        match Bound::new(py, delta) {
            Ok(delta) if self.first.is_none() => self.first = Some(delta),
            Ok(delta) => self.more.push(delta),
            Err(error) => self.error = Some(error),
        }
    }
}

impl Current {
    // Neither strings nor deltas are known to the garbage collector, so that making them while the
    // recoverer is locked runs no code of the caller.
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        event: Event<'_>,
        repairs: &mut usize,
        out: &mut Output<'py>,
    ) {
        match event {
            // The end of the message before it gave all of its text.
            Event::Start(head) => {
                let word = |word: &Option<String>| {
                    let word = word.as_deref();
                    word.map(|word| PyString::new(py, word).unbind())
                };
                self.started += 1;
                self.channel = word(&head.channel);
                self.recipient = word(&head.recipient);
                self.visible = head.is_visible();
            }
            Event::Delta(text) => self.text.push_str(text),
            Event::End(end) => {
                self.flush(py, out);
                out.add(py, self.delta(py, "", Some(end.end.as_str())));
            }
            Event::Amended(end) => out.add(py, self.delta(py, "", Some(end.as_str()))),
            Event::Diagnostic(_) => *repairs += 1,
            _ => {}
        }
    }

    /// Gives the text that was collected.
    fn flush<'py>(&mut self, py: Python<'py>, out: &mut Output<'py>) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            out.add(py, self.delta(py, &text, None));
            self.text = text;
            self.text.clear();
        }
    }

    fn delta(&self, py: Python<'_>, text: &str, end: Option<&'static str>) -> ChannelDelta {
        let word = |word: &Option<Py<PyString>>| word.as_ref().map(|word| word.clone_ref(py));
        ChannelDelta {
            index: self.started.saturating_sub(1),
            channel: word(&self.channel),
            recipient: word(&self.recipient),
            text: PyString::new(py, text).unbind(),
            visible: self.visible,
            end,
        }
    }
}

impl Recoverer {
    fn run<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut Inner, &mut Output<'py>) -> bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut out = Output::default();
        let open = {
            let locked = self.inner.lock_py_attached(py);
            let mut inner = locked.unwrap_or_else(std::sync::PoisonError::into_inner);
            let open = work(&mut inner, &mut out);
            inner.current.flush(py, &mut out);
            open
        };
        if !open {
            let message = "the ids have ended; call reset() for the next completion";
            return Err(error::error(py, error::STREAM_FINISHED, message, None));
        }
        match out {
            Output {
                error: Some(error), ..
            } => Err(error),
            Output { first: None, .. } => Ok(PyTuple::empty(py)),
            Output {
                first: Some(first),
                more,
                ..
            } if more.is_empty() => PyTuple::new(py, [first]),
            Output { first, more, .. } => {
                let all: Vec<_> = first.into_iter().chain(more).collect();
                PyTuple::new(py, all)
            }
        }
    }
}

fn push<'py>(py: Python<'py>, inner: &mut Inner, ids: &[u32], out: &mut Output<'py>) -> bool {
    let Inner {
        stream,
        current,
        repairs,
    } = inner;
    let Some(stream) = stream else {
        return false;
    };
    for id in ids {
        stream.push_harmony(*id, &mut |event: Event<'_>| {
            current.take(py, event, repairs, out);
        });
    }
    true
}

#[pymethods]
impl Recoverer {
    #[new]
    #[pyo3(signature = (start_role=None, *, tools=Vec::new()))]
    fn new(start_role: Option<&Bound<'_, PyAny>>, tools: Vec<String>) -> PyResult<Self> {
        let options = HarmonyReadOptions::default()
            .with_start_role(input::role(start_role)?)
            .with_tools(tools);
        Ok(Self {
            inner: Mutex::new(Inner {
                stream: Some(IdStream::new(options.clone())),
                current: Current::default(),
                repairs: 0,
            }),
            options,
        })
    }

    /// Reads an id and returns what it completes, mostly one delta or none.
    fn push<'py>(&self, py: Python<'py>, id: u32) -> PyResult<Bound<'py, PyTuple>> {
        self.run(py, |inner, out| push(py, inner, &[id], out))
    }

    /// Reads several ids. Other threads may run after each few hundred.
    fn push_many<'py>(&self, py: Python<'py>, ids: Vec<u32>) -> PyResult<Bound<'py, PyTuple>> {
        self.run(py, |inner, out| {
            ids.chunks(SLICE).all(|slice| {
                let open = push(py, inner, slice, out);
                if slice.len() == SLICE {
                    py.detach(|| ());
                }
                open
            }) && inner.stream.is_some()
        })
    }

    /// Ends the ids.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.run(py, |inner, out| {
            let Inner {
                stream,
                current,
                repairs,
            } = inner;
            let Some(stream) = stream.take() else {
                return false;
            };
            stream.finish(&mut |event: Event<'_>| current.take(py, event, repairs, out));
            true
        })
    }

    /// Begins the next completion.
    fn reset(&self, py: Python<'_>) {
        let locked = self.inner.lock_py_attached(py);
        let mut inner = locked.unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.stream = Some(IdStream::new(self.options.clone()));
        inner.current = Current::default();
        inner.repairs = 0;
    }

    /// The number of findings so far; 0 for a well-formed completion.
    #[getter]
    fn repairs(&self, py: Python<'_>) -> usize {
        let locked = self.inner.lock_py_attached(py);
        locked
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .repairs
    }

    fn __repr__(&self) -> String {
        let role = start_role(self.options.start_role).unwrap_or("None");
        format!("<Recoverer start_role={role}>")
    }
}
