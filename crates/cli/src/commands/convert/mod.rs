//! `logue convert`: converts conversations from one form to another.
//!
//! ```text
//! file, directory, standard input ─▶ texts or lines ─▶ read ─▶ write ─▶ file or standard output
//! ```
//!
//! A file of JSON lines is converted one line at a time, so its size is unlimited. Any other input
//! is one text. In lines and arrays of conversations, a textual form is written as `{"text": …}`,
//! the convention of data sets.

mod batch;
mod report;
mod sink;
mod source;
mod temporary;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{EvaluationRecord, FileLoader, VariableValues};
use logue_data::in_order;
use logue_source::{Origin, Source, Span, escape_line};
use logue_tools::Roots;
use openchatml::project::{self, JsonFormat};

use crate::conversion::chatmd::{self, Expansion, Filling};
use crate::conversion::form::{Form, looks_like_json};

use crate::arguments::ConvertArgs;
use crate::commands::convert::batch::ConvertedBatch;
use crate::commands::convert::report::{ConversationRef, Report};
use crate::commands::convert::sink::Sink;
use crate::commands::convert::source::{Input, Lines};
use crate::conversion::form::Conversation;
use crate::conversion::rows;
use crate::conversion::writer::Writer;
use crate::exit::{CliError, Exit};
use crate::files::{empty_file, find_files, folder_of};
use crate::language::Language;
use crate::progress::Progress;
use crate::setup::evaluation::{base_of, record_key};
use crate::setup::variables::variables;
use crate::terminal::print_error;

pub(crate) fn convert(arguments: &ConvertArgs) -> Result<Exit, CliError> {
    let (jobs, several) = jobs(arguments)?;
    let mut converter = Converter {
        arguments,
        writer: Writer::new(
            arguments.from,
            arguments.to,
            &arguments.losses,
            arguments.keep_reasoning,
        ),
        variables: variables(&arguments.variables)?,
        declared: BTreeSet::new(),
        has_more: several,
        report: Report::new(arguments, several),
    };
    let mut failed = false;
    {
        let progress = several.then(|| Progress::items(jobs.len() as u64, arguments.json));
        for job in &jobs {
            match converter.job(job) {
                Ok(()) => {}
                Err(failure) if several => {
                    // A failing file must not prevent the conversion of the others.
                    crate::terminal::report(&failure);
                    failed = true;
                }
                Err(failure) => return Err(failure),
            }
            if let Some(progress) = &progress {
                progress.advance(1);
            }
        }
    }
    converter.report.finish()?;
    converter.has_more = false;
    converter.require_declared()?;
    Ok(if failed {
        Exit::UserCorrectable
    } else {
        converter.report.exit()
    })
}

/// One input and its destination.
struct Job {
    /// `None`: standard input.
    input: Option<PathBuf>,
    /// `None`: standard output.
    output: Option<PathBuf>,
    /// Whether a directory search found the file, which may then not be a conversation.
    found: bool,
}

/// Returns the jobs, and whether they cover several files.
fn jobs(arguments: &ConvertArgs) -> Result<(Vec<Job>, bool), CliError> {
    let inputs = match arguments.inputs.as_slice() {
        [] => &[PathBuf::from("-")][..],
        inputs => inputs,
    };
    let output = arguments.output.as_deref();
    let folder = inputs.iter().any(|input| input.is_dir());
    let several = folder || inputs.len() > 1;
    if !several && !output.is_some_and(Path::is_dir) {
        let job = Job {
            input: named(&inputs[0]),
            output: output.map(Path::to_owned),
            found: false,
        };
        return Ok((vec![job], false));
    }
    let Some(output) = output else {
        return Err(
            usage("several files require an output directory").with_help("name one with -o DIR")
        );
    };
    let mut jobs = Vec::new();
    let mut taken = BTreeSet::new();
    let mut add = |input: PathBuf, below: &Path, found: bool| {
        let lines = below
            .extension()
            .is_some_and(|ending| ending == "jsonl" || ending == "ndjson");
        let ending = if lines {
            "jsonl"
        } else {
            arguments.to.ending()
        };
        let target = output.join(below).with_extension(ending);
        if !taken.insert(target.clone()) {
            let message = format!(
                "two inputs have the same output file `{}`",
                target.display()
            );
            return Err(usage(message).with_help("convert them one by one"));
        }
        jobs.push(Job {
            input: Some(input),
            output: Some(target),
            found,
        });
        Ok(())
    };
    for input in inputs {
        if input.as_os_str() == "-" {
            return Err(usage("cannot name the output file of standard input")
                .with_help("convert it alone, with -o FILE"));
        }
        if input.is_dir() {
            for file in find_files(input, is_candidate)? {
                let below = file.strip_prefix(input).unwrap_or(&file).to_owned();
                add(file, &below, true)?;
            }
        } else {
            let name = input.file_name().unwrap_or_default().to_owned();
            add(input.clone(), Path::new(&name), false)?;
        }
    }
    if jobs.is_empty() {
        return Err(
            usage("the directories contain no file with the extension of a conversation")
                .with_help(
                    "names end in .ocml, .chatml, .harmony, .chatmd, .md, .json, .jsonl or .txt; \
                 name other files themselves",
                ),
        );
    }
    Ok((jobs, true))
}

