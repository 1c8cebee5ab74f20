//! Messages of every dialect as one class.

use std::borrow::Cow;

use logue_source::Span;
use openchatml::{Document, Frame, FrameRole, Terminator, Visibility, harmony, v0_1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::finding::pair;
use crate::offsets::Offsets;

/// A message of a conversation, or text outside every message.
#[pyclass(frozen, get_all, eq, module = "openchatml", name = "Message")]
#[derive(Default, PartialEq)]
pub(crate) struct Message {
    /// `system`, `developer`, `user`, `assistant`, `tool`, or `None` if it is unknown.
    role: Option<Cow<'static, str>>,
    /// The speaker's or the tool's name.
    name: Option<String>,
    /// The recipient, such as `functions.search`.
    recipient: Option<String>,
    /// The channel's name.
    channel: Option<String>,
    /// The content type, without `<|constrain|>`.
    content_type: Option<String>,
    /// The id of a call or of the call that the message answers.
    call_id: Option<String>,
    /// The intent, such as `preamble`.
    intent: Option<String>,
    /// The text, without escapes.
    text: String,
    /// `end`, `call`, `return`, `eos`, `implicit`, or `None` for stray text.
    end: Option<Cow<'static, str>>,
    /// Whether the message has its header and its stop token.
    complete: bool,
    /// Whether this is text outside every message.
    stray: bool,
    /// The reason that the message is hidden; `None` if a person may see it.
    hidden: Option<Cow<'static, str>>,
    /// The message, in code points.
    span: (usize, usize),
    /// The body as it is written, in code points.
    body_span: (usize, usize),
    /// The message, in bytes of UTF-8.
    byte_span: (usize, usize),
}

/// The name of a role.
pub(crate) const fn role_name(role: FrameRole) -> Option<Cow<'static, str>> {
    match role.as_str() {
        Some(name) => Some(Cow::Borrowed(name)),
        None => None,
    }
}

/// The reason that something is hidden.
pub(crate) const fn hidden(visibility: Visibility) -> Option<Cow<'static, str>> {
    match visibility {
        Visibility::Visible => None,
        Visibility::Hidden(reason) => Some(Cow::Borrowed(reason.as_str())),
    }
}

/// The end that a terminator is.
pub(crate) const fn end_of(terminator: Terminator) -> &'static str {
    match terminator {
        Terminator::End => "end",
        Terminator::Call => "call",
        Terminator::Return => "return",
        Terminator::None => "eos",
    }
}

impl Message {
    /// A message of Harmony.
    pub(crate) fn harmony(message: harmony::Message, offsets: &Offsets<'_>) -> Self {
        let hidden = if message.is_visible() {
            None
        } else {
            hidden(message.head.visibility())
        };
        let head = message.head;
        Self {
            role: role_name(head.role),
            name: head.name,
            recipient: head.recipient,
            channel: head.channel,
            content_type: head.content_type,
            call_id: head.call_id,
            intent: head.intent,
            text: message.content,
            end: Some(Cow::Borrowed(message.end.as_str())),
            complete: message.complete,
            stray: head.stray,
            hidden,
            span: offsets.span(message.span),
            body_span: offsets.span(message.body),
            byte_span: pair(message.span),
        }
    }

    /// A frame of 2.2 or 2.0.
    pub(crate) fn frame(document: &Document<'_>, frame: &Frame, offsets: &Offsets<'_>) -> Self {
        let text = |span: Option<Span>| span.map(|span| document.text(span).into_owned());
        let channel = match text(frame.channel_span()) {
            Some(named) => Some(named),
            None => frame.channel().as_str().map(str::to_owned),
        };
        Self {
            role: role_name(frame.role()),
            name: text(frame.name_span()),
            recipient: text(frame.to_span()),
            channel,
            content_type: text(frame.constrain_span().or(frame.content_type_span())),
            call_id: text(frame.call_id_span()),
            intent: text(frame.intent_span()),
            text: document.body_text(frame).into_owned(),
            end: (!frame.is_stray()).then(|| Cow::Borrowed(end_of(frame.terminator()))),
            complete: frame.is_complete(),
            stray: frame.is_stray(),
            hidden: hidden(frame.visibility()),
            span: offsets.span(frame.span()),
            body_span: offsets.span(frame.body_span()),
            byte_span: pair(frame.span()),
        }
    }

    /// A message of the 1.x line, without its thoughts and functions.
    pub(crate) fn legacy(
        document: &v0_1::LegacyDocument<'_>,
        message: &v0_1::Message,
        offsets: &Offsets<'_>,
    ) -> Self {
        let mut text = String::new();
        for item in &message.items {
            if let v0_1::Item::Text(span) = item {
                text.push_str(&document.text(*span));
            }
        }
        let head = &message.head;
        let hidden = match (head.is_visible(), head.stray) {
            (true, _) => None,
            (false, true) => Some(Cow::Borrowed("text outside every frame is hidden")),
            (false, false) => Some(Cow::Borrowed("frames of this role are hidden")),
        };
        let end = if message.complete { "end" } else { "eos" };
        Self {
            role: role_name(head.role),
            name: head.name.clone(),
            text,
            end: (!head.stray).then_some(Cow::Borrowed(end)),
            complete: message.complete,
            stray: head.stray,
            hidden,
            span: offsets.span(message.span),
            body_span: offsets.span(message.content),
            byte_span: pair(message.span),
            ..Self::default()
        }
    }

