//! The conversations of a JSON text: a document, an array, or lines.

use std::path::Path;

use logue_data::row_text;
use logue_source::{Diagnostic, DiagnosticCode, Origin, Source, Span};
use openchatml::Transcript;
use openchatml::convert::ConvertOptions;
use openchatml::project::{self, JsonFormat, UnknownShape};
use serde::de::IgnoredAny;

use crate::conversion::chatmd::DocumentVariables;
use crate::conversion::form::{Conversation, Form};

/// One row of a JSON text.
pub(crate) struct Row<'t> {
    pub(crate) text: &'t [u8],
    pub(crate) origin: Origin,
    /// The text of a row `{"text": …}`, which its conversations and their diagnostics refer to.
    pub(crate) inner: Option<String>,
    /// Its conversations: two of a pair of preference, else one.
    pub(crate) conversations: Vec<Conversation>,
}

/// Reads every row of a JSON text, each when it is taken. Rows that cannot be read have diagnostics.
///
/// A line that is not JSON does not affect the other lines.
pub(crate) fn read_rows<'t>(
    name: &str,
    text: &'t [u8],
    format: Option<JsonFormat>,
) -> impl ExactSizeIterator<Item = Row<'t>> {
    let parts = project::conversations(text).unwrap_or_else(|_| {
        let lines = lines(text);
        if is_json_lines(Path::new(name)) || are_mostly_rows(text, &lines) {
            lines
        } else {
            vec![Span::new(0, text.len())]
        }
    });
    let places = Source::new("", text);
    let row = move |part: Span| {
        let place = places.line_column(part.start);
        let text = part.bytes(text);
        let inner = format.is_none().then(|| row_text(text)).flatten();
        Row {
            text,
            origin: Origin {
                offset: part.start,
                line: place.line,
                column: place.column,
            },
            conversations: match &inner {
                Some(inner) => read_line(
                    inner.as_bytes(),
                    &ConvertOptions::default().with_thinking(true),
                ),
                None => read_row(text, format),
            },
            inner,
        }
    };
    parts.into_iter().map(row)
}

/// Returns whether the first row of a JSON text is `{"text": …}`, as `convert` writes textual forms.
pub(crate) fn has_texts(name: &str, text: &[u8]) -> bool {
    let first = read_rows(name, text, None).next();
    first.is_some_and(|row| row.inner.is_some())
}

/// Returns whether the extension of a file is that of JSON lines.
pub(crate) fn is_json_lines(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension == "jsonl" || extension == "ndjson")
}

/// Returns the lines that are not blank, without their ends.
fn lines(text: &[u8]) -> Vec<Span> {
    let mut at = 0;
    let lines = text.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let start = at;
        at += line.len();
        Span::new(start, start + line.trim_ascii_end().len())
    });
    lines.filter(|line| !line.is_empty()).collect()
}

/// Returns whether at least half of several lines are rows on their own.
///
/// Lines of one formatted value are indented, or parts of it.
fn are_mostly_rows(text: &[u8], lines: &[Span]) -> bool {
    let is_row = |line: &&Span| {
        let line = line.bytes(text);
        line.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
    };
    let rows = lines.iter().filter(is_row).count();
    rows > 0 && lines.len() > 1 && rows * 2 >= lines.len()
}

/// Reads one row in a form, or in the one that its keys indicate.
pub(crate) fn read_row(text: &[u8], format: Option<JsonFormat>) -> Vec<Conversation> {
    let options = ConvertOptions::default().with_thinking(true);
    match format.map_or_else(|| recognize(text), Ok) {
        Ok(format) => Form::Projection(format).read_all(text, true, None, &options),
        Err(shape) => vec![unknown(&shape)],
    }
}

/// Reads a row, or the text of one, in the form that its content indicates.
pub(crate) fn read_line(text: &[u8], options: &ConvertOptions) -> Vec<Conversation> {
    if let Some((format, read)) = project::read_recognized(text, options) {
        let form = Form::Projection(format);
        let read = read.into_iter();
        return read.map(|read| form.of_projection(read, true)).collect();
    }
    match Form::detect(None, text) {
        Some((form, certain)) => form.read_all(text, certain, None, options),
        None => match recognize(text) {
            // A line that is not JSON is reported as the most frequent form.
            Ok(format) => Form::Projection(format).read_all(text, false, None, options),
            Err(shape) => vec![unknown(&shape)],
        },
    }
}

/// Returns the form of a JSON text. Text that is not JSON is read, and reported, as messages.
pub(crate) fn recognize(text: &[u8]) -> Result<JsonFormat, UnknownShape> {
    if project::conversations(text).is_err() {
        return Ok(JsonFormat::OpenAi);
    }
    project::recognize(text)
}

/// Returns the remedy for an unknown shape.
pub(crate) fn remedy(shape: &UnknownShape) -> &'static str {
    let rename = "rename the keys to those of a known shape, or name the form with --from";
    shape.log.map_or(rename, |log| log.remedy)
}

/// Returns a conversation that reports an unknown shape.
pub(crate) fn unknown(shape: &UnknownShape) -> Conversation {
    let found = Diagnostic::error(
        DiagnosticCode::JsonShape,
        shape.to_string(),
        Span::new(0, 1),
    )
    .with_expected("a conversation")
    .with_help(remedy(shape));
    Conversation {
        transcript: Transcript::default(),
        form: Form::Projection(JsonFormat::OpenAi),
        certain: true,
        diagnostics: vec![found],
        losses: Vec::new(),
        broken: true,
        variables: DocumentVariables::default(),
    }
}
