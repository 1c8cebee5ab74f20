//! `logue scan`: finds control tokens hidden in message text.
//!
//! Every text is read in pieces, so its size is unlimited. The scan keeps one token in memory, the
//! report at most one line or a part of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use logue_source::{Diagnostic, DiagnosticCode, Origin, Severity, Source, Span, escape_line};
use openchatml::scan::{ScanFormat, TokenFamily, TokenHit, TokenScanner};
use serde_json::json;

use crate::arguments::ScanArgs;
use crate::conversion::form::{Form, looks_like_json};
use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::files::{find_files, io_cause, is_stdin, size_of};
use crate::finding::to_json;
use crate::progress::Progress;
use crate::terminal::{ignore_broken_pipe, print, print_error, report_style};

/// Bytes that are read at a time.
const PIECE: usize = 64 * 1024;

pub(crate) fn scan(arguments: &ScanArgs) -> Result<Exit, CliError> {
    if let Some(fault) = arguments.contradiction() {
        return Err(CliError::new(Exit::Usage, "usage", fault)
            .with_help("--family names families to search for, --no-family those to leave out"));
    }
    let mut files = Vec::new();
    for path in &arguments.paths {
        if path.as_os_str() != "-" && path.is_dir() {
            files.extend(find_files(path, |_| true)?);
        } else {
            files.push(path.clone());
        }
    }
    let mut tally = Tally {
        files: 0,
        found: 0,
        harmless: 0,
        unreadable: 0,
        progress: Progress::bytes(size_of(&files), arguments.json),
    };
    for path in &files {
        if is_stdin(path) {
            tally.stream("<stdin>", None, io::stdin().lock(), arguments)?;
        } else {
            tally.file(path, arguments)?;
        }
    }
    if !arguments.json {
        print_error(&format!("{tally}\n"));
    }
    Ok(if tally.unreadable > 0 {
        Exit::UserCorrectable
    } else if tally.found > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}

struct Tally {
    files: usize,
    found: usize,
    harmless: usize,
    unreadable: usize,
    progress: Progress,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} scanned: {}, {} escaped",
            counted(self.files, "file"),
            counted(self.found, "hidden control token"),
            self.harmless
        )
    }
}

impl Tally {
    fn file(&mut self, path: &Path, arguments: &ScanArgs) -> Result<(), CliError> {
        let name = path.display().to_string();
        let opened = std::fs::metadata(path).and_then(|metadata| {
            if metadata.is_file() {
                File::open(path)
            } else {
                Err(io::Error::other("it is not a regular file"))
            }
        });
        match opened {
            Ok(file) => self.stream(&name, Some(path), file, arguments),
            Err(error) => {
                self.files += 1;
                self.unreadable(&name, &error);
                Ok(())
            }
        }
    }

    fn unreadable(&mut self, name: &str, error: &io::Error) {
        self.unreadable += 1;
        let message = format!("cannot read `{name}`: {}", io_cause(error));
        let failure = CliError::user(DiagnosticCode::SourceRead.as_str(), message)
            .with_help("check the path; it is relative to the current directory");
        crate::terminal::report(&failure);
    }

    fn stream(
        &mut self,
        name: &str,
        path: Option<&Path>,
        mut stream: impl Read,
        arguments: &ScanArgs,
    ) -> Result<(), CliError> {
        self.files += 1;
        let mut buffer = vec![0; PIECE];
        let mut filled = match fill(&mut stream, &mut buffer) {
            Ok(filled) => filled,
            Err(error) => {
                self.unreadable(name, &error);
                return Ok(());
            }
        };
        let mut piece = buffer.get(..filled).unwrap_or_default();
        let text = text_of(path, piece, arguments.from);
        let mut scan = Some(TokenScanner::new(text).with_families(arguments.families()));
        let mut lines = Lines::default();
        loop {
            let last = filled < PIECE;
            let mut found = Vec::new();
            if let Some(scan) = &mut scan {
                scan.push(piece, &mut |token| found.push(token));
            }
            if last && let Some(scan) = scan.take() {
                scan.finish(&mut |token| found.push(token));
            }
            lines.push(piece);
            self.progress.advance(piece.len() as u64);
            for token in found {
                self.report(name, &mut lines, &token, arguments.json)?;
            }
            lines.forget();
            if last {
                return Ok(());
            }
            filled = match fill(&mut stream, &mut buffer) {
                Ok(filled) => filled,
                Err(error) => {
                    self.unreadable(name, &error);
                    return Ok(());
                }
            };
            piece = buffer.get(..filled).unwrap_or_default();
        }
    }

