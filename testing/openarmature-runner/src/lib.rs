//! Runs cases in the fixture vocabulary of the harness-chat contract against `logue-harness`.
//!
//! A file of cases describes graphs, stores and what is done with them, and what must come of it. Here
//! each case becomes a real graph in a real harness; nothing is simulated but the bodies of nodes, the
//! backends, which are in memory and fail on demand, and the transport. A word that the vocabulary
//! does not have fails its case; nothing is skipped.
//!
//! Besides the words of the contract there are some of our own, for what no shared fixture contains:
//! saves that fail, turns at the same time, processes that begin anew. They are marked as ours where
//! they are read.
//!
//! The runner drives public interfaces and compares. States, outcomes, dispatch paths, spans and their
//! attributes come from the product. An absent value equals no expectation, not even null, and null is
//! no absent key. [`mutate`] changes every expectation of a case and lists the changes that its case
//! survives.
//!
//! # Decided here
//!
//! The prose of the specification leaves these open. Each has one reading here.
//!
//! | Expectation | Reading |
//! |---|---|
//! | `raised_at` | `registration`, `compile`, `load`, `resume`, `suspend`, `run` or `exit`; each error has one |
//! | `loaded_session_state` | the record that the last load returned, before migrations; null without a record |
//! | `registry_description` | the same versions in the same order; the words around them are free |
//! | `suspending_node` | the first name of the namespace, not the innermost node |
//! | `execution_order` | the nodes of the outer graph, if it names only those, else all nodes |
//! | `descriptor` without `metadata` | none, or only the place that the engine adds |
//! | `conditional_suspend` | compares the index of the instance, not its item |
//! | `dispatch_path` of a chat | by the length of the loaded history |
//! | `otel_spans` | one tree per observer, children in the order in which they began |
//! | attributes of metadata | one per path to a value; lists and empty maps are one value |
//! | `log_records` | carry the fields of the innermost span |
//! | `replies`, `messages` | listed keys of each message; the number of messages is exact |
//! | `messages_history_contains` | an ordered subsequence with listed keys |
//! | `content_matches_template` | contained, in any case |
//! | `harness_did_not_block` | the run still waits when its response is there |
//! | `<from previous …>` | the last run with the named outcome |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod build;
mod chat;
mod chat_outcomes;
mod chat_store;
mod checks;
mod expectations;
mod invariants;
mod mutants;
mod runs;
mod script;
mod seen;
mod spans;
mod stores;
mod traced;
mod transmissions;
mod vocabulary;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use checks::Checks;
use runs::World;
use spans::SpanRecorder;
use vocabulary::{Case, FileDef, typed};

pub use mutants::{Mutations, mutate};
pub use vocabulary::ReadError;

/// The timeout of a case.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of one case.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The name of the case.
    pub case: String,
    /// The failures, in order.
    pub failures: Vec<String>,
}

/// The result of a directory.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of passed cases.
    pub passed: usize,
    /// The number of failed cases; an unreadable file counts as one.
    pub failed: usize,
    /// One line for each failure: `FILE case: what`.
    pub lines: Vec<String>,
}

/// Runs every case of the YAML files below a directory, in the order of their names.
///
/// # Errors
/// Returns an error if the directory or a file in it cannot be read.
pub fn run_folder(folder: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    for (name, text) in texts(folder)? {
        let verdicts = match cases(&text) {
            Ok(cases) => cases.iter().map(run_case).collect(),
            Err(error) => vec![Verdict {
                case: "-".to_owned(),
                failures: vec![error.to_string()],
            }],
        };
        for verdict in verdicts {
            report.add(&name, verdict);
        }
    }
    Ok(report)
}

/// Changes every expectation of the cases below a directory; see [`mutate`].
///
/// # Errors
/// Returns an error if the directory or a file in it cannot be read, or if a file has no cases.
pub fn mutate_folder(folder: &Path) -> io::Result<Mutations> {
    let mut all = Mutations::default();
    for (name, text) in texts(folder)? {
        for case in cases(&text).map_err(io::Error::other)? {
            all.add(&format!("{name} {}", case["name"]), mutate(&case));
        }
    }
    Ok(all)
}

/// Returns the names and texts of the YAML files below a directory, in the order of their names.
fn texts(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let read = files.into_iter().map(|path| {
        let name = path.strip_prefix(folder).unwrap_or(&path);
        Ok((name.display().to_string(), fs::read_to_string(&path)?))
    });
    read.collect()
}

/// Returns the cases of a file, each with the shared settings of the file.
///
/// # Errors
/// Returns an error if the text is not YAML or not a file of cases.
pub fn cases(text: &str) -> Result<Vec<Value>, ReadError> {
    let file = FileDef::read(text)?;
    let of_all = file.invariants;
    let cases = file.cases.into_iter().map(|mut case| {
        if let Some(case) = case.as_object_mut().filter(|_| !of_all.is_empty()) {
            let own = case
                .entry("invariants")
                .or_insert_with(|| Value::Object(Map::new()));
            if let Some(own) = own.as_object_mut() {
                own.extend(of_all.clone());
            }
        }
        case
    });
    Ok(cases.collect())
}

/// Runs one case, as [`cases`] gives it.
pub fn run_case(case: &Value) -> Verdict {
    let words = case;
    let name = case.get("name").and_then(Value::as_str).unwrap_or("-");
    let mut verdict = Verdict {
        case: name.to_owned(),
        ..Verdict::default()
    };
    let case: Case = match typed(case.clone()) {
        Ok(case) => case,
        Err(error) => {
            verdict.failures.push(error.to_string());
            return verdict;
        }
    };
    let spans = SpanRecorder::default();
    let _traced = tracing::subscriber::set_default(spans.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            verdict.failures.push(format!("no runtime: {error}"));
            return verdict;
        }
    };
    let mut checks = Checks::default();
    let ended = runtime.block_on(async {
        let run = Box::pin(perform(&case, words, &spans, &mut checks));
        tokio::time::timeout(PATIENCE, run).await
    });
    if ended.is_err() {
        checks.fail("it does not end");
    }
    if checks.made == 0 && checks.failures.is_empty() {
        checks.fail("nothing is expected of it");
    }
    verdict.failures = checks.failures;
    verdict
}

async fn perform(case: &Case, words: &Value, spans: &SpanRecorder, checks: &mut Checks) {
    let world = match World::new(case, spans) {
        Ok(world) => world,
        Err(error) => return checks.fail(error.to_string()),
    };
    let runs = match (&case.harness, &case.transmissions, &case.chat_turns) {
        (Some(harness), Some(transmissions), None) => {
            if let Some(kind) = harness.coordinator().filter(|kind| *kind != "in_memory") {
                return checks.fail(format!(
                    "harness_primitive_missing: no coordinator `{kind}`"
                ));
            }
            transmissions::run_case(case, harness, transmissions, &world, checks).await;
            Vec::new()
        }
        (Some(harness), None, Some(turns)) => {
            chat::run_case(case, harness, turns, &world, checks).await;
            Vec::new()
        }
        (None, None, None) => runs::run_case(case, &world, checks).await,
        _ => {
            return checks
                .fail("a case has a harness with transmissions or chat turns, or neither");
        }
    };
    invariants::check(case, &world, &runs, words, checks);
}

impl Report {
    fn add(&mut self, file: &str, verdict: Verdict) {
        if verdict.failures.is_empty() {
            self.passed += 1;
            return;
        }
        self.failed += 1;
        for failure in verdict.failures {
            self.lines
                .push(format!("{file} {}: {failure}", verdict.case));
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml")
        {
            files.push(path);
        }
    }
    Ok(())
}
