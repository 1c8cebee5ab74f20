//! `Recoverer`: ids one by one, for the sampling loop of a server.

use std::sync::Mutex;

use openchatml::harmony::{Event, HarmonyReadOptions, IdStream};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyTuple;

use crate::error;
use crate::event::start_role;
use crate::input;

/// More of one channel.
#[pyclass(frozen, get_all, eq, module = "openchatml")]
#[derive(Debug, PartialEq)]
pub(crate) struct ChannelDelta {
    /// The index of the message, from 0.
    index: usize,
    /// The channel's name; `None` if it is unknown, which is not `final`.
    channel: Option<String>,
    /// The recipient, such as `functions.search`.
    recipient: Option<String>,
    /// The text; empty at the end of a message.
    text: String,
    /// Whether a person may see the text.
    visible: bool,
    /// `None`, or the end of the message: `end`, `call`, `return`, `eos`, `implicit`.
    end: Option<&'static str>,
}

#[pymethods]
impl ChannelDelta {
    #[classattr]
    const fn __match_args__() -> (&'static str, &'static str) {
        ("channel", "text")
    }

    fn __repr__(&self) -> String {
        let channel = self.channel.as_deref().unwrap_or("?");
        let end = self.end.map_or_else(String::new, |end| format!(" {end}"));
        let recipient = self.recipient.as_deref();
        let to = recipient.map_or_else(String::new, |to| format!(" to={to}"));
        format!(
            "<ChannelDelta {} {channel}{to} {:?}{end}>",
            self.index, self.text
        )
    }
}

#[derive(Default)]
struct Current {
    started: usize,
    channel: Option<String>,
    recipient: Option<String>,
    visible: bool,
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

impl Current {
    fn take(&mut self, event: Event<'_>, repairs: &mut usize, out: &mut Vec<ChannelDelta>) {
        match event {
            Event::Start(head) => {
                self.started += 1;
                self.channel.clone_from(&head.channel);
                self.recipient.clone_from(&head.recipient);
                self.visible = head.is_visible();
            }
            Event::Delta(text) => match out.last_mut() {
                Some(last) if last.end.is_none() && last.index + 1 == self.started => {
                    last.text.push_str(text);
                }
                _ => out.push(self.delta(text, None)),
            },
            Event::End(end) => out.push(self.delta("", Some(end.end.as_str()))),
            Event::Amended(end) => out.push(self.delta("", Some(end.as_str()))),
            Event::Diagnostic(_) => *repairs += 1,
            _ => {}
        }
    }

    fn delta(&self, text: &str, end: Option<&'static str>) -> ChannelDelta {
        ChannelDelta {
            index: self.started.saturating_sub(1),
            channel: self.channel.clone(),
            recipient: self.recipient.clone(),
            text: text.to_owned(),
            visible: self.visible,
            end,
        }
    }
}

impl Recoverer {
    fn run<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut Inner, &mut Vec<ChannelDelta>) -> bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut out = Vec::new();
        let open = {
            let locked = self.inner.lock_py_attached(py);
            let mut inner = locked.unwrap_or_else(std::sync::PoisonError::into_inner);
            work(&mut inner, &mut out)
        };
        if !open {
            let message = "the ids have ended; call reset() for the next completion";
            return Err(error::error(py, error::STREAM_FINISHED, message, None));
        }
        if out.is_empty() {
            return Ok(PyTuple::empty(py));
        }
        PyTuple::new(py, out)
    }
}

fn push(inner: &mut Inner, ids: &[u32], out: &mut Vec<ChannelDelta>) -> bool {
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
            current.take(event, repairs, out);
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
        self.run(py, |inner, out| push(inner, &[id], out))
    }

    /// Reads several ids.
    fn push_many<'py>(&self, py: Python<'py>, ids: Vec<u32>) -> PyResult<Bound<'py, PyTuple>> {
        self.run(py, |inner, out| py.detach(|| push(inner, &ids, out)))
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
            stream.finish(&mut |event: Event<'_>| current.take(event, repairs, out));
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
