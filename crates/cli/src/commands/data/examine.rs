//! The examination of all rows in several threads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use logue_data::examine::{Examined, Measures, examine};
use logue_data::{FieldPath, HfTokenizer, Inputs, O200k, Place, Row, Tally, Tokenizer, read_rows};
use logue_source::{Diagnostic, Severity};
use serde::Serialize;

use crate::arguments::DataExamineArgs;
use crate::commands::data::run::{failure, threads};
use crate::conversion::form::Form;
use crate::exit::{CliError, Exit};
use crate::progress::Progress;

/// The most groups that are reported apart.
const MAX_GROUPS: usize = 1_000;

/// The result of all rows.
#[derive(Default)]
pub(super) struct Examination {
    pub(super) names: Vec<PathBuf>,
    /// The counts of findings by code; errors are refusals.
    pub(super) tally: Tally,
    pub(super) measures: Measures,
    /// The rows whose text an earlier row has.
    pub(super) duplicates: u64,
    /// The rows of each value of a member.
    pub(super) groups: BTreeMap<String, Group>,
}

/// The rows with one value of a member.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Group {
    pub(super) rows: u64,
    /// The rows with an error.
    pub(super) rows_with_errors: u64,
    pub(super) rows_with_warnings: u64,
    pub(super) tokens: u64,
    /// The findings by code.
    pub(super) findings: BTreeMap<&'static str, u64>,
}

/// The result of a row, with its bytes if it has findings.
struct OfRow {
    examined: Examined,
    bytes: Vec<u8>,
    group: Option<String>,
}

/// Examines every row; `found` receives the findings in the order of the rows.
pub(super) fn examine_all(
    arguments: &DataExamineArgs,
    mut found: impl FnMut(&[PathBuf], Row<'_>, &Diagnostic),
) -> Result<Examination, CliError> {
    let form = match arguments.from {
        None => None,
        Some(Form::Projection(form)) => Some(form),
        Some(other) => {
            let message = format!("`{}` is not a form of rows", other.as_str());
            return Err(CliError::new(Exit::Usage, "usage", message)
                .with_help("name a JSON form, such as openai or sharegpt"));
        }
    };
    let names = if arguments.inputs.is_empty() {
        vec!["-".into()]
    } else {
        arguments.inputs.clone()
    };
    let field = arguments.by.clone().map(FieldPath::new);
    let first = tokenizer(arguments)?;
    let tokenizers = Mutex::new(vec![first]);
    let inputs = Inputs::new(names.clone(), None);
    let progress = Progress::bytes(inputs.size(), arguments.json);
    let read = inputs.bytes_read();
    let mut result = Examination {
        names,
        ..Examination::default()
    };
    let mut texts: Vec<u64> = Vec::new();
    let work = |row: Row<'_>| {
        let mut tokenizer = borrowed(&tokenizers);
        let examined = examine(row.bytes, form, &mut *tokenizer);
        tokenizers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(tokenizer);
        let bytes = if examined.findings.is_empty() {
            Vec::new()
        } else {
            row.bytes.to_vec()
        };
        let group = field.as_ref().map(|field| group_of(field, row.bytes));
        Ok(OfRow {
            examined,
            bytes,
            group,
        })
    };
    let take = |place: Place, row: Result<OfRow, logue_data::Refusal>| {
        result.tally.rows += 1;
        progress.set(read.load(Ordering::Relaxed));
        let row = match row {
            Ok(row) => row,
            Err(refusal) => OfRow {
                examined: Examined {
                    findings: vec![*refusal.finding],
                    ..Examined::default()
                },
                bytes: Vec::new(),
                group: None,
            },
        };
        let of_findings = Row {
            bytes: &row.bytes,
            place,
        };
        for finding in &row.examined.findings {
            found(&result.names, of_findings, finding);
        }
        texts.extend(row.examined.text);
        result.add(place, &row);
        Ok(())
    };
    read_rows(inputs, threads(arguments.jobs), work, take).map_err(|error| failure(&error))?;
    drop(progress);
    result.duplicates = repeated(&mut texts);
    Ok(result)
}

impl Examination {
    fn add(&mut self, place: Place, row: &OfRow) {
        let mut by_code: BTreeMap<&'static str, (Severity, u64, &str)> = BTreeMap::new();
        for finding in &row.examined.findings {
            let code = finding.code.as_str();
            let entry = by_code.entry(code);
            entry.or_insert((finding.severity, 0, &finding.message)).1 += 1;
        }
        for (code, (severity, times, message)) in &by_code {
            if *severity == Severity::Error {
                self.tally.refuse(code, place, || (*message).to_owned());
            } else {
                let text = || (*message).to_owned();
                self.tally.find(code, *times, place, text);
            }
        }
        if let Some(measures) = &row.examined.measures {
            self.measures.add(measures);
        }
        let Some(name) = &row.group else { return };
        let is_known = self.groups.contains_key(name) || self.groups.len() < MAX_GROUPS;
        let name = if is_known { name.as_str() } else { "…" };
        let group = self.groups.entry(name.to_owned()).or_default();
        group.rows += 1;
        let has = |severity| by_code.values().any(|(one, ..)| *one == severity);
        group.rows_with_errors += u64::from(has(Severity::Error));
        group.rows_with_warnings += u64::from(has(Severity::Warning));
        group.tokens += row.examined.measures.as_ref().map_or(0, |row| row.tokens);
        for (code, (_, times, _)) in by_code {
            *group.findings.entry(code).or_default() += times;
        }
    }
}

/// Returns a tokenizer that no other thread uses.
fn borrowed(tokenizers: &Mutex<Vec<Box<dyn Tokenizer>>>) -> Box<dyn Tokenizer> {
    let mut tokenizers = tokenizers.lock().unwrap_or_else(PoisonError::into_inner);
    match tokenizers.pop() {
        Some(tokenizer) if tokenizers.is_empty() => {
            tokenizers.push(tokenizer.duplicate());
            tokenizer
        }
        Some(tokenizer) => tokenizer,
        None => Box::new(O200k::new()),
    }
}

fn tokenizer(arguments: &DataExamineArgs) -> Result<Box<dyn Tokenizer>, CliError> {
    let Some(path) = &arguments.tokenizer else {
        return Ok(Box::new(O200k::new()));
    };
    match HfTokenizer::load(path) {
        Ok(tokenizer) => Ok(Box::new(tokenizer)),
        Err(refusal) => {
            let finding = &refusal.finding;
            let message = format!("`{}`: {}", path.display(), finding.message);
            let failure = CliError::user(finding.code.as_str(), message);
            Err(match finding.help.first() {
                Some(help) => failure.with_help(help.clone()),
                None => failure,
            })
        }
    }
}

/// Returns the value of a member as text.
fn group_of(field: &FieldPath, row: &[u8]) -> String {
    let row: serde_json::Value = match serde_json::from_slice(row) {
        Ok(row) => row,
        Err(_) => return "(not JSON)".to_owned(),
    };
    match field.find(&row) {
        None => "(absent)".to_owned(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns the count of numbers that are in the list already.
fn repeated(numbers: &mut Vec<u64>) -> u64 {
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    (count - numbers.len()) as u64
}
