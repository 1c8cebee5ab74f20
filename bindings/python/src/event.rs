//! Events of streams: first as plain values, then as Python objects.
//!
//! The readers call back while the stream is locked. Python objects are made after the lock is
//! given back, because making one may run code of the caller.

use std::borrow::Cow;
use std::sync::Arc;

use logue_source::{Diagnostic, Span};
use openchatml::{FrameRole, harmony, stream, v0_1};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::Value;

use crate::finding::{Finding, pair};
use crate::json;
use crate::message::{end_of, hidden, role_name};
use crate::running::RunningOffsets;

/// The header of a message.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Header {
    role: Option<Cow<'static, str>>,
    name: Option<String>,
    recipient: Option<String>,
    channel: Option<String>,
    content_type: Option<String>,
    call_id: Option<String>,
    intent: Option<String>,
    stray: bool,
    hidden: Option<Cow<'static, str>>,
}

/// The header of a message. The events of a message share it.
#[pyclass(frozen, eq, module = "openchatml")]
#[derive(PartialEq)]
pub(crate) struct Head(Arc<Header>);

#[pymethods]
impl Head {
    /// The speaker; `None` if it is unknown.
    #[getter]
    fn role(&self) -> Option<&str> {
        self.0.role.as_deref()
    }

    /// The speaker's or the tool's name.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The recipient.
    #[getter]
    fn recipient(&self) -> Option<&str> {
        self.0.recipient.as_deref()
    }

    /// The channel's name.
    #[getter]
    fn channel(&self) -> Option<&str> {
        self.0.channel.as_deref()
    }

    /// The content type.
    #[getter]
    fn content_type(&self) -> Option<&str> {
        self.0.content_type.as_deref()
    }

    /// The id of a call.
    #[getter]
    fn call_id(&self) -> Option<&str> {
        self.0.call_id.as_deref()
    }

    /// The intent.
    #[getter]
    fn intent(&self) -> Option<&str> {
        self.0.intent.as_deref()
    }

    /// Returns whether this is text outside every message.
    #[getter]
    fn stray(&self) -> bool {
        self.0.stray
    }

    /// The reason that the message is hidden; `None` if it is shown.
    #[getter]
    fn hidden(&self) -> Option<&str> {
        self.0.hidden.as_deref()
    }

    /// Returns whether a person may see the message while it arrives.
    #[getter]
    fn visible(&self) -> bool {
        self.0.hidden.is_none()
    }

    fn __repr__(&self) -> String {
        let mut out = format!("<Head {}", self.0.role.as_deref().unwrap_or("?"));
        let parts = [
            ("name", &self.0.name),
            ("channel", &self.0.channel),
            ("recipient", &self.0.recipient),
            ("content_type", &self.0.content_type),
        ];
        for (key, value) in parts {
            if let Some(value) = value {
                out.push_str(&format!(" {key}={value:?}"));
            }
        }
        out.push('>');
        out
    }
}

impl Header {
    fn harmony(head: &harmony::MessageHeader) -> Self {
        Self {
            role: role_name(head.role),
            name: head.name.clone(),
            recipient: head.recipient.clone(),
            channel: head.channel.clone(),
            content_type: head.content_type.clone(),
            call_id: head.call_id.clone(),
            intent: head.intent.clone(),
            stray: head.stray,
            hidden: hidden(head.visibility()),
        }
    }

    fn frame(head: &stream::FrameHeader) -> Self {
        let frame = &head.frame;
        Self {
            role: role_name(frame.role),
            name: frame.name.clone(),
            recipient: frame.to.clone(),
            channel: frame.effective_channel().as_str().map(str::to_owned),
            content_type: frame
                .constrain
                .clone()
                .or_else(|| frame.content_type.clone()),
            call_id: frame.call_id.clone(),
            intent: frame.intent.clone(),
            stray: head.stray,
            hidden: hidden(head.visibility),
        }
    }

    fn legacy(head: &v0_1::MessageHeader) -> Self {
        let hidden = (!head.is_visible()).then_some("frames of this role are hidden");
        Self {
            role: role_name(head.role),
            name: head.name.clone(),
            stray: head.stray,
            hidden: hidden.map(Cow::Borrowed),
            ..Self::default()
        }
    }
}

/// The document header was read, if there is one.
#[pyclass(frozen, get_all, module = "openchatml")]
pub(crate) struct Opened {
    /// The header as a dict.
    header: Option<Py<PyAny>>,
}

/// A message begins.
#[pyclass(frozen, module = "openchatml")]
pub(crate) struct Start {
    head: Arc<Header>,
}

