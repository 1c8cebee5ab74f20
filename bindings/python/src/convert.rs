//! From one form to another.

use logue_source::{Diagnostic, DiagnosticCode};
use openchatml::convert::{ConvertError, ConvertOptions, WriteResult};
use openchatml::project::{self, JsonFormat};
use openchatml::{Dialect, Loss, LossKind, LossSeverity, LossTarget, Transcript, detect};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error;
use crate::finding;
use crate::input;

/// A part of a conversation that a conversion could not carry.
#[pyclass(frozen, get_all, eq, module = "openchatml", name = "Loss")]
#[derive(PartialEq)]
pub(crate) struct LossItem {
    /// The stable name, such as `channel-changed`.
    kind: &'static str,
    /// `content`, `structure`, `identity`, or `None` for a note.
    severity: Option<&'static str>,
    /// The description, without text of the conversation.
    message: String,
    /// The index of the frame or message; `None` for the whole conversation.
    index: Option<usize>,
}

#[pymethods]
impl LossItem {
    fn __repr__(&self) -> String {
        let severity = self.severity.unwrap_or("note");
        format!("<Loss {severity} {}: {}>", self.kind, self.message)
    }

    /// Restores a loss from its fields.
    #[staticmethod]
    fn _restore(
        py: Python<'_>,
        kind: &str,
        message: String,
        index: Option<usize>,
    ) -> PyResult<Self> {
        let known = LossKind::ALL.iter().find(|known| known.as_str() == kind);
        let known = known.ok_or_else(|| error::invalid(py, "unknown kind of a loss"))?;
        Ok(Self {
            kind: known.as_str(),
            severity: known.severity().map(LossSeverity::as_str),
            message,
            index,
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, LossFields<'_>)> {
        let restore = py.get_type::<Self>().getattr("_restore")?;
        Ok((restore, (self.kind, &self.message, self.index)))
    }
}

type LossFields<'l> = (&'static str, &'l str, Option<usize>);

impl From<&Loss> for LossItem {
    fn from(loss: &Loss) -> Self {
        let index = index_of(loss);
        Self {
            kind: loss.kind.as_str(),
            severity: loss.severity().map(LossSeverity::as_str),
            message: loss.to_string(),
            index,
        }
    }
}

/// A converted conversation.
#[pyclass(frozen, get_all, module = "openchatml")]
pub(crate) struct Converted {
    /// The text in the new form.
    text: String,
    /// The form that was read.
    source_form: &'static str,
    /// The form that was written.
    form: &'static str,
    /// The parts that the new form does not hold, and those that reading added.
    losses: Py<PyTuple>,
    /// The findings of the reader.
    diagnostics: Py<PyTuple>,
}

type ConvertedFields<'c, 'py> = (
    &'c str,
    &'static str,
    &'static str,
    Bound<'py, PyTuple>,
    Bound<'py, PyTuple>,
);

impl Converted {
    /// Creates a result of the forms that were read and written.
    pub(crate) fn new(
        py: Python<'_>,
        text: String,
        forms: [&'static str; 2],
        losses: &[Loss],
        (found, source): (&[Diagnostic], &[u8]),
    ) -> PyResult<Self> {
        let losses = losses.iter().map(LossItem::from);
        Ok(Self {
            text,
            source_form: forms[0],
            form: forms[1],
            losses: PyTuple::new(py, losses.collect::<Vec<_>>())?.unbind(),
            diagnostics: finding::tuple(py, found, source)?.unbind(),
        })
    }
}

#[pymethods]
impl Converted {
    /// Restores a result from its fields.
    #[staticmethod]
    fn _restore(
        py: Python<'_>,
        text: String,
        source_form: &str,
        form: &str,
        losses: Py<PyTuple>,
        diagnostics: Py<PyTuple>,
    ) -> PyResult<Self> {
        Ok(Self {
            text,
            source_form: Form::parse(py, source_form)?.as_str(),
            form: Form::parse(py, form)?.as_str(),
            losses,
            diagnostics,
        })
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, ConvertedFields<'_, 'py>)> {
        let restore = py.get_type::<Self>().getattr("_restore")?;
        let losses = self.losses.bind(py).clone();
        let diagnostics = self.diagnostics.bind(py).clone();
        let fields = (
            self.text.as_str(),
            self.source_form,
            self.form,
            losses,
            diagnostics,
        );
        Ok((restore, fields))
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "<Converted {} to {}: {} bytes, {} losses>",
            self.source_form,
            self.form,
            self.text.len(),
            self.losses.bind(py).len()
        )
    }
}

/// A form that conversations are read from or written to.
#[derive(Clone, Copy)]
enum Form {
    Text(Dialect),
    Json(JsonFormat),
}

impl Form {
    fn parse(py: Python<'_>, name: &str) -> PyResult<Self> {
        if let Some(dialect) = Dialect::parse(name) {
            return Ok(Self::Text(dialect));
        }
        if let Some(format) = JsonFormat::parse(name) {
            return Ok(Self::Json(format));
        }
        let dialects = Dialect::ALL.map(Dialect::as_str).join(", ");
        let formats = JsonFormat::ALL.map(JsonFormat::as_str).join(", ");
        let message = format!("unknown form `{name}`; known are {dialects}, {formats}");
        Err(error::invalid(py, &message))
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Text(dialect) => dialect.as_str(),
            Self::Json(format) => format.as_str(),
        }
    }

    /// The form of a text; JSON counts before tokens that its strings may spell.
    fn detect(text: &[u8]) -> Self {
        let start = text.trim_ascii_start().first();
        let may_be_json = matches!(start, Some(b'{' | b'['));
        if may_be_json && let Ok(format) = project::recognize(text) {
            return Self::Json(format);
        }
        match detect(text) {
            Some(found) => Self::Text(found.dialect),
            // Its reader reports the error.
            None if may_be_json => Self::Json(JsonFormat::OpenAi),
            None => Self::Text(Dialect::V2_2),
        }
    }
}

/// A conversation that was read.
struct ReadForm {
    transcript: Transcript,
    form: Form,
    diagnostics: Vec<Diagnostic>,
    losses: Vec<Loss>,
}

fn read(text: &[u8], from: Option<Form>, options: &ConvertOptions) -> ReadForm {
    match from.unwrap_or_else(|| Form::detect(text)) {
        Form::Text(dialect) => {
            let read = openchatml::convert::read(text, Some(dialect), options);
            ReadForm {
                transcript: read.transcript,
                form: Form::Text(read.dialect),
                diagnostics: read.diagnostics,
                losses: read.losses,
            }
        }
        Form::Json(format) => {
            let read = project::read(text, format, options);
            ReadForm {
                transcript: read.transcript,
                form: Form::Json(format),
                diagnostics: read.diagnostics,
                losses: read.losses,
            }
        }
    }
}

/// Reads a conversation that is to be rendered: all of it, or an exception.
pub(crate) fn transcript_of(
    py: Python<'_>,
    text: &[u8],
    form: Option<&str>,
    is_data: bool,
) -> PyResult<Transcript> {
    let form = match form {
        Some(name) => Form::parse(py, name)?,
        None => match Form::detect(text) {
            Form::Text(_) if is_data => Form::Json(JsonFormat::OpenAi),
            found => found,
        },
    };
    let read = read(text, Some(form), &ConvertOptions::default());
    if matches!(form, Form::Json(_))
        && let Some(found) = read.diagnostics.iter().find(|found| found.is_error())
    {
        let index = read.losses.iter().find(|loss| is_dropped(loss));
        return Err(unreadable(py, found, index.and_then(index_of), text));
    }
    all_kept(py, &read.losses)?;
    let is_unread = |loss: &&Loss| loss.kind == LossKind::HeaderDropped;
    if matches!(form, Form::Text(_))
        && let Some(loss) = read.losses.iter().find(is_unread)
    {
        let code = ConvertError::CODE.as_str();
        return Err(error::error(py, code, &loss.message, None));
    }
    let extra = read.transcript.header.iter().map(|header| &header.extra);
    let is_tools = |key: &&str| extra.clone().any(|extra| extra.contains_key(*key));
    if let Some(key) = ["tools", "functions"].iter().find(|key| is_tools(key)) {
        let message = format!("`{key}` is not a list of tools");
        let code = DiagnosticCode::JsonShape.as_str();
        return Err(error::error(py, code, &message, None));
    }
    Ok(read.transcript)
}

/// Returns whether a message, or words of it, are left out.
const fn is_dropped(loss: &Loss) -> bool {
    matches!(
        loss.kind,
        LossKind::MessageDropped
            | LossKind::TextDropped
            | LossKind::ImageDropped
            | LossKind::PartDropped
            | LossKind::CallDropped
            | LossKind::BytesReplaced
            | LossKind::DeclarationDropped
    )
}

/// Raises if a prompt would lack a part of the conversation.
pub(crate) fn all_kept(py: Python<'_>, losses: &[Loss]) -> PyResult<()> {
    let dropped: Vec<&Loss> = losses.iter().filter(|loss| is_dropped(loss)).collect();
    let Some(first) = dropped.first() else {
        return Ok(());
    };
    let index = index_of(first);
    let message = match index {
        Some(index) => format!("message {}: {}", index + 1, first.message),
        None => first.message.clone(),
    };
    let error = error::error(py, ConvertError::CODE.as_str(), &message, None);
    let losses = dropped.into_iter().map(LossItem::from);
    let losses = PyTuple::new(py, losses.collect::<Vec<_>>())?;
    error.value(py).setattr("losses", losses)?;
    error.value(py).setattr("message_index", index)?;
    Err(error)
}

/// The exception of a message that cannot be read.
fn unreadable(py: Python<'_>, found: &Diagnostic, index: Option<usize>, text: &[u8]) -> PyErr {
    let mut found = found.clone();
    if let Some(index) = index {
        found.message = format!("message {}: {}", index + 1, found.message);
    }
    let error = error::found(py, &found, text);
    // An exception without the index is still the exception.
    let _ignored = error.value(py).setattr("message_index", index);
    error
}

const fn index_of(loss: &Loss) -> Option<usize> {
    match loss.target {
        LossTarget::Frame(index) | LossTarget::Message(index) => Some(index),
        _ => None,
    }
}

/// The forms and options of a conversion.
pub(crate) struct How {
    to: Form,
    from: Option<Form>,
    strict: Option<LossSeverity>,
    options: ConvertOptions,
}

impl How {
    pub(crate) fn new(
        py: Python<'_>,
        to: &str,
        dialect: Option<&str>,
        strict: Option<&str>,
        thinking: bool,
        line: bool,
    ) -> PyResult<Self> {
        let to = Form::parse(py, to)?;
        let from = dialect.map(|name| Form::parse(py, name)).transpose()?;
        let strict = match strict.map(|name| (name, LossSeverity::parse(name))) {
            None => None,
            Some((_, Some(severity))) => Some(severity),
            Some((name, None)) => {
                let message =
                    format!("unknown severity `{name}`; known are content, structure, identity");
                return Err(error::invalid(py, &message));
            }
        };
        let options = ConvertOptions::default()
            .with_strict(strict)
            .with_thinking(thinking)
            .with_line(line);
        Ok(Self {
            to,
            from,
            strict,
            options,
        })
    }

