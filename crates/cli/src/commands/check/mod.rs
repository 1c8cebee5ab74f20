//! `logue check`: errors and warnings of prompts and transcripts.
//!
//! Files are read in sequence. The findings of each file are counted and reported immediately.
//! SARIF is one document, so it is written after the last file.

mod annotation;
mod calls;
mod files;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use logue_agent::{
    MAX_AGENT_CALLS, SourceError, builtin_schemas, into_text, read_all, read_bytes,
    unknown_builtins,
};
use logue_source::{Diagnostic, DiagnosticCode, Origin, Severity, Source, Span};
use openchatml::declare::CallSchemas;
use openchatml::project::{self, JsonFormat};
use openchatml::{harmony, v0_1};

use crate::finding::to_json;

use crate::arguments::{CheckArgs, DenyLevel, FindingFormat};
use crate::commands::check::annotation::annotation;
use crate::commands::check::calls::mismatched_calls;
use crate::commands::check::files::{
    AgentPrompt, agents_of, confined_reading, folders as read_folders, invalid_schema,
    unreadable_references,
};
use crate::conversion::chatmd::payloads::Payloads;
use crate::conversion::form::{DocumentForm, Form};
use crate::conversion::rows::read_rows;
use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::files::{file_world_with, find_files, folder_of};
use crate::language::Language;
use crate::progress::Progress;
use crate::sarif::Sarif;
use crate::setup::evaluation::base_of;
use crate::setup::settings::Settings;
use crate::terminal::{ignore_broken_pipe, print, print_error, report_style};

pub(crate) fn check(arguments: &CheckArgs) -> Result<Exit, CliError> {
    let files = files(arguments)?;
    let mut checker = Checker {
        arguments,
        format: arguments.format(),
        tally: Tally::default(),
        sarif: Sarif::default(),
        progress: Progress::bytes(size(&files), arguments.format() != FindingFormat::Human),
        seen: files.iter().filter_map(Input::canonical).collect(),
        agents: VecDeque::new(),
        builtins: builtin_schemas(),
        max_agent_depth: Settings::inspect()
            .map_or(MAX_AGENT_CALLS, |settings| settings.run.max_agent_depth),
        row: None,
    };
    let mut done = 0;
    for file in &files {
        checker.input(file)?;
        done += file.size().unwrap_or(0);
        checker.progress.set(done);
    }
    while let Some(agent) = checker.agents.pop_front() {
        checker.agent(&agent)?;
    }
    checker.end()
}

/// A file or standard input to check.
struct Input {
    /// `None`: standard input.
    path: Option<PathBuf>,
    /// Whether a directory search found the file; such Markdown may be prose to ignore.
    found: bool,
}

impl Input {
    /// Returns the size of the file; `None` for standard input.
    fn size(&self) -> Option<u64> {
        let found = std::fs::metadata(self.path.as_ref()?);
        Some(found.map_or(0, |found| found.len()))
    }

    /// Returns the path without links; `None` for standard input.
    fn canonical(&self) -> Option<PathBuf> {
        self.path.as_ref()?.canonicalize().ok()
    }
}

fn files(arguments: &CheckArgs) -> Result<Vec<Input>, CliError> {
    let mut files = Vec::new();
    for path in &arguments.paths {
        if path.is_dir() {
            let found = find_files(path, Language::is_candidate)?;
            files.extend(found.into_iter().map(|path| Input {
                path: Some(path),
                found: true,
            }));
        } else {
            files.push(Input {
                path: (path.as_os_str() != "-").then(|| path.clone()),
                found: false,
            });
        }
    }
    Ok(files)
}

/// Returns the size of all files; `None` with standard input.
fn size(files: &[Input]) -> Option<u64> {
    files.iter().map(Input::size).sum()
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
        write!(
            f,
            "{} checked: {}, {}",
            counted(self.files, "file"),
            counted(self.errors, "error"),
            counted(self.warnings, "warning")
        )
    }
}