/// More of the text of a message.
#[pyclass(frozen, module = "openchatml")]
pub(crate) struct Delta {
    /// The text, never empty.
    #[pyo3(get)]
    text: Py<PyString>,
    /// `None`, or the kind of text that is not the message's words: `reflect`, `introspect`,
    /// `reason`, `function-list`, `function-call`, `function-output` (0.1 only).
    #[pyo3(get)]
    kind: Option<&'static str>,
    head: Arc<Header>,
}

/// A message ends.
#[pyclass(frozen, module = "openchatml")]
#[expect(clippy::struct_field_names, reason = "the names that Python sees")]
pub(crate) struct End {
    /// `end`, `call`, `return`, `eos` or `implicit`.
    #[pyo3(get)]
    end: &'static str,
    /// Whether that was a stop token.
    #[pyo3(get)]
    complete: bool,
    /// The message, in code points.
    #[pyo3(get)]
    span: (usize, usize),
    /// The body, in code points.
    #[pyo3(get)]
    body_span: (usize, usize),
    /// The message, in bytes of UTF-8.
    #[pyo3(get)]
    byte_span: (usize, usize),
    head: Arc<Header>,
}

/// A stop token after the last message replaces its end.
#[pyclass(frozen, get_all, module = "openchatml")]
pub(crate) struct Amended {
    /// The end that counts.
    end: &'static str,
}

impl Delta {
    /// An event for text of the message of `head`.
    pub(crate) fn python<'py>(
        py: Python<'py>,
        text: Bound<'_, PyString>,
        kind: Option<&'static str>,
        head: Arc<Header>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let text = text.unbind();
        Ok(Bound::new(py, Self { text, kind, head })?.into_any())
    }

    fn repr(&self) -> String {
        format!("{:?}", self.text.to_string())
    }
}

macro_rules! reprs {
    ($($class:ident($format:literal $(, $field:ident $($call:tt)?)*) [$($name:literal),*] $({$($more:tt)*})?;)*) => {$(
        #[pymethods]
        impl $class {
            $($($more)*)?

            #[classattr]
            fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, pyo3::types::PyTuple>> {
                let names: &[&str] = &[$($name),*];
                pyo3::types::PyTuple::new(py, names)
            }

            fn __repr__(&self) -> String {
                format!($format $(, self.$field $($call)?)*)
            }
        }
    )*};
}

reprs! {
    Opened("<Opened>") ["header"];
    Start("<Start>") ["head"] {
        /// The header of the message.
        #[getter]
        fn head(&self) -> Head {
            Head(Arc::clone(&self.head))
        }
    };
    Delta("<Delta {}>", repr()) ["text"] {
        /// The header of the message.
        #[getter]
        fn head(&self) -> Head {
            Head(Arc::clone(&self.head))
        }
    };
    End("<End {}>", end) ["end"] {
        /// The header of the message.
        #[getter]
        fn head(&self) -> Head {
            Head(Arc::clone(&self.head))
        }
    };
    Amended("<Amended {}>", end) ["end"];
}

/// An event without Python objects.
#[derive(Debug)]
pub(crate) enum Plain {
    Opened(Option<Value>),
    Start(Arc<Header>),
    Delta(String, Option<&'static str>, Arc<Header>),
    End {
        head: Arc<Header>,
        end: &'static str,
        complete: bool,
        span: Span,
        body: Span,
    },
    Amended(&'static str),
    Diagnostic(Box<Diagnostic>),
}

/// Collects events; adjacent deltas of one call become one.
pub(crate) struct Events<'h> {
    pub(crate) plain: Vec<Plain>,
    /// The header of the current message.
    head: &'h mut Arc<Header>,
}

impl<'h> Events<'h> {
    pub(crate) const fn new(head: &'h mut Arc<Header>) -> Self {
        Self {
            plain: Vec::new(),
            head,
        }
    }

    fn start(&mut self, head: Header) {
        *self.head = Arc::new(head);
        self.plain.push(Plain::Start(Arc::clone(self.head)));
    }

    fn delta(&mut self, text: &str, kind: Option<&'static str>) {
        if let Some(Plain::Delta(last, last_kind, _)) = self.plain.last_mut()
            && *last_kind == kind
        {
            last.push_str(text);
        } else {
            self.plain
                .push(Plain::Delta(text.to_owned(), kind, Arc::clone(self.head)));
        }
    }

