//! `logue check`: errors and warnings of prompts and transcripts.

use std::io;
use std::path::Path;

use logue_agent::{into_text, read_all, read_bytes};
use logue_source::{Diagnostic, Severity, Source};
use serde_json::{Value, json};

use crate::arguments::CheckArgs;
use crate::exit::{Exit, Failure};
use crate::folder::find_files;
use crate::language::Language;
use crate::terminal::{closed_pipe_is_done, complain, error_style, print};

pub(crate) fn check(arguments: &CheckArgs) -> Result<Exit, Failure> {
    let mut tally = Tally::default();
    for path in &arguments.paths {
        if path.as_os_str() == "-" {
            let read = read_all("<stdin>", io::stdin().lock());
            tally.file("<stdin>", None, read, arguments)?;
        } else if path.is_dir() {
            for file in find_files(path, Language::is_candidate)? {
                tally.found_in_folder(&file, arguments)?;
            }
        } else {
            tally.file(
                &path.display().to_string(),
                Some(path),
                read_bytes(path),
                arguments,
            )?;
        }
    }
    if !arguments.json {
        complain(&format!("{tally}\n"));
    }
    Ok(if tally.unreadable > 0 {
        Exit::UserCorrectable
    } else if tally.errors > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}

#[derive(Debug, Default)]
struct Tally {
    files: usize,
    errors: usize,
    warnings: usize,
    unreadable: usize,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = |count: usize, word: &str| {
            if count == 1 {
                format!("1 {word}")
            } else {
                format!("{count} {word}s")
            }
        };
        write!(
            f,
            "{} checked: {}, {}",
            plural(self.files, "file"),
            plural(self.errors, "error"),
            plural(self.warnings, "warning")
        )
    }
}

impl Tally {
    /// A file that a search found: prose in Markdown is none of ours.
    fn found_in_folder(&mut self, path: &Path, arguments: &CheckArgs) -> Result<(), Failure> {
        let read = read_bytes(path);
        let is_prose = path.extension().is_some_and(|ending| ending == "md")
            && read.as_ref().is_ok_and(|bytes| {
                !std::str::from_utf8(bytes).is_ok_and(Language::looks_like_chatmd)
            });
        if is_prose {
            return Ok(());
        }
        self.file(&path.display().to_string(), Some(path), read, arguments)
    }

    fn file(
        &mut self,
        name: &str,
        path: Option<&Path>,
        read: Result<Vec<u8>, logue_agent::SourceError>,
        arguments: &CheckArgs,
    ) -> Result<(), Failure> {
        self.files += 1;
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                self.unreadable += 1;
                return self.tell(name, &error.text, &error.diagnostic, arguments.json);
            }
        };
        let language = arguments.lang.unwrap_or_else(|| Language::of(path, &bytes));
        match language {
            Language::Openchatml => {
                let document = openchatml::parse(&bytes);
                self.tell_all(name, &bytes, &openchatml::check(&document), arguments.json)
            }
            Language::Harmony | Language::Ocml0_1 | Language::Chatml => {
                let options = openchatml::convert::Options::default();
                let read = openchatml::convert::read(&bytes, language.dialect(), &options);
                self.tell_all(name, &bytes, &read.diagnostics, arguments.json)
            }
            Language::Chatmd => match into_text(name, bytes) {
                Ok(text) => {
                    let found = chatmd::check(&text);
                    self.tell_all(name, text.as_bytes(), &found, arguments.json)
                }
                Err(error) => {
                    self.unreadable += 1;
                    self.tell(name, &error.text, &error.diagnostic, arguments.json)
                }
            },
        }
    }

    fn tell_all(
        &mut self,
        name: &str,
        text: &[u8],
        found: &[Diagnostic],
        json: bool,
    ) -> Result<(), Failure> {
        if found.is_empty() {
            return Ok(());
        }
        let source = Source::new(name, text);
        found
            .iter()
            .try_for_each(|diagnostic| self.tell_in(&source, diagnostic, json))
    }

    fn tell(
        &mut self,
        name: &str,
        text: &[u8],
        diagnostic: &Diagnostic,
        json: bool,
    ) -> Result<(), Failure> {
        self.tell_in(&Source::new(name, text), diagnostic, json)
    }

    fn tell_in(
        &mut self,
        source: &Source<'_>,
        diagnostic: &Diagnostic,
        json: bool,
    ) -> Result<(), Failure> {
        match diagnostic.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => {}
        }
        if json {
            let line = format!("{}\n", to_json(source, diagnostic));
            return closed_pipe_is_done(print(&line)).map(drop);
        }
        complain(&format!("{}\n", source.render(diagnostic, error_style())));
        Ok(())
    }
}

/// A finding as one JSON object; lines and columns count from 1, columns in characters.
pub(crate) fn to_json(source: &Source<'_>, diagnostic: &Diagnostic) -> Value {
    let place = |offset: usize| {
        let place = source.line_column(offset);
        let offset_in_all = source.offset(offset);
        json!({"offset": offset_in_all, "line": place.line, "column": place.column})
    };
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|label| {
            json!({"start": place(label.span.start), "end": place(label.span.end), "text": label.text})
        })
        .collect();
    json!({
        "file": source.name(),
        "code": diagnostic.code.as_str(),
        "severity": diagnostic.severity.as_str(),
        "message": diagnostic.message,
        "start": place(diagnostic.primary.start),
        "end": place(diagnostic.primary.end),
        "expected": diagnostic.expected,
        "labels": labels,
        "help": diagnostic.help,
    })
}
