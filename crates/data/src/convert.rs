//! The conversion of rows to another form.

use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::convert::{self, ConvertError, ConvertOptions, PlacedTools, WriteResult};
use openchatml::project::{self, JsonFormat, Projected};
use openchatml::{Dialect, Loss, LossSeverity, Transcript};
use serde_json::{Value, json};

use crate::{Refusal, row_text};

/// The setting of a header that lists built-in tools of the program.
const BUILTIN_TOOLS: &str = "builtin_tools";

/// A form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// A textual form, in rows `{"text": …}`.
    Text(Dialect),
    /// JSON.
    Json(JsonFormat),
}

impl RowForm {
    /// Returns the form with this name.
    pub fn parse(name: &str) -> Option<Self> {
        let text = Dialect::parse(name).map(Self::Text);
        text.or_else(|| JsonFormat::parse(name).map(Self::Json))
    }

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text(dialect) => dialect.as_str(),
            Self::Json(format) => format.as_str(),
        }
    }
}

/// Converts rows, in any thread, to the lines of `logue data convert`.
///
/// ```
/// use logue_data::convert::{RowConverter, RowForm};
/// use openchatml::project::JsonFormat;
///
/// let converter = RowConverter::new(RowForm::Json(JsonFormat::OpenAi));
/// let row = br#"{"conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello"}]}"#;
/// assert_eq!(
///     converter.convert(row)?.lines,
///     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Hello\"}]}\n"
/// );
/// # Ok::<(), logue_data::Refusal>(())
/// ```
///
/// Two parts of the program are absent: documents of ChatMD, and declarations for the setting
/// `builtin_tools` of a header. Rows that need them are refused.
#[derive(Clone, Debug)]
pub struct RowConverter {
    from: Option<RowForm>,
    to: RowForm,
    strict: Option<LossSeverity>,
    options: ConvertOptions,
}

/// A converted row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertedRow {
    /// The form that was read.
    pub form: RowForm,
    /// The lines, each with its end: two for a pair of preference, else one.
    pub lines: String,
    /// The parts that the form does not hold, and those that reading added.
    pub losses: Vec<Loss>,
    /// The findings of the reader.
    pub diagnostics: Vec<Diagnostic>,
}

/// A conversation that was read.
struct ReadRow {
    form: RowForm,
    transcript: Transcript,
    diagnostics: Vec<Diagnostic>,
    losses: Vec<Loss>,
    is_broken: bool,
}

impl RowConverter {
    /// Creates a converter to a form, of rows in any form.
    pub fn new(to: RowForm) -> Self {
        Self {
            from: None,
            to,
            strict: None,
            options: ConvertOptions::default().with_line(true),
        }
    }

    /// Reads every row in this form.
    #[must_use]
    pub fn with_from(mut self, from: Option<RowForm>) -> Self {
        self.from = from;
        self
    }

    /// Refuses rows with an error, or with a loss that is at least this severe.
    #[must_use]
    pub fn with_strict(mut self, strict: Option<LossSeverity>) -> Self {
        self.strict = strict;
        self.options = self.options.with_strict(strict);
        self
    }

    /// Keeps reasoning in rows of forms that have a member for it.
    #[must_use]
    pub fn with_reasoning(mut self, keeps_reasoning: bool) -> Self {
        self.options = self.options.with_thinking(keeps_reasoning);
        self
    }

    /// Converts a row.
    ///
    /// # Errors
    /// Returns a refusal if the row cannot be read completely, if the form cannot hold it, or for
    /// what [`with_strict`](Self::with_strict) forbids.
    pub fn convert(&self, row: &[u8]) -> Result<ConvertedRow, Refusal> {
        let text = match self.from {
            None | Some(RowForm::Text(_)) => row_text(row),
            Some(RowForm::Json(_)) => None,
        };
        let bytes = text.as_deref().map_or(row, str::as_bytes);
        let mut converted = ConvertedRow {
            form: self.to,
            lines: String::new(),
            losses: Vec::new(),
            diagnostics: Vec::new(),
        };
        for mut read in self.read(bytes) {
            match self.line(&mut read) {
                Ok(line) => converted.lines.push_str(&line),
                Err(why) => return Err(refusal(row, read, why, text.is_none())),
            }
            converted.form = read.form;
            converted.losses.append(&mut read.losses);
            converted.diagnostics.append(&mut read.diagnostics);
        }
        Ok(converted)
    }

    /// Reads the conversations of a row or of its text: two of a pair of preference, else one.
    fn read(&self, text: &[u8]) -> Vec<ReadRow> {
        let whole = Span::new(0, text.len());
        let json = |format| {
            let read = project::read_all(text, whole, format, &self.options);
            read.into_iter().map(move |read| projected(format, read))
        };
        match self.from {
            Some(RowForm::Json(format)) => return json(format).collect(),
            Some(RowForm::Text(dialect)) => return vec![self.read_text(text, dialect)],
            None => {}
        }
        if let Some((format, read)) = project::read_recognized(text, &self.options) {
            let read = read.into_iter();
            return read.map(|read| projected(format, read)).collect();
        }
        if let Some(form) = detect(text) {
            return match form {
                RowForm::Json(format) => json(format).collect(),
                RowForm::Text(dialect) => vec![self.read_text(text, dialect)],
            };
        }
        if project::conversations(text).is_err() {
            // A row that is not JSON is reported as the most frequent form.
            return json(JsonFormat::OpenAi).collect();
        }
        match project::recognize(text) {
            Ok(format) => json(format).collect(),
            Err(shape) => {
                let rename =
                    "rename the keys to those of a known shape, or name the form with --from";
                let remedy = shape.log.map_or(rename, |log| log.remedy);
                let found = Diagnostic::error(
                    DiagnosticCode::JsonShape,
                    shape.to_string(),
                    Span::new(0, 1),
                );
                vec![ReadRow {
                    form: RowForm::Json(JsonFormat::OpenAi),
                    transcript: Transcript::default(),
                    diagnostics: vec![found.with_expected("a conversation").with_help(remedy)],
                    losses: Vec::new(),
                    is_broken: true,
                }]
            }
        }
    }

