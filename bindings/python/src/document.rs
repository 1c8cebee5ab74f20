//! Whole conversations.

use logue_source::{Diagnostic, DiagnosticCode, escape_untrusted};
use openchatml::harmony::{HarmonyReadOptions, read, read_harmony_ids};
use openchatml::{Dialect, FrameRole, detect, v0_1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::error;
use crate::finding::{self, Finding};
use crate::input::{self, RELEASE_READING};
use crate::items::Items;
use crate::json;
use crate::message::Message;
use crate::offsets::Offsets;

/// A conversation that was read: its messages and the findings of the reader.
#[pyclass(frozen, module = "openchatml", name = "Document")]
pub(crate) struct Conversation {
    source: Py<PyAny>,
    dialect: Dialect,
    certain: bool,
    start_role: Option<FrameRole>,
    tools: Vec<String>,
    strict: bool,
    header: Option<serde_json::Value>,
    messages: Py<PyTuple>,
    diagnostics: Py<PyTuple>,
    visible: usize,
}

/// The result of reading, without Python objects.
#[derive(Default)]
struct Contents {
    header: Option<serde_json::Value>,
    messages: Vec<Message>,
    diagnostics: Vec<Diagnostic>,
    findings: Vec<Finding>,
}

impl Contents {
    fn found(&mut self, diagnostics: Vec<Diagnostic>, offsets: &Offsets<'_>) {
        let findings = diagnostics.iter().map(|found| Finding::new(found, offsets));
        self.findings = findings.collect();
        self.diagnostics = diagnostics;
    }
}

fn contents(text: &[u8], dialect: Dialect, options: &HarmonyReadOptions) -> Contents {
    let offsets = Offsets::new(text);
    let mut contents = Contents::default();
    match dialect {
        Dialect::Harmony => {
            let document = read(text, options);
            let messages = document.messages.into_iter();
            contents.messages = messages
                .map(|message| Message::harmony(message, &offsets))
                .collect();
            contents.found(document.diagnostics, &offsets);
        }
        Dialect::V0_1 | Dialect::ChatMl => {
            let legacy = match dialect {
                Dialect::ChatMl => v0_1::LegacyReadOptions::plain(),
                _ => v0_1::LegacyReadOptions::default(),
            };
            let document = v0_1::parse(text, &legacy);
            let messages = document.messages().iter();
            contents.messages = messages
                .map(|message| Message::legacy(&document, message, &offsets))
                .collect();
            contents.found(document.diagnostics().to_vec(), &offsets);
        }
        _ => {
            let document = openchatml::parse(text);
            let frames = document.frames().iter();
            contents.messages = frames
                .map(|frame| Message::frame(&document, frame, &offsets))
                .collect();
            contents.header = document.header().map(json::header);
            contents.found(document.diagnostics().to_vec(), &offsets);
        }
    }
    contents
}

/// Reads one conversation of a batch: its messages and the codes of its findings.
pub(crate) fn read_contents(
    text: &[u8],
    dialect: Option<Dialect>,
    options: &HarmonyReadOptions,
) -> (Vec<Message>, Vec<DiagnosticCode>) {
    let assumed = options.start_role.map(|_| Dialect::Harmony);
    let found = || detect(text).map(|found| found.dialect);
    let dialect = dialect.or(assumed).or_else(found).unwrap_or(Dialect::V2_2);
    let contents = contents(text, dialect, options);
    let codes = contents.diagnostics.iter().map(|found| found.code);
    (contents.messages, codes.collect())
}

/// Reads a conversation. Never fails on its text: what is wrong is in `diagnostics`.
#[pyfunction]
#[pyo3(signature = (text, dialect=None, *, start_role=None, tools=Items::default(), strict=false),
    text_signature = "(text, dialect=None, *, start_role=None, tools=(), strict=False)")]
pub(crate) fn parse<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyAny>,
    dialect: Option<&str>,
    start_role: Option<&Bound<'py, PyAny>>,
    tools: Items<String>,
    strict: bool,
) -> PyResult<Bound<'py, Conversation>> {
    let tools = tools.0;
    let named = input::dialect(py, dialect)?;
    let start_role = input::role(start_role)?;
    let bytes = input::bytes(text)?;
    let options = HarmonyReadOptions::default()
        .with_start_role(start_role)
        .with_strict(strict)
        .with_tools(tools.clone());
    let work = || {
        let detected = named.is_none().then(|| detect(&bytes)).flatten();
        let found = match start_role {
            Some(_) => Some(Dialect::Harmony),
            None => detected.map(|detected| detected.dialect),
        };
        let dialect = named.or(found).unwrap_or(Dialect::V2_2);
        let certain = named.is_some() || detected.is_some_and(|detected| detected.certain);
        (dialect, certain, contents(&bytes, dialect, &options))
    };
    let (dialect, certain, contents) = if bytes.len() >= RELEASE_READING {
        py.detach(work)
    } else {
        work()
    };
    let first = contents.diagnostics.iter().find(|found| found.is_error());
    let failure = first
        .filter(|_| strict)
        .map(|first| error::found(py, first, &bytes));
    let source = if text.is_instance_of::<PyString>() || text.is_instance_of::<PyBytes>() {
        text.clone()
    } else {
        PyBytes::new(py, &bytes).into_any()
    };
    let document = build(
        py, source, dialect, certain, start_role, tools, strict, contents,
    )?;
    match failure {
        None => Ok(document),
        Some(failure) => {
            failure.value(py).setattr("document", document)?;
            Err(failure)
        }
    }
}