fn usage(message: impl Into<String>) -> CliError {
    CliError::new(Exit::Usage, "usage", message)
}

fn named(path: &Path) -> Option<PathBuf> {
    (path.as_os_str() != "-").then(|| path.to_owned())
}

/// Returns whether the extension of a file permits conversations.
fn is_candidate(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    Language::is_candidate(path) || matches!(ending, Some("json" | "jsonl" | "ndjson" | "txt"))
}

struct Converter<'a> {
    arguments: &'a ConvertArgs,
    writer: Writer,
    variables: VariableValues,
    /// The variables that the documents so far declare.
    declared: BTreeSet<String>,
    /// Whether further documents may declare variables.
    has_more: bool,
    report: Report,
}

impl Converter<'_> {
    fn job(&mut self, job: &Job) -> Result<(), CliError> {
        let path = job.input.as_deref();
        let name = path.map_or("<stdin>".to_owned(), |path| path.display().to_string());
        let input = source::open(&name, path, self.arguments.jsonl)?;
        let bytes = match input {
            Input::Lines(lines) => {
                self.require_declared()?;
                return self.lines(&name, lines, job);
            }
            Input::Whole(bytes) => bytes,
        };
        let form = match self.arguments.from {
            Some(form) => Some((form, true)),
            None => Form::detect(path, &bytes),
        };
        let json = looks_like_json(&bytes);
        let (form, certain) = match form {
            Some(form) => form,
            None if job.found => {
                if json {
                    let name = escape_line(&name);
                    print_error(&format!("{name}: skipped, not a conversation\n"));
                }
                return Ok(());
            }
            None if json => match rows::recognize(&bytes) {
                // Reading it as a projection reports the errors in it.
                Ok(format) => (Form::Projection(format), false),
                Err(shape) => {
                    let which = ConversationRef::of_file(&name, &bytes);
                    return self.one(which, rows::unknown(&shape), false).map(drop);
                }
            },
            None if bytes.trim_ascii().is_empty() => return Err(empty_file(&name)),
            None => return Err(unknown(&name)),
        };
        if let Form::Projection(_) = form
            && let Ok(parts) = project::conversations(&bytes)
            && (parts.len() > 1
                || parts.first().is_some_and(|part| part.start > 0)
                || form == Form::Projection(JsonFormat::Preference))
        {
            self.require_declared()?;
            return self.array(&name, &bytes, &parts, form, job);
        }
        let folder = path.map(|path| path.parent().unwrap_or(Path::new("")));
        let read = match form {
            Form::Chatmd | Form::Text => {
                let expansion = self.expansion(path, &bytes)?;
                let filling = Filling {
                    values: &self.variables,
                    is_for_chatmd: self.arguments.to == Form::Chatmd,
                };
                chatmd::read_with(&bytes, certain, folder, filling, expansion)
            }
            _ => form.read(&bytes, certain, folder, &self.writer.options),
        };
        self.declare(&read)?;
        let which = ConversationRef::of_file(&name, &bytes);
        let shown = job.output.is_none() && self.arguments.json;
        if let Some(text) = self.one(which, read, shown)? {
            let mut sink = self.sink(job)?;
            sink.write(&text)?;
            sink.finish()?;
        }
        Ok(())
    }

    /// Notes the variables of a document; refuses others if it is the only one.
    fn declare(&mut self, read: &Conversation) -> Result<(), CliError> {
        if read.broken {
            return Ok(());
        }
        self.declared
            .extend(read.variables.declared.iter().cloned());
        self.require_declared()
    }

    /// Refuses a variable that no document declares, once all documents are known.
    fn require_declared(&self) -> Result<(), CliError> {
        match self.variables.undeclared(&self.declared) {
            Some(name) if !self.has_more => {
                let message = format!("no document declares the variable `{name}`");
                Err(usage(message).with_help(format!(
                    "remove --var {name}=…, or declare it: `<var name=\"{name}\"/>`"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the files that references of a document may name, if they are expanded.
    fn expansion(&self, path: Option<&Path>, bytes: &[u8]) -> Result<Option<Expansion>, CliError> {
        if !self.arguments.expansion.expand {
            return Ok(None);
        }
        let real = path.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        let folder = real.as_deref().map_or_else(|| ".".into(), folder_of);
        let text = String::from_utf8_lossy(bytes);
        let base = path.and_then(|path| base_of(path, &text, Language::Chatmd));
        let base = base.as_deref().or(path);
        let folders = [base.map_or_else(|| ".".into(), folder_of)];
        let roots = Roots::new(
            folders
                .into_iter()
                .chain(self.arguments.expansion.roots.clone()),
        );
        let roots = roots.map_err(|error| CliError::user("E-SOURCE-READ", error.to_string()))?;
        let mut files = FileLoader::new(Arc::new(roots), &folder);
        if let Some(base) = base {
            files = files.with_file(base);
        }
        let record = real.as_deref().zip(record_key());
        let record = record.map(|(path, key)| EvaluationRecord::beside(path, key));
        Ok(Some(Expansion { files, record }))
    }

    fn sink(&self, job: &Job) -> Result<Sink, CliError> {
        match &job.output {
            Some(path) => Sink::file(path),
            None if self.arguments.json => Ok(Sink::Report),
            // A refused line also discards the lines before it, so they are held back.
            None if self.report.policy.strict.is_some() => Sink::held(),
            None => Ok(Sink::Stdout { closed: false }),
        }
    }

    /// Writes one conversation as text and reports on it.
    ///
    /// Returns `None` if the conversation is refused.
    fn one(
        &mut self,
        which: ConversationRef<'_>,
        read: Conversation,
        shown: bool,
    ) -> Result<Option<String>, CliError> {
        let converted = self.writer.write(read);
        self.report.add(which, &converted, shown)?;
        Ok(converted.text.ok())
    }

    /// Converts JSON lines; a refused line ends the conversion only with `--strict`.
    ///
    /// Batches of lines are converted in several threads; reports and output have their order.
    fn lines(&mut self, name: &str, mut lines: Lines, job: &Job) -> Result<(), CliError> {
        let mut sink = self.sink(job)?;
        let is_report = sink.is_report();
        let writer = self.writer.for_lines(is_report);
        let size = lines.size();
        // Of several files, those that are done are shown.
        let is_on_screen = job.output.is_none() && io::stdout().is_terminal();
        let is_hidden = self.arguments.json || self.has_more || is_on_screen;
        let progress = Progress::bytes(size, is_hidden);
        let threads = self.threads();
        let mut is_complete = true;
        let take = |batch: ConvertedBatch| {
            progress.advance(batch.lines.text.len() as u64);
            let flow = self.batch(name, &batch, &mut sink)?;
            is_complete = flow.is_continue();
            match batch.lines.failure {
                Some(failure) if is_complete => Err(failure),
                _ => Ok(flow),
            }
        };
        in_order(
            threads,
            move || lines.batch(),
            |batch| batch::convert(&writer, batch, is_report),
            take,
        )?;
        drop(progress);
        if is_complete {
            sink.finish()?;
        }
        Ok(())
    }

    /// Reports on a batch of lines and writes their text.
    ///
    /// Ends at the first refused line with `--strict`, and if the output was closed.
    fn batch(
        &mut self,
        name: &str,
        batch: &ConvertedBatch,
        sink: &mut Sink,
    ) -> Result<ControlFlow<()>, CliError> {
        let places = batch.lines.lines.iter();
        let (mut end, mut flow) = (0, ControlFlow::Continue(()));
        'lines: for ((range, start), of_batch) in places.zip(&batch.converted) {
            let line = &of_batch.line;
            let of_line = batch.lines.text.get(range.clone()).unwrap_or_default();
            let which = ConversationRef {
                name,
                // Positions in a text within a line are not positions in the file.
                text: line.inner.as_deref().map_or(of_line, str::as_bytes),
                start: *start,
                one_of_many: true,
            };
            for converted in &line.conversations {
                self.report.add(which, converted, sink.is_report())?;
                if converted.text.is_err() && self.report.policy.strict.is_some() {
                    flow = ControlFlow::Break(());
                    break 'lines;
                }
            }
            end = of_batch.end;
        }
        sink.write(batch.text.get(..end).unwrap_or_default())?;
        Ok(if sink.is_closed() {
            ControlFlow::Break(())
        } else {
            flow
        })
    }

    /// Returns the number of threads that convert JSON lines.
    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.arguments.jobs.map_or_else(all, NonZeroUsize::get)
    }

    /// Converts a JSON array of conversations into another array.
    fn array(
        &mut self,
        name: &str,
        bytes: &[u8],
        parts: &[Span],
        form: Form,
        job: &Job,
    ) -> Result<(), CliError> {
        let mut sink = self.sink(job)?;
        let writer = self.writer.for_lines(sink.is_report());
        let places = Source::new(name, bytes);
        let mut before = "[\n";
        for part in parts {
            let place = places.line_column(part.start);
            let which = ConversationRef {
                name,
                text: part.bytes(bytes),
                start: Origin {
                    offset: part.start,
                    line: place.line,
                    column: place.column,
                },
                one_of_many: true,
            };
            for read in form.read_all(which.text, true, None, &writer.options) {
                let converted = writer.write(read);
                self.report.add(which, &converted, sink.is_report())?;
                match converted.text {
                    Ok(text) => {
                        sink.write(before)?;
                        sink.write(text.trim_end())?;
                        before = ",\n";
                    }
                    Err(_) if self.report.policy.strict.is_some() => return Ok(()),
                    Err(_) => {}
                }
            }
        }
        sink.write(if before == "[\n" { "[]\n" } else { "\n]\n" })?;
        sink.finish()
    }
}

fn unknown(name: &str) -> CliError {
    CliError::user("usage", format!("unknown form of `{name}`")).with_help("name it with --from")
}