    fn read_text(&self, text: &[u8], dialect: Dialect) -> ReadRow {
        let read = convert::read(text, Some(dialect), &self.options);
        let is_version =
            |found: &Diagnostic| found.is_error() && found.code == DiagnosticCode::ParseVersion;
        ReadRow {
            form: RowForm::Text(read.dialect),
            is_broken: read.diagnostics.iter().any(is_version),
            transcript: read.transcript,
            diagnostics: read.diagnostics,
            losses: read.losses,
        }
    }

    /// Returns the line of a conversation, whose losses are those of reading and writing then.
    fn line(&self, read: &mut ReadRow) -> Result<String, Unwritten> {
        if read.is_broken {
            return Err(Unwritten::Other(
                "it could not be read completely".to_owned(),
            ));
        }
        if self.strict.is_some() && read.diagnostics.iter().any(Diagnostic::is_error) {
            let message = "it has errors, and --strict forbids them";
            return Err(Unwritten::Other(message.to_owned()));
        }
        let is_row = matches!(self.to, RowForm::Json(format)
            if !matches!(format, JsonFormat::Json | JsonFormat::Json2_0));
        if is_row && lists_builtin_tools(&read.transcript) {
            let message = format!("the setting `{BUILTIN_TOOLS}` needs the program `logue`");
            return Err(Unwritten::Other(message));
        }
        match self.write(&read.transcript) {
            Ok(written) => {
                read.losses.extend(written.losses);
                let refuses = |strict| read.losses.iter().any(|loss| loss.is_at_least(strict));
                if self.strict.is_some_and(refuses) {
                    return Err(Unwritten::Losses);
                }
                Ok(match self.to {
                    RowForm::Json(_) => written.text,
                    RowForm::Text(_) => format!("{}\n", json!({ "text": written.text })),
                })
            }
            Err(ConvertError::Losses(losses)) => {
                read.losses.extend::<Vec<Loss>>(losses);
                Err(Unwritten::Losses)
            }
            Err(error) => Err(Unwritten::Other(error.to_string())),
        }
    }

    fn write(&self, transcript: &Transcript) -> Result<WriteResult, ConvertError> {
        match self.to {
            RowForm::Text(dialect) => convert::write(transcript, dialect, &self.options),
            RowForm::Json(format @ (JsonFormat::Json | JsonFormat::Json2_0)) => {
                project::write(transcript, format, &self.options)
            }
            RowForm::Json(format) => {
                let placed = PlacedTools::beside(transcript);
                let lenient = self.options.clone().with_strict(None);
                let mut written = project::write(placed.transcript(), format, &lenient)?;
                placed.finish(&mut written.losses);
                if self.options.refuses(&written.losses) {
                    return Err(ConvertError::Losses(written.losses));
                }
                Ok(written)
            }
        }
    }
}

fn projected(format: JsonFormat, read: Projected) -> ReadRow {
    ReadRow {
        form: RowForm::Json(format),
        is_broken: read.has_errors(),
        transcript: read.transcript,
        diagnostics: read.diagnostics,
        losses: read.losses,
    }
}

/// Returns the form that the content of a text indicates.
fn detect(text: &[u8]) -> Option<RowForm> {
    let start = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let start = start.trim_ascii_start();
    let looks_like_json =
        matches!(start.first(), Some(b'{' | b'[')) && !start.starts_with(b"[BOS]");
    if looks_like_json {
        if let Some(format) = project::detect(text) {
            return Some(RowForm::Json(format));
        }
        // A version in an object is not that of a document header.
        if project::conversations(text).is_ok() {
            return None;
        }
    }
    openchatml::detect(text).map(|found| RowForm::Text(found.dialect))
}

/// Returns whether a header lists built-in tools, whose declarations the program alone has.
fn lists_builtin_tools(transcript: &Transcript) -> bool {
    let header = transcript.header.as_ref();
    let setting = header.and_then(|header| header.generation_settings.get(BUILTIN_TOOLS));
    setting.and_then(Value::as_array).is_some()
}

/// The reason for an unwritten conversation.
enum Unwritten {
    /// Losses that the converter forbids.
    Losses,
    Other(String),
}

/// Returns the refusal of a row: its first error, or its most severe loss.
fn refusal(row: &[u8], read: ReadRow, why: Unwritten, is_whole: bool) -> Refusal {
    let whole = Span::new(0, row.len());
    let error = read.diagnostics.into_iter().find(Diagnostic::is_error);
    match (why, error) {
        (Unwritten::Other(_), Some(mut found)) => {
            if !is_whole {
                // Places in a text within the row are not places in the row.
                found.primary = whole;
            }
            found.into()
        }
        (Unwritten::Losses, _) => {
            let worst = read.losses.iter().max_by_key(|loss| loss.severity());
            let message = worst.map_or_else(String::new, ToString::to_string);
            Refusal::new(DiagnosticCode::WriteRefused, message, whole)
                .with_help("correct the conversation, or omit --strict")
        }
        (Unwritten::Other(why), None) => Refusal::new(DiagnosticCode::WriteRefused, why, whole)
            .with_help("convert to another form with --to"),
    }
}