/// Reads ids of `o200k_harmony`. Only the ids of control tokens are structure.
#[pyfunction]
#[pyo3(signature = (ids, *, start_role=None, tools=Items::default()),
    text_signature = "(ids, *, start_role=None, tools=())")]
pub(crate) fn parse_ids<'py>(
    py: Python<'py>,
    ids: Items<u32>,
    start_role: Option<&Bound<'py, PyAny>>,
    tools: Items<String>,
) -> PyResult<Bound<'py, Conversation>> {
    let (ids, tools) = (ids.0, tools.0);
    let start_role = input::role(start_role)?;
    let options = HarmonyReadOptions::default()
        .with_start_role(start_role)
        .with_tools(tools.clone());
    let work = || {
        let text = spelled(&ids);
        let offsets = Offsets::new(&text);
        let document = read_harmony_ids(ids.iter().copied(), &options);
        let mut contents = Contents::default();
        let messages = document.messages.into_iter();
        contents.messages = messages
            .map(|message| Message::harmony(message, &offsets))
            .collect();
        contents.found(document.diagnostics, &offsets);
        (text, contents)
    };
    let (text, contents) = if ids.len() >= RELEASE_READING / 8 {
        py.detach(work)
    } else {
        work()
    };
    let source = PyBytes::new(py, &text).into_any();
    build(
        py,
        source,
        Dialect::Harmony,
        true,
        start_role,
        tools,
        false,
        contents,
    )
}

/// The text that ids spell; an unknown id is U+FFFD.
pub(crate) fn spelled(ids: &[u32]) -> Vec<u8> {
    let mut text = Vec::with_capacity(ids.len() * 4);
    for id in ids {
        let bytes = logue_o200k::token_bytes(*id);
        text.extend_from_slice(bytes.unwrap_or("\u{FFFD}".as_bytes()));
    }
    text
}

#[expect(clippy::too_many_arguments, reason = "the fields of a document")]
fn build<'py>(
    py: Python<'py>,
    source: Bound<'py, PyAny>,
    dialect: Dialect,
    certain: bool,
    start_role: Option<FrameRole>,
    tools: Vec<String>,
    strict: bool,
    contents: Contents,
) -> PyResult<Bound<'py, Conversation>> {
    let visible = contents
        .messages
        .iter()
        .filter(|message| !message.is_hidden());
    let visible = visible.count();
    let document = Conversation {
        source: source.unbind(),
        dialect,
        certain,
        start_role,
        tools,
        strict,
        header: contents.header,
        messages: PyTuple::new(py, contents.messages)?.unbind(),
        diagnostics: PyTuple::new(py, contents.findings)?.unbind(),
        visible,
    };
    Bound::new(py, document)
}

/// The function that `pickle` calls to make a document again, and its arguments.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyAny>, Bound<'py, PyDict>));

