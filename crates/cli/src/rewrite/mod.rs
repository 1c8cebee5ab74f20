//! Rewriting of files, shared by `fmt` and `fix`.
//!
//! Each file that the paths of the command line select gets a new text, which is shown or replaces
//! the file. Replacement is atomic and durable, keeps the file mode, and requires that no run holds
//! the file. A file that cannot be rewritten does not stop the others.

mod diff;

use std::io;
use std::path::Path;
use std::time::Duration;

use logue_agent::{TranscriptError, TranscriptFile, into_text, read_all, read_bytes};
use logue_source::{Diagnostic, Source, escape_line};
use serde_json::{Value, json};

use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::files::find_files;
use crate::finding::{place_json, to_json};
use crate::language::Language;
use crate::setup::failures::source_failure;
use crate::terminal::{
    ignore_broken_pipe, output_style, print, print_error, print_styled, report_style,
};

/// The options of a rewriting command.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Options {
    /// Replaces files by their new texts.
    pub(crate) write: bool,
    /// Keeps the original files beside the new ones.
    pub(crate) backup: bool,
    /// Shows the changes as a diff.
    pub(crate) diff: bool,
    /// Prints JSON.
    pub(crate) json: bool,
    /// The language that the command line names.
    pub(crate) from: Option<Language>,
    /// The summary for changed files, such as "formatted".
    pub(crate) done: &'static str,
    /// The summary for files that would change, such as "would be formatted".
    pub(crate) would: &'static str,
}

/// The result of rewriting a text.
#[derive(Debug)]
pub(crate) struct RewriteResult {
    /// The new text; `None` if the text cannot be rewritten.
    pub(crate) text: Option<String>,
    /// Each change with its reason, if the command reports them.
    pub(crate) changes: Vec<chatmd::Change>,
    /// The diagnostics that the rewrite does not remove.
    pub(crate) remaining: Vec<Diagnostic>,
}

impl RewriteResult {
    /// Creates the result for an unchanged text.
    fn untouched(text: &str) -> Self {
        Self {
            text: Some(text.to_owned()),
            changes: Vec::new(),
            remaining: Vec::new(),
        }
    }
}

/// Rewrites files.
pub(crate) fn rewrite(
    paths: &[std::path::PathBuf],
    options: Options,
    make: &dyn Fn(&str) -> RewriteResult,
) -> Result<Exit, CliError> {
    let mut work = Work {
        options,
        make,
        tally: Tally::default(),
    };
    for path in paths {
        if path.as_os_str() == "-" {
            work.input()?;
        } else if path.is_dir() {
            for file in find_files(path, Language::is_candidate)? {
                work.file(&file, true)?;
            }
        } else {
            work.file(path, false)?;
        }
    }
    if !options.json {
        print_error(&format!("{}\n", work.tally.text(&options)));
    }
    Ok(work.tally.exit(&options))
}

#[derive(Debug, Default)]
struct Tally {
    changed: usize,
    unchanged: usize,
    /// Files with remaining errors.
    faulty: usize,
    failed: usize,
    busy: usize,
}

impl Tally {
    fn text(&self, options: &Options) -> String {
        let what = if options.write {
            options.done
        } else {
            options.would
        };
        let mut text = format!(
            "{} {what}, {} unchanged",
            counted(self.changed, "file"),
            self.unchanged
        );
        if self.faulty > 0 {
            text.push_str(&format!(", {} with errors", self.faulty));
        }
        if self.failed + self.busy > 0 {
            text.push_str(&format!(", {} failed", self.failed + self.busy));
        }
        text
    }

    fn exit(&self, options: &Options) -> Exit {
        if self.busy > 0 {
            Exit::Busy
        } else if self.failed > 0 {
            Exit::UserCorrectable
        } else if self.faulty > 0 || (self.changed > 0 && !options.write) {
            Exit::Findings
        } else {
            Exit::Done
        }
    }
}

struct Work<'m> {
    options: Options,
    make: &'m dyn Fn(&str) -> RewriteResult,
    tally: Tally,
}

