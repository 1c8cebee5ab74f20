//! `logue data mask`: renders each row to token ids and a loss mask.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use logue_data::mask::{MaskedRun, Masker, write_masked};
use logue_data::{
    ChatTemplate, HfTokenizer, Inputs, O200k, Refusal, Row, TemplateDate, TemplateOptions,
    Tokenizer,
};
use logue_source::{ColorMode, escape_untrusted};

use crate::arguments::{DataFileArgs, DataMaskArgs, MaskTarget};
use crate::commands::data::report::Refused;
use crate::commands::data::run::{failure, input_names, run};
use crate::exit::{CliError, Exit};
use crate::terminal::{ignore_broken_pipe, output_style, print_styled};

pub(crate) fn mask(arguments: &DataMaskArgs) -> Result<Exit, CliError> {
    let tokenizer = tokenizer(&arguments.tokenizer)?;
    let options = arguments.options();
    let (template, source) = template(arguments)?;
    let masker = |tokenizer| {
        let masker = Masker::new(options.clone(), tokenizer);
        match &template {
            Some(template) => masker.with_template(Arc::clone(template)),
            None => masker,
        }
    };
    let first = masker(tokenizer.duplicate());
    let checked = first.check_tokenizer();
    checked.map_err(|refusal| refused(&refusal))?;
    if let Some(number) = arguments.show {
        let mut masker = first;
        return show(&arguments.files, number, &mut masker);
    }
    let columns = arguments.output_columns();
    let command = format!(
        "mask {options:?} {columns:?} {} {source}",
        arguments.tokenizer
    );
    // Each thread takes a masker for a row and puts it back, so that there is one for each thread.
    let maskers: Mutex<Vec<Masker>> = Mutex::new(Vec::new());
    let tokenizer = Mutex::new(tokenizer);
    let taken = || {
        let free = maskers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| {
            let tokenizer = tokenizer.lock().unwrap_or_else(PoisonError::into_inner);
            masker(tokenizer.duplicate())
        })
    };
    let tally = run(&arguments.files, command, |row, output| {
        let mut masker = taken();
        let masked = masker.mask(row.bytes);
        let done = masked.map(|masked| write_masked(masked, columns, output.bytes));
        let mut free = maskers.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(masker);
        done
    })?;
    Ok(if tally.refusals() > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}

/// Compiles the chat template; returns what determines its output as text, too.
fn template(arguments: &DataMaskArgs) -> Result<(Option<Arc<ChatTemplate>>, String), CliError> {
    let (Some(path), MaskTarget::Template) = (&arguments.template, arguments.to) else {
        return match arguments.template {
            None => Ok((None, String::new())),
            Some(_) => Err(usage(
                "--template requires --to template",
                "add --to template",
            )),
        };
    };
    if arguments.roles.iter().any(|role| role != "assistant") {
        let help = "leave out --roles: a template marks the text of the assistant only";
        return Err(usage("--to template trains the role assistant", help));
    }
    if !arguments.has_default_reasoning() {
        let help = "leave out --reasoning: set a variable of the template with --variable";
        return Err(usage(
            "a template chooses the reasoning that it renders",
            help,
        ));
    }
    let mut options = TemplateOptions::default();
    if let Some(path) = &arguments.tokenizer_config {
        let set = options.set_special_tokens(&read(path)?);
        set.map_err(|refusal| refused(&refusal))?;
    }
    for variable in &arguments.variable {
        let (name, json) = variable.split_once('=').ok_or_else(|| {
            let message = format!("invalid variable `{variable}`");
            usage(&message, "write --variable NAME=JSON")
        })?;
        let set = options.set(name, json);
        set.map_err(|refusal| refused(&refusal))?;
    }
    if let Some(date) = &arguments.date {
        let parsed = TemplateDate::parse(date);
        options.date = Some(parsed.ok_or_else(|| {
            let message = format!("invalid date `{date}`");
            usage(&message, "write --date YYYY-MM-DD")
        })?);
    }
    options.stops.clone_from(&arguments.stop_token);
    options.allow_dropped = arguments.allow_dropped;
    let source = read(path)?;
    let key = format!("{options:?} {source}");
    let template = ChatTemplate::new(&source, options).map_err(|refusal| refused(&refusal))?;
    Ok((Some(Arc::new(template)), key))
}

fn usage(message: &str, help: &str) -> CliError {
    CliError::new(Exit::Usage, "usage", message.to_owned()).with_help(help)
}

fn read(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read `{}`: {error}", path.display());
        CliError::user("E-SOURCE-READ", message)
    })
}

/// Returns the error of a file that is refused before the first row.
fn refused(refusal: &Refusal) -> CliError {
    let finding = &refusal.finding;
    let failure = CliError::user(finding.code.as_str(), finding.message.clone());
    match finding.help.first() {
        Some(help) => failure.with_help(help.clone()),
        None => failure,
    }
}

/// Loads a tokenizer by its name or file.
fn tokenizer(name: &str) -> Result<Box<dyn Tokenizer>, CliError> {
    if name == "o200k" {
        return Ok(Box::new(O200k::new()));
    }
    let tokenizer = HfTokenizer::load(Path::new(name)).map_err(|refusal| refused(&refusal))?;
    Ok(Box::new(tokenizer))
}

/// Prints the mask of one row.
fn show(files: &DataFileArgs, number: NonZeroUsize, masker: &mut Masker) -> Result<Exit, CliError> {
    let names = input_names(files);
    let mut inputs = Inputs::new(names.clone(), None);
    let mut rows = 0;
    while let Some(batch) = inputs.batch() {
        let batch = batch.map_err(|error| failure(&error))?;
        let before = rows;
        rows += batch.rows().len();
        let Some(row) = batch.rows().nth(number.get() - 1 - before) else {
            continue;
        };
        return match shown(row, number, masker) {
            Ok(text) => ignore_broken_pipe(print_styled(&text, output_style())).map(|_| Exit::Done),
            Err(refusal) => {
                Refused::default().print(&names, row, &refusal);
                Ok(Exit::Findings)
            }
        };
    }
    let message = format!("row {number} not found: the input has {rows} rows");
    Err(CliError::new(Exit::Usage, "usage", message).with_help("name a smaller row with --show"))
}

/// Returns the mask of a row for people.
///
/// Each line has the class of its tokens; trained ones are marked by `+`, and green on terminals.
fn shown(row: Row<'_>, number: NonZeroUsize, masker: &mut Masker) -> Result<String, Refusal> {
    let masked = masker.mask(row.bytes)?;
    let trained = masked.trained.iter().filter(|trained| **trained).count();
    let style = output_style();
    let mut out = format!(
        "row {number}: {} tokens, {trained} trained\n",
        masked.ids.len()
    );
    for MaskedRun {
        text,
        class,
        trained,
        ..
    } in masked.runs()
    {
        let mut label = class.map_or("", |class| class.as_str());
        let (on, off) = match (trained, style) {
            (true, ColorMode::Ansi) => ("\x1b[32m", "\x1b[0m"),
            _ => ("", ""),
        };
        let mark = if trained { '+' } else { ' ' };
        for line in text.split_inclusive('\n') {
            let end = if line.ends_with('\n') { "⏎" } else { "" };
            let line = escape_untrusted(line.trim_end_matches('\n'));
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{on}{mark} {label:<10} {line}{end}{off}");
            label = "";
        }
    }
    Ok(out)
}
