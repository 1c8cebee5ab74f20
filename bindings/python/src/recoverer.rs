//! `Recoverer`: ids one by one, for the sampling loop of a server.

mod results;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openchatml::harmony::{Event, HarmonyReadOptions};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyString, PyTuple};

use crate::deferred::DeferredStream;
use crate::event::start_role;
use crate::items::Items;
use crate::{error, ids, input};
use results::Results;

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
    channel: Py<PyAny>,
    /// The recipient, such as `functions.search`.
    #[pyo3(get)]
    recipient: Py<PyAny>,
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

/// A word, or `None`. Python reads such a field without a call.
fn word(py: Python<'_>, word: Option<&str>) -> Py<PyAny> {
    word.map_or_else(
        || py.None(),
        |word| PyString::new(py, word).into_any().unbind(),
    )
}

#[pymethods]
impl ChannelDelta {
    #[classattr]
    const fn __match_args__() -> (&'static str, &'static str) {
        ("channel", "text")
    }

    /// Restores a delta from its fields.
    #[staticmethod]
    fn _restore(
        py: Python<'_>,
        index: usize,
        channel: Option<&str>,
        recipient: Option<&str>,
        text: Py<PyString>,
        visible: bool,
        end: Option<&str>,
    ) -> PyResult<Self> {
        let ends = ["end", "call", "return", "eos", "implicit"];
        let known = end.map(|end| ends.into_iter().find(|known| *known == end));
        if known == Some(None) {
            return Err(error::invalid(py, "unknown end of a message"));
        }
        Ok(Self {
            index,
            channel: word(py, channel),
            recipient: word(py, recipient),
            text,
            visible,
            end: known.flatten(),
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Compared<'static>)> {
        Ok((py.get_type::<Self>().getattr("_restore")?, self.fields(py)))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Self>()
            .is_ok_and(|other| self.fields(py) == other.get().fields(py))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = |word: &Py<PyAny>| (!word.is_none(py)).then(|| word.to_string());
        let channel = shown(&self.channel).unwrap_or_else(|| "?".to_owned());
        let end = self.end.map_or_else(String::new, |end| format!(" {end}"));
        let to = shown(&self.recipient).map_or_else(String::new, |to| format!(" to={to}"));
        let text = self.text.bind(py).to_string_lossy();
        format!("<ChannelDelta {} {channel}{to} {text:?}{end}>", self.index)
    }
}

/// The values that two deltas are compared by.
type Compared<'d> = (
    usize,
    Option<String>,
    Option<String>,
    String,
    bool,
    Option<&'d str>,
);

impl ChannelDelta {
    fn fields(&self, py: Python<'_>) -> Compared<'static> {
        let word = |word: &Py<PyAny>| (!word.is_none(py)).then(|| word.to_string());
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

/// A message that is read.
struct Current {
    started: usize,
    results: Arc<Results>,
    /// The text of a delta that may still grow.
    text: String,
}

struct Inner {
    stream: Option<DeferredStream>,
    current: Current,
    repairs: usize,
}

impl Inner {
    fn new(options: HarmonyReadOptions) -> Self {
        Self {
            stream: Some(DeferredStream::new(options)),
            current: Current {
                started: 0,
                results: Results::none(),
                text: String::new(),
            },
            repairs: 0,
        }
    }
}

/// Reads ids of `o200k_harmony` one by one and gives deltas by channel.
///
/// Malformed output of a model is repaired; memory does not grow with the number of ids.
#[pyclass(frozen, module = "openchatml")]
pub(crate) struct Recoverer {
    options: HarmonyReadOptions,
    inner: Mutex<Inner>,
}

/// The deltas of one call. Mostly that is one, which needs no list.
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

    fn into_tuple(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self {
            Self {
                error: Some(error), ..
            } => Err(error),
            Self { first: None, .. } => Ok(PyTuple::empty(py)),
            Self {
                first: Some(first),
                more,
                ..
            } if more.is_empty() => PyTuple::new(py, [first]),
            Self { first, more, .. } => {
                let all: Vec<_> = first.into_iter().chain(more).collect();
                PyTuple::new(py, all)
            }
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
                self.results = Results::of(py, self.started, head);
                self.started += 1;
            }
            Event::Delta(text) => self.text.push_str(text),
            Event::End(end) => {
                self.flush(py, out);
                let none = PyString::new(py, "");
                out.add(py, self.results.delta(py, none, Some(end.end.as_str())));
            }
            Event::Amended(end) => {
                let none = PyString::new(py, "");
                out.add(py, self.results.delta(py, none, Some(end.as_str())));
            }
            Event::Diagnostic(_) => *repairs += 1,
            _ => {}
        }
    }

    /// Gives the text that was collected.
    fn flush<'py>(&mut self, py: Python<'py>, out: &mut Output<'py>) {
        if !self.text.is_empty() {
            let text = PyString::new(py, &self.text);
            self.text.clear();
            out.add(py, self.results.delta(py, text, None));
        }
    }
}

impl Recoverer {
    #[inline]
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Inner> {
        let locked = self.inner.lock_py_attached(py);
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    fn run<'py>(
        py: Python<'py>,
        mut inner: MutexGuard<'_, Inner>,
        work: impl FnOnce(&mut Inner, &mut Output<'py>) -> bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut out = Output::default();
        let open = work(&mut inner, &mut out);
        inner.current.flush(py, &mut out);
        drop(inner);
        if !open {
            let message = "the ids have ended; call reset() for the next completion";
            return Err(error::error(py, error::STREAM_FINISHED, message, None));
        }
        out.into_tuple(py)
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
    stream.catch_up(|_| ());
    for id in ids {
        stream.push(*id, &mut |event: Event<'_>| {
            current.take(py, event, repairs, out);
        });
    }
    true
}

#[pymethods]
impl Recoverer {
    #[new]
    #[pyo3(signature = (start_role=None, *, tools=Items::default()),
        text_signature = "(start_role=None, *, tools=())")]
    fn new(start_role: Option<&Bound<'_, PyAny>>, tools: Items<String>) -> PyResult<Self> {
        let options = HarmonyReadOptions::default()
            .with_start_role(input::role(start_role)?)
            .with_tools(tools.0);
        Ok(Self {
            inner: Mutex::new(Inner::new(options.clone())),
            options,
        })
    }