impl Work<'_> {
    fn input(&mut self) -> Result<(), CliError> {
        let name = "<stdin>";
        let read = read_all(name, io::stdin().lock()).and_then(|bytes| into_text(name, bytes));
        let text = match read {
            Ok(text) => text,
            Err(error) => return self.fail(name, &source_failure(&error)),
        };
        let language = self
            .options
            .from
            .unwrap_or_else(|| Language::detect(None, text.as_bytes()));
        if language != Language::Chatmd {
            leave(name);
            if self.options.write && !self.options.json {
                return ignore_broken_pipe(print(&text)).map(drop);
            }
            return Ok(());
        }
        let made = self.made(language, &text);
        let passes = self.options.write && !self.options.json;
        if let Some(new) = made.text.as_ref().filter(|_| passes) {
            ignore_broken_pipe(print(new)).map(drop)?;
        }
        self.report(name, &text, &made, None)
    }

    fn file(&mut self, path: &Path, found: bool) -> Result<(), CliError> {
        let name = path.display().to_string();
        let bytes = match read_bytes(path) {
            Ok(bytes) => bytes,
            Err(error) => return self.fail(&name, &source_failure(&error)),
        };
        let language = self
            .options
            .from
            .unwrap_or_else(|| Language::detect(Some(path), &bytes));
        // A found file in another language, or prose in Markdown, was not meant.
        if found && (language != Language::Chatmd || Language::is_prose(path, &bytes)) {
            return Ok(());
        }
        if language != Language::Chatmd {
            leave(&name);
            return Ok(());
        }
        let text = match into_text(&name, bytes) {
            Ok(text) => text,
            Err(error) => return self.fail(&name, &source_failure(&error)),
        };
        let made = self.made(language, &text);
        let changes = made.text.as_ref().is_some_and(|new| *new != text);
        if !changes || !self.options.write {
            return self.report(&name, &text, &made, None);
        }
        match self.place(path, language) {
            Ok(Placed { old, made, copy }) => self.report(&name, &old, &made, copy.as_deref()),
            Err(failure) => self.fail(&name, &failure),
        }
    }

    fn made(&self, language: Language, text: &str) -> RewriteResult {
        if language == Language::Chatmd {
            return (self.make)(text);
        }
        RewriteResult::untouched(text)
    }

    /// Locks a file, rewrites its current text and replaces the file.
    fn place(&self, path: &Path, language: Language) -> Result<Placed, CliError> {
        let failed = |error: TranscriptError| place_failure(&error);
        let mut file = TranscriptFile::open(path, Duration::ZERO, || {}).map_err(failed)?;
        let name = path.display().to_string();
        let old =
            into_text(&name, file.content().to_vec()).map_err(|error| source_failure(&error))?;
        let made = self.made(language, &old);
        let mut copy = None;
        if let Some(new) = made.text.as_ref().filter(|new| **new != old) {
            if self.options.backup {
                copy = Some(file.keep_copy().map_err(failed)?.display().to_string());
            }
            file.replace(new.as_bytes()).map_err(failed)?;
        }
        Ok(Placed { old, made, copy })
    }

    fn fail(&mut self, name: &str, failure: &CliError) -> Result<(), CliError> {
        match failure.exit {
            Exit::Busy => self.tally.busy += 1,
            _ => self.tally.failed += 1,
        }
        if self.options.json {
            let object = json!({
                "file": name,
                "changed": false,
                "written": false,
                "error": {"code": failure.code, "message": failure.message, "help": failure.help},
            });
            return print_line(&object);
        }
        print_error(&failure.text());
        Ok(())
    }

    /// Reports the changes of a text and its remaining diagnostics.
    fn report(
        &mut self,
        name: &str,
        old: &str,
        made: &RewriteResult,
        copy: Option<&str>,
    ) -> Result<(), CliError> {
        let new = made.text.as_deref().filter(|new| *new != old);
        match new {
            Some(_) => self.tally.changed += 1,
            None if made.remaining.is_empty() => self.tally.unchanged += 1,
            None => {}
        }
        if !made.remaining.is_empty() {
            self.tally.faulty += 1;
        }
        let style = if self.options.json {
            logue_source::ColorMode::Plain
        } else {
            output_style()
        };
        let diff = new
            .filter(|_| self.options.diff)
            .map(|new| diff::unified(name, old, new, style));
        let source = Source::new(name, old.as_bytes());
        if self.options.json {
            let mut object = json!({
                "file": name,
                "changed": new.is_some(),
                "written": new.is_some() && self.options.write,
                "changes": made.changes.iter().map(|change| change_json(&source, change)).collect::<Vec<_>>(),
                "diagnostics": made.remaining.iter().map(|found| to_json(&source, found)).collect::<Vec<_>>(),
            });
            if let Some(copy) = copy {
                object["copy"] = copy.into();
            }
            if let Some(diff) = diff {
                object["diff"] = diff.into();
            }
            if name == "<stdin>" && self.options.write {
                object["text"] = new.or(made.text.as_deref()).into();
            }
            return print_line(&object);
        }
        let passes = name == "<stdin>" && self.options.write;
        let mut summary = String::new();
        for change in &made.changes {
            let place = source.place(change.span.start);
            summary.push_str(&format!(
                "{}: {}: {}\n",
                escape_line(&place),
                change.what,
                change.kind.reason()
            ));
        }
        if made.changes.is_empty() && new.is_some() {
            summary.push_str(&format!("{}\n", escape_line(source.name())));
        }
        if passes {
            print_error(&summary);
        } else if let Some(diff) = diff {
            ignore_broken_pipe(print_styled(&diff, style)).map(drop)?;
        } else {
            ignore_broken_pipe(print(&summary)).map(drop)?;
        }
        for finding in &made.remaining {
            print_error(&format!("{}\n", source.render(finding, report_style())));
        }
        Ok(())
    }
}

/// Reports that a text in another language stays unchanged.
fn leave(name: &str) {
    print_error(&format!(
        "note: {} stays unchanged: it is not ChatMD; convert it with `logue convert`\n",
        escape_line(name)
    ));
}

fn print_line(object: &Value) -> Result<(), CliError> {
    ignore_broken_pipe(print(&format!("{object}\n"))).map(drop)
}

/// A file that was rewritten under its lock.
struct Placed {
    old: String,
    made: RewriteResult,
    copy: Option<String>,
}

fn change_json(source: &Source<'_>, change: &chatmd::Change) -> Value {
    json!({
        "repair": change.kind.as_str(),
        "start": place_json(source, change.span.start),
        "end": place_json(source, change.span.end),
        "what": change.what,
        "why": change.kind.reason(),
    })
}

fn place_failure(error: &TranscriptError) -> CliError {
    let exit = match error {
        TranscriptError::Busy(_) => Exit::Busy,
        _ => Exit::UserCorrectable,
    };
    let help = match error {
        TranscriptError::Busy(_) => "wait until the other run has ended",
        _ => "the file is unchanged; pass its content on standard input with `-`",
    };
    CliError::new(exit, error.category(), error.to_string()).with_help(help)
}