#[pymethods]
impl Conversation {
    /// The text that was read; for ids, the bytes that they spell.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.source.bind(py).clone()
    }

    /// The dialect that the text was read in.
    #[getter]
    const fn dialect(&self) -> &'static str {
        self.dialect.as_str()
    }

    /// Returns whether the caller or the text named the dialect.
    #[getter]
    const fn certain(&self) -> bool {
        self.certain
    }

    /// The document header as a dict; `None` where there is none.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let header = self.header.as_ref();
        header.map(|header| json::to_python(py, header)).transpose()
    }

    /// The messages in order, stray text included.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        self.messages.bind(py).clone()
    }

    /// The findings of the reader.
    #[getter]
    fn diagnostics<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        self.diagnostics.bind(py).clone()
    }

    /// All findings: those of the reader, and those that need bodies to be parsed.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let source = self.source.bind(py);
        let bytes = input::bytes(source)?;
        let (dialect, role, tools) = (self.dialect, self.start_role, self.tools.clone());
        let found = py.detach(|| findings(&bytes, dialect, role, tools));
        finding::tuple(py, &found, &bytes)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.messages.bind(py).len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.messages.bind(py).as_any().get_item(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.messages.bind(py).as_any().try_iter()?.into_any())
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(false);
        };
        let other = other.get();
        Ok(self.dialect == other.dialect
            && self.strict == other.strict
            && self.tools == other.tools
            && self.start_role == other.start_role
            && self.source.bind(py).eq(other.source.bind(py))?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.source.bind(py).hash()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let messages = self.messages.bind(py).len();
        let found = self.diagnostics.bind(py).len();
        format!(
            "<Document {}: {messages} messages, {} visible, {found} diagnostics>",
            self.dialect, self.visible
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let named = PyDict::new(py);
        named.set_item("dialect", self.dialect.as_str())?;
        named.set_item("start_role", self.start_role.and_then(FrameRole::as_str))?;
        named.set_item("tools", &self.tools)?;
        named.set_item("strict", self.strict)?;
        let module = py.import("openchatml._errors")?;
        let source = self.source.bind(py).clone();
        Ok((module.getattr("_parse_again")?, (source, named)))
    }

    /// The conversation for a notebook: text only, hidden messages folded, no scripts.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let mut out = String::from("<div class=\"openchatml\">");
        for message in self.messages.bind(py).iter() {
            let message = message.cast_into::<Message>()?;
            html(&mut out, message.get());
        }
        out.push_str("</div>");
        Ok(out)
    }
}

/// The characters that HTML reads as markup, and those that nobody sees, made visible.
fn escaped(text: &str) -> String {
    let shown = escape_untrusted(text);
    let mut out = String::with_capacity(shown.len());
    for character in shown.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn html(out: &mut String, message: &Message) {
    let title = message.title();
    let text = escaped(message.body());
    let pre = format!("<pre style=\"white-space:pre-wrap\">{text}</pre>");
    let title = escaped(&title);
    match message.reason() {
        None => out.push_str(&format!("<div><b>{title}</b>{pre}</div>")),
        Some(reason) => out.push_str(&format!(
            "<details><summary>{title} <i>({})</i></summary>{pre}</details>",
            escaped(reason)
        )),
    }
}

/// Every finding about a text.
fn findings(
    text: &[u8],
    dialect: Dialect,
    start_role: Option<FrameRole>,
    tools: Vec<String>,
) -> Vec<Diagnostic> {
    match dialect {
        Dialect::Harmony => {
            let options = HarmonyReadOptions::default()
                .with_start_role(start_role)
                .with_tools(tools);
            let document = read(text, &options);
            let checked = openchatml::harmony::check(&document, &[]);
            let mut found = document.diagnostics;
            found.extend(checked);
            found.sort_by_key(|found| found.primary.start);
            found
        }
        Dialect::V0_1 | Dialect::ChatMl => {
            let options = match dialect {
                Dialect::ChatMl => v0_1::LegacyReadOptions::plain(),
                _ => v0_1::LegacyReadOptions::default(),
            };
            let document = v0_1::parse(text, &options);
            let mut found = document.diagnostics().to_vec();
            found.extend(v0_1::check(&document));
            found.sort_by_key(|found| found.primary.start);
            found
        }
        _ => openchatml::check(&openchatml::parse(text)),
    }
}

/// All findings about a text.
#[pyfunction]
#[pyo3(signature = (text, dialect=None, *, start_role=None, tools=Items::default()),
    text_signature = "(text, dialect=None, *, start_role=None, tools=())")]
pub(crate) fn check<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyAny>,
    dialect: Option<&str>,
    start_role: Option<&Bound<'py, PyAny>>,
    tools: Items<String>,
) -> PyResult<Bound<'py, PyTuple>> {
    let tools = tools.0;
    let named = input::dialect(py, dialect)?;
    let role = input::role(start_role)?;
    let bytes = input::bytes(text)?;
    let found = py.detach(|| {
        let found = || detect(&bytes).map(|found| found.dialect);
        let assumed = if role.is_some() {
            Some(Dialect::Harmony)
        } else {
            None
        };
        let dialect = named.or(assumed).or_else(found).unwrap_or(Dialect::V2_2);
        findings(&bytes, dialect, role, tools)
    });
    finding::tuple(py, &found, &bytes)
}

/// The dialect of a text as `(name, certain)`; `None` if it holds no token of any dialect.
#[pyfunction(name = "detect")]
pub(crate) fn detect_dialect(text: &Bound<'_, PyAny>) -> PyResult<Option<(&'static str, bool)>> {
    let bytes = input::bytes(text)?;
    Ok(detect(&bytes).map(|found| (found.dialect.as_str(), found.certain)))
}