    fn report(
        &mut self,
        name: &str,
        lines: &mut Lines,
        found: &TokenHit,
        json: bool,
    ) -> Result<(), CliError> {
        let (severity, message, help) = if found.is_escaped {
            self.harmless += 1;
            let message = format!("`{}` is escaped and harmless here", found.token);
            (Severity::Note, message, "no action is required")
        } else {
            self.found += 1;
            let message = format!("`{}` appears in message text", found.token);
            let help = "a model may read it as markup; check the origin of the text";
            (Severity::Warning, message, help)
        };
        let (part, start, span) = lines.around(found.span);
        let source = Source::fragment(name, &part, start);
        let diagnostic =
            Diagnostic::new(severity, DiagnosticCode::HiddenControlToken, message, span)
                .with_expected("text without control tokens")
                .with_help(help);
        if json {
            let mut value = to_json(&source, &diagnostic);
            value["token"] = json!(found.token);
            value["harmless"] = json!(found.is_escaped);
            let families = found.families.iter().map(TokenFamily::name);
            value["families"] = families.collect();
            return ignore_broken_pipe(print(&format!("{value}\n"))).map(drop);
        }
        if found.is_escaped {
            let place = source.place(span.start);
            print_error(&format!("{place}: {}\n", escape_line(&diagnostic.message)));
            return Ok(());
        }
        print_error(&format!("{}\n", source.render(&diagnostic, report_style())));
        Ok(())
    }
}

/// Fills the buffer, unless the stream ends.
fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the format of a text.
///
/// The format follows from `named_form` if given, else from the file extension and the first bytes.
fn text_of(path: Option<&Path>, begin: &[u8], named_form: Option<Form>) -> ScanFormat {
    let ending = path
        .and_then(Path::extension)
        .and_then(|ending| ending.to_str());
    let json = matches!(ending, Some("json" | "jsonl" | "ndjson")) || looks_like_json(begin);
    match named_form {
        Some(Form::Dialect(dialect)) => ScanFormat::Envelope(dialect),
        Some(Form::Projection(_)) => ScanFormat::Json,
        Some(Form::Chatmd) => ScanFormat::ChatMd,
        Some(Form::Text) => ScanFormat::Plain,
        None if json => ScanFormat::Json,
        None => match Form::detect(path, begin) {
            // Prose that only mentions a token is not a transcript.
            Some((Form::Dialect(dialect), _)) if begins_as_envelope(begin) => {
                ScanFormat::Envelope(dialect)
            }
            Some((Form::Chatmd, _)) => ScanFormat::ChatMd,
            _ => ScanFormat::Plain,
        },
    }
}

/// Returns whether a text begins like a transcript.
fn begins_as_envelope(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    let first = first.unwrap_or_default();
    first.starts_with(b"<|")
        || first.starts_with(b"[BOS]")
        || first == b"---"
        || first.starts_with(b"version:")
}

/// Maximum number of bytes shown on each side of a position in a line.
const REACH: usize = 1024;

/// The end of the text read so far, as far back as findings may refer.
#[derive(Debug, Default)]
struct Lines {
    kept: Vec<u8>,
    /// The position of the first byte in `kept`.
    start: Origin,
    /// An index in `kept` and its position, the start for later lookups in ascending order.
    known: (usize, Origin),
}

impl Lines {
    fn push(&mut self, piece: &[u8]) {
        self.kept.extend_from_slice(piece);
    }

    /// Returns the surroundings of `span` in its line, their position, and the span in them.
    fn around(&mut self, span: Span) -> (Vec<u8>, Origin, Span) {
        let at = span
            .start
            .saturating_sub(self.start.offset)
            .min(self.kept.len());
        let nearest = character(&self.kept, at.saturating_sub(REACH));
        let before = self.kept.get(nearest..at).unwrap_or_default();
        let newline = memchr::memrchr(b'\n', before);
        let from = newline.map_or(nearest, |newline| nearest + newline + 1);
        let farthest = character(&self.kept, (at + span.len() + REACH).min(self.kept.len()));
        let behind = self.kept.get(at..farthest).unwrap_or_default();
        let to = memchr::memchr(b'\n', behind).map_or(farthest, |newline| at + newline);
        let (known, place) = self.known;
        let between = self.kept.get(known..from).unwrap_or_default();
        let start = advanced(place, between);
        if known < from {
            self.known = (from, start);
        }
        let part = self.kept.get(from..to).unwrap_or_default().to_vec();
        let place = Span::new(at - from, (at - from + span.len()).min(part.len()));
        (part, start, place)
    }

    /// Drops everything before the last line, and a long last line except for its end.
    ///
    /// No later finding can refer to the dropped text.
    fn forget(&mut self) {
        let newline = memchr::memrchr(b'\n', &self.kept);
        let line = newline.map_or(0, |newline| newline + 1);
        let cut = line.max(self.kept.len().saturating_sub(2 * REACH));
        let (known, place) = self.known;
        self.start = advanced(place, self.kept.get(known..cut).unwrap_or_default());
        self.kept.drain(..cut);
        self.known = (0, self.start);
    }
}

/// Returns the nearest character boundary at or below `at`.
fn character(text: &[u8], at: usize) -> usize {
    let inside = |offset: &usize| text.get(*offset).is_some_and(|byte| byte & 0xC0 == 0x80);
    at - (at.saturating_sub(3)..=at)
        .rev()
        .take_while(inside)
        .count()
        .min(at)
}

/// Returns the position after `text` if `text` begins at `start`.
fn advanced(start: Origin, text: &[u8]) -> Origin {
    let newlines = memchr::memchr_iter(b'\n', text).count();
    let line = text
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    // A character is counted by its first byte.
    let characters = line.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    Origin {
        offset: start.offset + text.len(),
        line: start.line + newlines,
        column: if newlines == 0 {
            start.column + characters
        } else {
            characters + 1
        },
    }
}