    /// Reads an id and returns the deltas that it completes, mostly one or none.
    fn push<'py>(&self, py: Python<'py>, id: u32) -> PyResult<Bound<'py, PyTuple>> {
        let mut locked = self.lock(py);
        let inner = &mut *locked;
        if let Some(stream) = &mut inner.stream {
            let results = &inner.current.results;
            let kept = results.get(id);
            let is_deferred = (kept.is_some() || ids::is_text(py, id)) && stream.defer(id);
            let text = if is_deferred {
                Some("")
            } else {
                stream.catch_up(|_| ());
                stream.push_text(id)
            };
            if let Some(text) = text {
                if let Some(kept) = kept {
                    return Ok(kept.bind(py).clone());
                }
                let results = Arc::clone(results);
                drop(locked);
                return results.make(py, id, text);
            }
        }
        Self::run(py, locked, |inner, out| push(py, inner, &[id], out))
    }

    /// Reads several ids. Other threads may run after each few hundred.
    fn push_many<'py>(&self, py: Python<'py>, ids: Items<u32>) -> PyResult<Bound<'py, PyTuple>> {
        Self::run(py, self.lock(py), |inner, out| {
            ids.0.chunks(SLICE).all(|slice| {
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
        Self::run(py, self.lock(py), |inner, out| {
            let Inner {
                stream,
                current,
                repairs,
            } = inner;
            let Some(mut stream) = stream.take() else {
                return false;
            };
            stream.catch_up(|_| ());
            stream.finish(&mut |event: Event<'_>| current.take(py, event, repairs, out));
            true
        })
    }

    /// Begins the next completion.
    fn reset(&self, py: Python<'_>) {
        *self.lock(py) = Inner::new(self.options.clone());
    }

    /// The number of findings so far; 0 for a well-formed completion.
    #[getter]
    fn repairs(&self, py: Python<'_>) -> usize {
        self.lock(py).repairs
    }

    fn __repr__(&self) -> String {
        let role = start_role(self.options.start_role).unwrap_or("None");
        format!("<Recoverer start_role={role}>")
    }
}