    pub(crate) fn harmony(&mut self, event: harmony::Event<'_>) {
        match event {
            harmony::Event::Start(head) => self.start(Header::harmony(head)),
            harmony::Event::Delta(text) => self.delta(text, None),
            harmony::Event::End(end) => self.plain.push(Plain::End {
                head: Arc::clone(self.head),
                end: end.end.as_str(),
                complete: end.complete,
                span: end.span,
                body: end.body,
            }),
            harmony::Event::Amended(end) => self.plain.push(Plain::Amended(end.as_str())),
            harmony::Event::Diagnostic(found) => {
                self.plain.push(Plain::Diagnostic(Box::new(found)));
            }
            _ => {}
        }
    }

    pub(crate) fn frames(&mut self, event: stream::Event<'_>) {
        match event {
            stream::Event::Opened(header) => {
                self.plain.push(Plain::Opened(header.map(json::header)));
            }
            stream::Event::Start(head) => self.start(Header::frame(head)),
            stream::Event::Delta(text) => self.delta(text, None),
            stream::Event::End(end) => self.plain.push(Plain::End {
                head: Arc::clone(self.head),
                end: end_of(end.terminator),
                complete: end.complete,
                span: end.span,
                body: end.body,
            }),
            stream::Event::Extended(_) => self.plain.push(Plain::Amended("end")),
            stream::Event::Diagnostic(found) => self.plain.push(Plain::Diagnostic(Box::new(found))),
            _ => {}
        }
    }

    pub(crate) fn legacy(&mut self, event: v0_1::Event<'_>) {
        match event {
            v0_1::Event::Start(head) => self.start(Header::legacy(head)),
            v0_1::Event::Delta { kind, text } => {
                let kind = match kind {
                    v0_1::TextKind::Text => None,
                    v0_1::TextKind::Thought(thought) => Some(thought.as_str()),
                };
                self.delta(text, kind);
            }
            v0_1::Event::Function(function, text) | v0_1::Event::Unfinished(function, text) => {
                let kind = match function {
                    v0_1::Function::List => "function-list",
                    v0_1::Function::Call => "function-call",
                    v0_1::Function::Output => "function-output",
                };
                // Each value is an event of its own.
                self.plain.push(Plain::Delta(
                    text.to_owned(),
                    Some(kind),
                    Arc::clone(self.head),
                ));
            }
            v0_1::Event::End(end) => self.plain.push(Plain::End {
                head: Arc::clone(self.head),
                end: if end.complete { "end" } else { "eos" },
                complete: end.complete,
                span: end.span,
                body: end.content,
            }),
            v0_1::Event::Diagnostic(found) => self.plain.push(Plain::Diagnostic(Box::new(found))),
            _ => {}
        }
    }
}

/// A plain event whose spans are also in code points.
pub(crate) struct Placed {
    pub(crate) event: Plain,
    span: (usize, usize),
    body: (usize, usize),
}

impl Placed {
    pub(crate) fn new(event: Plain, offsets: &mut RunningOffsets) -> Self {
        let none = (0, 0);
        let (span, body) = match &event {
            Plain::End { span, body, .. } => {
                let placed = (offsets.span(*span), offsets.span(*body));
                offsets.forget(span.end);
                placed
            }
            Plain::Diagnostic(found) => (offsets.span(found.primary), none),
            _ => (none, none),
        };
        Self { event, span, body }
    }

    /// The place of a finding, in code points.
    pub(crate) const fn span(&self) -> (usize, usize) {
        self.span
    }

    /// The event as a Python object.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let Self { event, span, body } = self;
        Ok(match event {
            Plain::Opened(header) => {
                let header = header
                    .map(|header| json::to_python(py, &header))
                    .transpose()?;
                let header = header.map(Bound::unbind);
                Bound::new(py, Opened { header })?.into_any()
            }
            Plain::Start(head) => Bound::new(py, Start { head })?.into_any(),
            Plain::Delta(text, kind, head) => {
                Delta::python(py, PyString::new(py, &text), kind, head)?
            }
            Plain::End {
                head,
                end,
                complete,
                span: bytes,
                ..
            } => {
                let end = End {
                    end,
                    complete,
                    span,
                    body_span: body,
                    byte_span: pair(bytes),
                    head,
                };
                Bound::new(py, end)?.into_any()
            }
            Plain::Amended(end) => Bound::new(py, Amended { end })?.into_any(),
            Plain::Diagnostic(found) => Bound::new(py, Finding::at(&found, span))?.into_any(),
        })
    }
}

/// The role that a stream is told to begin in.
pub(crate) const fn start_role(role: Option<FrameRole>) -> Option<&'static str> {
    match role {
        Some(role) => role.as_str(),
        None => None,
    }
}
