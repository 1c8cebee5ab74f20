//! The forms of a conversation: dialects, projections and ChatMD.

use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::convert::{self, ConvertOptions, PlacedTools, WriteResult};
use openchatml::project::{self, JsonFormat, Projected, UnknownShape};
use openchatml::{Dialect, Loss, Transcript};

use crate::conversion::chatmd::DocumentVariables;
use crate::conversion::rows::{is_json_lines, recognize};
use crate::conversion::{builtin_tools, chatmd};
use crate::language::Language;

/// A form of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Dialect(Dialect),
    Projection(JsonFormat),
    Chatmd,
    /// Plain text, not a conversation; only `scan` accepts it.
    Text,
}

/// The form of a document that is shown or checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentForm {
    Language(Language),
    Json(JsonFormat),
}

/// A conversation that was read.
pub(crate) struct Conversation {
    pub(crate) transcript: Transcript,
    pub(crate) form: Form,
    /// Whether the form was named, or is certain from the content.
    pub(crate) certain: bool,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) losses: Vec<Loss>,
    /// Whether the transcript is incomplete, so that it must not be converted.
    pub(crate) broken: bool,
    /// The variables of a ChatMD document.
    pub(crate) variables: DocumentVariables,
}

/// A conversation that was written.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) losses: Vec<Loss>,
}

impl Form {
    /// Parses the forms that are read.
    pub(crate) fn reader_parser() -> impl TypedValueParser<Value = Self> {
        let read_only = JsonFormat::READ_ONLY.map(Self::Projection);
        let names = Self::all().chain(read_only).map(Self::as_str);
        PossibleValuesParser::new(names).map(|name| Self::parse(&name).unwrap_or(Self::Text))
    }