/// Resolves `name` relative to the directory of `path`.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(name)
}

struct Checker<'a> {
    arguments: &'a CheckArgs,
    format: FindingFormat,
    tally: Tally,
    sarif: Sarif,
    progress: Progress,
    /// The canonical paths of the files and agents that are checked once.
    seen: BTreeSet<PathBuf>,
    /// Agents that the checked prompts name.
    agents: VecDeque<AgentPrompt>,
    /// The argument schemas of built-in tools.
    builtins: CallSchemas,
    /// The limit of nested agent calls in a run.
    max_agent_depth: usize,
    /// The row `{"text": …}` whose text is checked.
    row: Option<RowPlace>,
}

/// The place of a row in its file.
struct RowPlace {
    name: String,
    path: Option<PathBuf>,
    text: Vec<u8>,
    origin: Origin,
}

impl Checker<'_> {
    fn input(&mut self, input: &Input) -> Result<(), CliError> {
        let Some(path) = input.path.as_deref() else {
            let read = read_all("<stdin>", io::stdin().lock());
            return self.file("<stdin>", None, read);
        };
        let read = read_bytes(path);
        let prose = |bytes: &Vec<u8>| Language::is_prose(path, bytes);
        if input.found && read.as_ref().is_ok_and(prose) {
            return Ok(());
        }
        self.file(&path.display().to_string(), Some(path), read)
    }

    fn file(
        &mut self,
        name: &str,
        path: Option<&Path>,
        read: Result<Vec<u8>, SourceError>,
    ) -> Result<(), CliError> {
        self.tally.files += 1;
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => return self.unreadable(name, path, &error),
        };
        let form = match self.arguments.from {
            Some(form) => Ok(form.document()),
            None => Form::of_document(path, &bytes),
        };
        let language = match form {
            Ok(DocumentForm::Language(language)) => language,
            Ok(DocumentForm::Json(_)) | Err(_) => {
                let format = self.arguments.from.and_then(Form::json);
                return self.json(name, path, &bytes, format);
            }
        };
        self.document(name, path, bytes, language)
    }

    /// Checks a text in a language.
    fn document(
        &mut self,
        name: &str,
        path: Option<&Path>,
        bytes: Vec<u8>,
        language: Language,
    ) -> Result<(), CliError> {
        match language {
            Language::Openchatml => {
                let document = openchatml::parse(&bytes);
                let mut found = openchatml::check_with(&document, &self.builtins);
                found.extend(unknown_builtins(&document));
                found.sort_by_key(|finding| finding.primary.start);
                self.report(name, path, &bytes, &found)
            }
            Language::Harmony | Language::Ocml0_1 | Language::Chatml => {
                let options = openchatml::convert::ConvertOptions::default();
                let read = openchatml::convert::read(&bytes, language.dialect(), &options);
                let mut found = read.diagnostics;
                if language == Language::Harmony {
                    let options = harmony::HarmonyReadOptions::default();
                    let document = harmony::read(&bytes, &options);
                    found.extend(harmony::check(&document, &[]));
                }
                if language == Language::Ocml0_1 {
                    let options = v0_1::LegacyReadOptions::default();
                    found.extend(v0_1::check(&v0_1::parse(&bytes, &options)));
                }
                found.sort_by_key(|finding| finding.primary.start);
                self.report(name, path, &bytes, &found)
            }
            Language::Chatmd => match into_text(name, bytes) {
                Ok(text) => self.chatmd(name, path, &text, None),
                // The file was read, so text that is not UTF-8 is a finding.
                Err(error) => {
                    let found = std::slice::from_ref(&*error.diagnostic);
                    self.report(name, path, &error.text, found)
                }
            },
        }
    }

    /// Checks every row of a JSON text, in the form of its keys by default.
    fn json(
        &mut self,
        name: &str,
        path: Option<&Path>,
        text: &[u8],
        format: Option<JsonFormat>,
    ) -> Result<(), CliError> {
        for row in read_rows(name, text, format) {
            self.progress.advance(row.text.len() as u64);
            if let Some(inner) = row.inner {
                let outer = self.row.take();
                let (text, origin) = (row.text.to_vec(), row.origin);
                self.row = Some(outer.unwrap_or_else(|| RowPlace {
                    name: name.to_owned(),
                    path: path.map(Path::to_owned),
                    text,
                    origin,
                }));
                self.text_of_row(&format!("{name}:{}", origin.line), inner.into_bytes())?;
                self.row = None;
                continue;
            }
            let source = Source::fragment(name, row.text, row.origin);
            let mut reported: Vec<Diagnostic> = Vec::new();
            for read in row.conversations {
                let checked = project::check_with(row.text, &read.transcript, &self.builtins);
                for found in read.diagnostics.into_iter().chain(checked) {
                    // Both conversations of a pair have the settings of their row.
                    if !reported.contains(&found) {
                        self.report_one(path, &source, &found)?;
                        reported.push(found);
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the text of a row `{"text": …}`, in the form that its content indicates.
    fn text_of_row(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), CliError> {
        match Form::of_document(None, &bytes) {
            Ok(DocumentForm::Language(language)) => self.document(name, None, bytes, language),
            Ok(DocumentForm::Json(_)) | Err(_) => self.json(name, None, &bytes, None),
        }
    }

    /// Checks the prompt of an agent.
    fn agent(&mut self, agent: &AgentPrompt) -> Result<(), CliError> {
        self.tally.files += 1;
        let (name, path) = (agent.path.display().to_string(), Some(agent.path.as_path()));
        let read = read_bytes(&agent.path).and_then(|bytes| into_text(&name, bytes));
        match read {
            Ok(text) => self.chatmd(&name, path, &text, Some(agent)),
            Err(error) => self.unreadable(&name, path, &error),
        }
    }

    /// Checks a ChatMD text, possibly of an agent, and the files that it references.
    ///
    /// Agents are checked later, each once. Text from standard input has no directory to resolve
    /// relative paths against, so its files are not checked.
    fn chatmd(
        &mut self,
        name: &str,
        path: Option<&Path>,
        text: &str,
        agent: Option<&AgentPrompt>,
    ) -> Result<(), CliError> {
        let callers = agent.map_or(&[][..], |agent| &agent.callers);
        let base = path.and_then(|path| base_of(path, text, Language::Chatmd));
        let base = base.as_deref().or(path);
        let world = base
            .filter(|_| !self.arguments.no_file_checks)
            .and_then(|path| file_world_with(path, callers).ok());
        let (Some(mut world), Some(path), Some(base)) = (world, path, base) else {
            let mut found = chatmd::check(text);
            let (document, _) = chatmd::check_tree(&chatmd::parse(text));
            let parts = [chatmd::SourcePart::new(name, text)];
            found.extend(mismatched_calls(&document, &parts, &[]));
            found.sort_by_key(|finding| finding.primary.start);
            return self.report(name, path, text.as_bytes(), &found);
        };
        let loaded = chatmd::load(name, text, &mut world);
        let mut found = loaded.check();
        for finding in &mut found {
            if finding.code == DiagnosticCode::MdDocumentUnreadable {
                finding.code = DiagnosticCode::MissingFile;
            }
        }
        // Payloads are beside the transcript.
        let payloads = (base != path).then(|| folder_of(path));
        let folders: Vec<PathBuf> = callers.iter().cloned().chain(payloads).collect();
        found.extend(unreadable_references(loaded.document(), base, &folders));
        found.extend(Payloads::beside(Some(&folder_of(path))).changed(loaded.document()));
        found.extend(mismatched_calls(
            loaded.document(),
            loaded.parts(),
            &read_folders(base, &folders),
        ));
        let reading = confined_reading(loaded.document(), base, agent);
        let reading = reading.unwrap_or_else(|refused| {
            found.push(*refused);
            Vec::new()
        });
        found.extend(invalid_schema(loaded.document(), base, callers));
        let chain = agent.map_or(&[][..], |agent| &agent.chain);
        let depth = self.max_agent_depth;
        let (agents, refused) = agents_of(loaded.document(), base, callers, chain, &reading, depth);
        found.extend(refused);
        for agent in agents {
            let real = agent.path.canonicalize();
            if real.is_ok_and(|real| self.seen.insert(real)) {
                self.agents.push_back(agent);
            }
        }
        found.sort_by_key(|finding| finding.primary.start);
        let map = loaded.source_map();
        found.iter().try_for_each(|finding| {
            let Some((source, local)) = map.resolve(finding) else {
                return Ok(());
            };
            // A report on an imported file names that file, relative to the directory of the
            // prompt.
            let of_import = (source.name() != name).then(|| beside(base, source.name()));
            self.report_one(of_import.as_deref().or(Some(path)), source, &local)
        })
    }

    fn unreadable(
        &mut self,
        name: &str,
        path: Option<&Path>,
        error: &SourceError,
    ) -> Result<(), CliError> {
        self.tally.unreadable += 1;
        let found = std::slice::from_ref(&*error.diagnostic);
        self.report(name, path, &error.text, found)
    }

    fn report(
        &mut self,
        name: &str,
        path: Option<&Path>,
        text: &[u8],
        found: &[Diagnostic],
    ) -> Result<(), CliError> {
        if found.is_empty() {
            return Ok(());
        }
        let source = Source::new(name, text);
        found
            .iter()
            .try_for_each(|diagnostic| self.report_one(path, &source, diagnostic))
    }

    fn report_one(
        &mut self,
        path: Option<&Path>,
        source: &Source<'_>,
        diagnostic: &Diagnostic,
    ) -> Result<(), CliError> {
        match diagnostic.severity {
            Severity::Error => self.tally.errors += 1,
            Severity::Warning => self.tally.warnings += 1,
            Severity::Note => {}
        }
        // Only a person reads places in a text within a row.
        let mut in_row = None;
        if let (Some(row), false) = (&self.row, self.format == FindingFormat::Human) {
            let mut finding = diagnostic.clone();
            finding.primary = Span::new(0, row.text.len());
            finding.labels.clear();
            in_row = Some((Source::fragment(&row.name, &row.text, row.origin), finding));
        }
        let path = self.row.as_ref().map_or(path, |row| row.path.as_deref());
        let (source, diagnostic) = in_row
            .as_ref()
            .map_or((source, diagnostic), |(source, finding)| (source, finding));
        let line = match self.format {
            FindingFormat::Human => {
                let report = format!("{}\n", source.render(diagnostic, report_style()));
                print_error(&report);
                return Ok(());
            }
            FindingFormat::Sarif => {
                self.sarif.add(path, source, diagnostic);
                return Ok(());
            }
            FindingFormat::Json => format!("{}\n", to_json(source, diagnostic)),
            FindingFormat::Github => format!("{}\n", annotation(source, diagnostic)),
        };
        ignore_broken_pipe(print(&line)).map(drop)
    }

    fn end(self) -> Result<Exit, CliError> {
        drop(self.progress);
        match self.format {
            FindingFormat::Human if self.tally.files == 0 => {
                print_error("no prompts or transcripts found\n");
            }
            FindingFormat::Human => print_error(&format!("{}\n", self.tally)),
            FindingFormat::Sarif => {
                let log = self.sarif.log(self.tally.unreadable == 0);
                ignore_broken_pipe(print(&format!("{log:#}\n"))).map(drop)?;
            }
            FindingFormat::Json | FindingFormat::Github => {}
        }
        let denied = match self.arguments.deny {
            Some(DenyLevel::Warnings) => self.tally.errors + self.tally.warnings,
            None => self.tally.errors,
        };
        Ok(if self.tally.unreadable > 0 {
            Exit::UserCorrectable
        } else if denied > 0 {
            Exit::Findings
        } else {
            Exit::Done
        })
    }
}