    fn run(&self, text: &[u8]) -> (ReadForm, Result<WriteResult, ConvertError>) {
        let read = read(text, self.from, &self.options);
        if let Some(severity) = self.strict {
            let forbidden = read.losses.iter().filter(|it| it.is_at_least(severity));
            let forbidden: Vec<Loss> = forbidden.cloned().collect();
            if !forbidden.is_empty() {
                return (read, Err(ConvertError::Losses(forbidden)));
            }
        }
        let written = match self.to {
            Form::Text(dialect) => {
                openchatml::convert::write(&read.transcript, dialect, &self.options)
            }
            Form::Json(format) => project::write(&read.transcript, format, &self.options),
        };
        (read, written)
    }
}

/// A conversation of a batch.
pub(crate) struct ConvertedText {
    pub(crate) text: String,
    pub(crate) losses: Vec<Loss>,
    /// The number of findings of the reader.
    pub(crate) diagnostics: usize,
}

/// Converts one conversation of a batch; the error is the reason of a refusal.
pub(crate) fn convert_text(text: &[u8], how: &How) -> Result<ConvertedText, String> {
    let (read, written) = how.run(text);
    let written = written.map_err(|failure| failure.to_string())?;
    let mut losses = read.losses;
    losses.extend(written.losses);
    Ok(ConvertedText {
        text: written.text,
        losses,
        diagnostics: read.diagnostics.len(),
    })
}

/// Converts a conversation to another form.
#[pyfunction]
#[pyo3(signature = (text, to, *, dialect=None, strict=None, thinking=false, line=false))]
pub(crate) fn convert(
    py: Python<'_>,
    text: &Bound<'_, PyAny>,
    to: &str,
    dialect: Option<&str>,
    strict: Option<&str>,
    thinking: bool,
    line: bool,
) -> PyResult<Converted> {
    let how = How::new(py, to, dialect, strict, thinking, line)?;
    let bytes = input::bytes(text)?;
    let (read, written) = py.detach(|| how.run(&bytes));
    let written = written.map_err(|failure| refused(py, &failure))?;
    let losses = read
        .losses
        .iter()
        .chain(&written.losses)
        .map(LossItem::from);
    Ok(Converted {
        text: written.text,
        source_form: read.form.as_str(),
        form: how.to.as_str(),
        losses: PyTuple::new(py, losses.collect::<Vec<_>>())?.unbind(),
        diagnostics: finding::tuple(py, &read.diagnostics, &bytes)?.unbind(),
    })
}

/// The exception of a conversion that was refused; its `losses` are those that were forbidden.
fn refused(py: Python<'_>, failure: &ConvertError) -> PyErr {
    let code = ConvertError::CODE.as_str();
    let error = error::error(py, code, &failure.to_string(), None);
    let losses = failure.losses().iter().map(LossItem::from);
    if let Ok(losses) = PyTuple::new(py, losses.collect::<Vec<_>>()) {
        // An exception without its losses is still the exception.
        let _ignored = error.value(py).setattr("losses", losses);
    }
    error
}