    /// Parses the forms that are read and written.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(Self::all().map(Self::as_str))
            .map(|name| Self::parse(&name).unwrap_or(Self::Text))
    }

    /// Parses the forms that the command line accepts, and `text`.
    pub(crate) fn parser_with_text() -> impl TypedValueParser<Value = Self> {
        let names = Self::all().map(Self::as_str).chain(["text"]);
        PossibleValuesParser::new(names).map(|name| Self::parse(&name).unwrap_or(Self::Text))
    }

    /// Parses the forms of documents: ChatMD and every dialect.
    pub(crate) fn language_parser() -> impl TypedValueParser<Value = Language> {
        let forms = Self::all().filter(|form| !matches!(form, Self::Projection(_)));
        PossibleValuesParser::new(forms.map(Self::as_str)).map(|name| match Self::parse(&name) {
            Some(Self::Dialect(dialect)) => Language::from(dialect),
            _ => Language::Chatmd,
        })
    }

    /// Returns the form of a document: JSON by its keys, else its language.
    ///
    /// An unknown JSON shape is an error. The extension of a language takes precedence.
    pub(crate) fn of_document(
        path: Option<&Path>,
        text: &[u8],
    ) -> Result<DocumentForm, UnknownShape> {
        let ending = path
            .and_then(Path::extension)
            .and_then(|ending| ending.to_str());
        let named = matches!(
            ending,
            Some("chatmd" | "md" | "ocml" | "openchatml" | "harmony" | "chatml")
        );
        let is_lines = path.is_some_and(is_json_lines) && !text.trim_ascii().is_empty();
        if !named && (is_lines || looks_like_json(text)) {
            return recognize(text).map(DocumentForm::Json);
        }
        Ok(DocumentForm::Language(Language::detect(path, text)))
    }

    /// Returns the JSON format, if it is one.
    pub(crate) const fn json(self) -> Option<JsonFormat> {
        match self {
            Self::Projection(format) => Some(format),
            _ => None,
        }
    }

    /// Returns the form of a document in this form.
    pub(crate) fn document(self) -> DocumentForm {
        match self {
            Self::Projection(format) => DocumentForm::Json(format),
            Self::Dialect(dialect) => DocumentForm::Language(Language::from(dialect)),
            Self::Chatmd | Self::Text => DocumentForm::Language(Language::Chatmd),
        }
    }

    /// Parses the names of some dialects.
    pub(crate) fn dialect_parser(
        dialects: &'static [Dialect],
    ) -> impl TypedValueParser<Value = Dialect> {
        let names = dialects.iter().map(|dialect| dialect.as_str());
        PossibleValuesParser::new(names).map(|name| {
            let dialect = dialects.iter().find(|dialect| dialect.as_str() == name);
            dialect.copied().unwrap_or(Dialect::V2_2)
        })
    }

    fn all() -> impl Iterator<Item = Self> {
        let dialects = Dialect::ALL.into_iter().map(Self::Dialect);
        let projections = JsonFormat::ALL.into_iter().map(Self::Projection);
        dialects.chain([Self::Chatmd]).chain(projections)
    }

    fn parse(name: &str) -> Option<Self> {
        let read_only = JsonFormat::READ_ONLY.map(Self::Projection);
        let mut forms = Self::all().chain(read_only);
        forms.find(|form| form.as_str() == name)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Dialect(dialect) => dialect.as_str(),
            Self::Projection(projection) => projection.as_str(),
            Self::Chatmd => "chatmd",
            Self::Text => "text",
        }
    }

    /// The extension of a file in this form.
    pub(crate) const fn ending(self) -> &'static str {
        match self {
            Self::Dialect(Dialect::ChatMl) => "chatml",
            Self::Dialect(Dialect::Harmony) => "harmony",
            Self::Dialect(_) => "ocml",
            Self::Projection(_) => "json",
            Self::Chatmd => "chatmd",
            Self::Text => "txt",
        }
    }

    /// Detects the form of a text, and whether the form is certain.
    ///
    /// Returns `None` if neither the text nor its file name indicates a form.
    pub(crate) fn detect(path: Option<&Path>, text: &[u8]) -> Option<(Self, bool)> {
        let ending = path.and_then(Path::extension);
        if ending.is_some_and(|ending| ending == "chatmd") {
            return Some((Self::Chatmd, true));
        }
        if looks_like_json(text) {
            if let Some(projection) = project::detect(text) {
                return Some((Self::Projection(projection), true));
            }
            // A version in an object is not that of a document header.
            if project::conversations(text).is_ok() {
                return None;
            }
        }
        if std::str::from_utf8(text).is_ok_and(Language::looks_like_chatmd) {
            return Some((Self::Chatmd, true));
        }
        let named_dialect = match ending.and_then(|ending| ending.to_str()) {
            Some("harmony") => Some(Dialect::Harmony),
            Some("chatml") => Some(Dialect::ChatMl),
            _ => None,
        };
        if let Some(dialect) = named_dialect {
            return Some((Self::Dialect(dialect), true));
        }
        let found = openchatml::detect(text)?;
        // The extension names the family: a fragment belongs to it rather than to Harmony.
        let ours = ending.is_some_and(|ending| ending == "ocml" || ending == "openchatml");
        if ours && !found.certain && found.dialect == Dialect::Harmony {
            return Some((Self::Dialect(Dialect::V2_2), true));
        }
        Some((Self::Dialect(found.dialect), found.certain))
    }

    /// Reads a conversation; `folder` is the directory of its file, if it has one.
    pub(crate) fn read(
        self,
        text: &[u8],
        certain: bool,
        folder: Option<&Path>,
        options: &ConvertOptions,
    ) -> Conversation {
        match self {
            Self::Dialect(dialect) => {
                let read = convert::read(text, Some(dialect), options);
                let other_version = |found: &Diagnostic| {
                    found.is_error() && found.code == DiagnosticCode::ParseVersion
                };
                Conversation {
                    broken: read.diagnostics.iter().any(other_version),
                    transcript: read.transcript,
                    form: Self::Dialect(read.dialect),
                    certain,
                    diagnostics: read.diagnostics,
                    losses: read.losses,
                    variables: DocumentVariables::default(),
                }
            }
            Self::Projection(projection) => {
                let read = project::read(text, projection, options);
                self.of_projection(read, certain)
            }
            Self::Chatmd | Self::Text => chatmd::read(text, certain, folder),
        }
    }

    /// Reads all conversations of a row: two of a pair of preference, else one.
    pub(crate) fn read_all(
        self,
        text: &[u8],
        certain: bool,
        folder: Option<&Path>,
        options: &ConvertOptions,
    ) -> Vec<Conversation> {
        let Self::Projection(projection) = self else {
            return vec![self.read(text, certain, folder, options)];
        };
        let part = Span::new(0, text.len());
        let read = project::read_all(text, part, projection, options);
        let conversation = |read| self.of_projection(read, certain);
        read.into_iter().map(conversation).collect()
    }

    /// Returns a conversation that was read in this form.
    pub(crate) fn of_projection(self, read: Projected, certain: bool) -> Conversation {
        Conversation {
            broken: read.has_errors(),
            transcript: read.transcript,
            form: self,
            certain,
            diagnostics: read.diagnostics,
            losses: read.losses,
            variables: DocumentVariables::default(),
        }
    }

    /// Writes a conversation.
    pub(crate) fn write(
        self,
        transcript: &Transcript,
        options: &ConvertOptions,
    ) -> Result<Text, convert::ConvertError> {
        let written = match self {
            Self::Dialect(dialect) => convert::write(transcript, dialect, options)?,
            Self::Projection(projection) => {
                return Self::write_projection(projection, transcript, options);
            }
            Self::Chatmd | Self::Text => {
                let written = chatmd::write(transcript);
                if options.refuses(&written.losses) {
                    return Err(convert::ConvertError::Losses(written.losses));
                }
                return Ok(written);
            }
        };
        Ok(Text {
            text: written.text,
            losses: written.losses,
        })
    }

    /// Writes a row, with the built-in tools among its declarations.
    fn write_projection(
        projection: JsonFormat,
        transcript: &Transcript,
        options: &ConvertOptions,
    ) -> Result<Text, convert::ConvertError> {
        if matches!(projection, JsonFormat::Json | JsonFormat::Json2_0) {
            let WriteResult { text, losses, .. } = project::write(transcript, projection, options)?;
            return Ok(Text { text, losses });
        }
        let placed = PlacedTools::beside(transcript);
        let (declared, of_builtins) = builtin_tools::declared(placed.transcript());
        let lenient = options.clone().with_strict(None);
        let written = project::write(&declared, projection, &lenient)?;
        let mut losses = written.losses;
        losses.extend(of_builtins);
        drop(declared);
        placed.finish(&mut losses);
        if options.refuses(&losses) {
            return Err(convert::ConvertError::Losses(losses));
        }
        let text = written.text;
        Ok(Text { text, losses })
    }
}

/// Returns whether a text begins like JSON; `[BOS]` does not count.
pub(crate) fn looks_like_json(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let text = text.trim_ascii_start();
    matches!(text.first(), Some(b'{' | b'[')) && !text.starts_with(b"[BOS]")
}