    /// The fields of the constructor.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("role", self.role.as_deref())?;
        fields.set_item("name", &self.name)?;
        fields.set_item("recipient", &self.recipient)?;
        fields.set_item("channel", &self.channel)?;
        fields.set_item("content_type", &self.content_type)?;
        fields.set_item("call_id", &self.call_id)?;
        fields.set_item("intent", &self.intent)?;
        fields.set_item("text", &self.text)?;
        fields.set_item("end", self.end.as_deref())?;
        fields.set_item("complete", self.complete)?;
        fields.set_item("stray", self.stray)?;
        fields.set_item("hidden", self.hidden.as_deref())?;
        fields.set_item("span", self.span)?;
        fields.set_item("body_span", self.body_span)?;
        fields.set_item("byte_span", self.byte_span)?;
        Ok(fields)
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden.is_some()
    }
}

#[pymethods]
impl Message {
    /// Returns whether a person may see the message.
    #[getter]
    fn visible(&self) -> bool {
        !self.is_hidden()
    }

    /// Returns whether the message is a finished tool call.
    #[getter]
    fn is_call(&self) -> bool {
        let participant = ["user", "assistant", "all"];
        self.role.as_deref() == Some("assistant")
            && self.end.as_deref() == Some("call")
            && self
                .recipient
                .as_deref()
                .is_some_and(|to| !participant.contains(&to))
    }

    /// The message as a dict of its fields.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.fields(py)
    }

    #[classattr]
    const fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("role", "channel", "text")
    }

    fn __repr__(&self) -> String {
        let mut out = format!("<Message {}", self.role.as_deref().unwrap_or("?"));
        let parts = [
            ("name", &self.name),
            ("channel", &self.channel),
            ("recipient", &self.recipient),
        ];
        for (key, value) in parts {
            if let Some(value) = value {
                out.push_str(&format!(" {key}={value:?}"));
            }
        }
        let mut shown: String = self.text.chars().take(60).collect();
        if shown.len() < self.text.len() {
            shown.push('…');
        }
        out.push_str(&format!(" {shown:?}"));
        if let Some(end) = self.end.as_deref().filter(|_| !self.complete) {
            out.push_str(&format!(" incomplete ({end})"));
        }
        if self.stray {
            out.push_str(" stray");
        }
        out.push('>');
        out
    }

    /// Restores a message from its fields.
    #[staticmethod]
    fn _restore(fields: &Bound<'_, PyDict>) -> PyResult<Self> {
        let item = |key: &str| {
            fields
                .get_item(key)?
                .ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(key.to_owned()))
        };
        let word = |key: &str| -> PyResult<Option<Cow<'static, str>>> {
            Ok(item(key)?.extract::<Option<String>>()?.map(Cow::Owned))
        };
        Ok(Self {
            role: word("role")?,
            name: item("name")?.extract()?,
            recipient: item("recipient")?.extract()?,
            channel: item("channel")?.extract()?,
            content_type: item("content_type")?.extract()?,
            call_id: item("call_id")?.extract()?,
            intent: item("intent")?.extract()?,
            text: item("text")?.extract()?,
            end: word("end")?,
            complete: item("complete")?.extract()?,
            stray: item("stray")?.extract()?,
            hidden: word("hidden")?,
            span: item("span")?.extract()?,
            body_span: item("body_span")?.extract()?,
            byte_span: item("byte_span")?.extract()?,
        })
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let class: Bound<'py, PyType> = py.get_type::<Self>();
        Ok((class.getattr("_restore")?, (self.fields(py)?,)))
    }
}

impl Message {
    /// The speaker, channel and recipient in one line.
    pub(crate) fn title(&self) -> String {
        let mut title = self.role.as_deref().unwrap_or("?").to_owned();
        if let Some(name) = &self.name {
            title.push_str(&format!(" {name}"));
        }
        if let Some(channel) = &self.channel {
            title.push_str(&format!(" · {channel}"));
        }
        if let Some(recipient) = &self.recipient {
            title.push_str(&format!(" → {recipient}"));
        }
        title
    }

    /// The text.
    pub(crate) fn body(&self) -> &str {
        &self.text
    }

    /// The reason that the message is hidden.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.hidden.as_deref()
    }

    /// The words of a table: role, name, channel, recipient, content type, id of the call, end.
    pub(crate) fn words(&self) -> [Option<&str>; 7] {
        [
            self.role.as_deref(),
            self.name.as_deref(),
            self.channel.as_deref(),
            self.recipient.as_deref(),
            self.content_type.as_deref(),
            self.call_id.as_deref(),
            self.end.as_deref(),
        ]
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.complete
    }
}
