//! `logue sessions verify` and `repair`.

use std::time::Duration;

use logue_harness::chat::check_records;
use logue_harness::store::{IntegrityFault, SessionFilter, SharedStore};
use logue_harness::{Clock as _, SystemClock};
use logue_source::escape_line;
use logue_store::{is_session_store, mend_schema};
use serde_json::{Value, json};

use crate::arguments::{RepairArgs, StoreArgs, VerifyArgs};
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::progress::Progress;
use crate::setup::question::QUESTION;
use crate::setup::session_agent::{EVALUATED, TEXT_LABELS, VARIABLES};
use crate::setup::settings::Settings;
use crate::setup::store::{check_exists, known, sqlite_file, store_failure};
use crate::terminal::{ignore_broken_pipe, print};

/// The remedy for a fault of what is stored.
const REMEDY: &str = "run `logue sessions repair`, or restore a backup";
/// The remedy for a fault that a repair leaves.
const NO_REPAIR: &str = "this cannot be repaired: save what can be read with `logue sessions export`, \
                         and restore a backup with `logue sessions restore FILE --replace`";
/// The maximum wait for other processes that write to the file.
const MEND_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) async fn verify(store: SharedStore, arguments: &VerifyArgs) -> Result<Exit, CliError> {
    let only = arguments.session.as_deref();
    if let Some(session) = only {
        known(&store, session).await?;
    }
    let progress = Progress::waiting(arguments.json);
    let found = store.verify(only).await;
    let found = found.map_err(|error| store_failure(&error))?;
    let mut faults = found.faults;
    faults.extend(meaning(&store, only).await);
    drop(progress);
    let text = if arguments.json {
        let faults: Vec<Value> = faults.iter().map(to_json).collect();
        let found = json!({
            "sessions": found.sessions, "messages": found.messages, "faults": faults,
        });
        format!("{found}\n")
    } else {
        let sessions = counted(amount(found.sessions), "session");
        let messages = counted(amount(found.messages), "message");
        let faulty = counted(faults.len(), "fault");
        let remedy = if faults.is_empty() { "" } else { "; " };
        let words = faults
            .iter()
            .map(remedy_of)
            .max_by_key(|words| *words == NO_REPAIR);
        let remedy = [remedy, words.unwrap_or_default()].concat();
        let lines = faults.iter().map(line);
        lines
            .chain([format!("{sessions}, {messages}: {faulty}{remedy}\n")])
            .collect()
    };
    ignore_broken_pipe(print(&text))?;
    Ok(exit(&faults))
}

/// Writes the damaged parts of the schema of a store again; returns their names.
///
/// A store with such damage may be one that cannot be opened.
pub(super) fn mend(arguments: &StoreArgs) -> Result<Vec<String>, CliError> {
    let settings = Settings::load(false)?;
    check_exists(arguments, &settings)?;
    match sqlite_file(arguments, &settings) {
        Ok(file) if is_session_store(&file) => {
            mend_schema(&file, MEND_TIMEOUT).map_err(|error| store_failure(&error))
        }
        _ => Ok(Vec::new()),
    }
}

/// Reports a store that cannot be opened because of damage.
pub(super) fn unopened(
    failure: CliError,
    arguments: &StoreArgs,
    json: bool,
) -> Result<Exit, CliError> {
    findings(failure, arguments, json, REMEDY)
}

/// Reports a store that cannot be repaired.
pub(super) fn unrepaired(
    failure: CliError,
    arguments: &StoreArgs,
    json: bool,
) -> Result<Exit, CliError> {
    findings(failure, arguments, json, NO_REPAIR)
}

/// Prints damage to the file of a session store; every other failure stays one.
fn findings(
    failure: CliError,
    arguments: &StoreArgs,
    json: bool,
    remedy: &str,
) -> Result<Exit, CliError> {
    let file = Settings::load(false).and_then(|settings| sqlite_file(arguments, &settings));
    let is_ours = file.is_ok_and(|file| is_session_store(&file));
    if failure.code != "store_corrupt" || !is_ours {
        return Err(failure);
    }
    let fault = IntegrityFault::new("file", failure.message);
    let text = if json {
        let mut found = to_json(&fault);
        found["remedy"] = json!(remedy);
        let key = if remedy == REMEDY {
            "faults"
        } else {
            "remaining"
        };
        format!("{}\n", json!({ key: [found] }))
    } else {
        format!("{}1 fault; {remedy}\n", line(&fault))
    };
    ignore_broken_pipe(print(&text))?;
    Ok(Exit::Findings)
}

pub(super) async fn repair(
    store: SharedStore,
    arguments: &RepairArgs,
    mended: Vec<String>,
) -> Result<Exit, CliError> {
    let report = store.repair(SystemClock.now()).await;
    let mut report = report.map_err(|error| store_failure(&error))?;
    report.rebuilt.splice(0..0, mended);
    let invalid = meaning(&store, None).await;
    if !invalid.is_empty() {
        let moved = store.quarantine(invalid, SystemClock.now()).await;
        let moved = moved.map_err(|error| store_failure(&error))?;
        report.quarantined.extend(moved.quarantined);
        let left = store.verify(None).await;
        report.remaining = left.map_err(|error| store_failure(&error))?.faults;
        report.remaining.extend(meaning(&store, None).await);
    }
    let text = if arguments.json {
        let all = |faults: &[IntegrityFault]| faults.iter().map(to_json).collect::<Vec<_>>();
        let found = json!({
            "quarantined": all(&report.quarantined),
            "rebuilt": report.rebuilt,
            "lost": all(&report.lost),
            "remaining": all(&report.remaining),
        });
        format!("{found}\n")
    } else {
        let quarantined = report.quarantined.iter().map(line);
        let rebuilt = report.rebuilt.iter();
        let rebuilt = rebuilt.map(|index| format!("`{index}`: built again\n"));
        let moved = counted(report.quarantined.len(), "record");
        let lost = match report.lost.len() {
            0 => String::new(),
            count => format!("{} about missing records, ", counted(count, "finding")),
        };
        let left = counted(report.remaining.len(), "fault");
        quarantined
            .chain(rebuilt)
            .chain(report.lost.iter().map(line))
            .chain([format!("{moved} in quarantine, {lost}{left} left\n")])
            .chain(report.remaining.iter().map(line))
            .chain((!report.remaining.is_empty()).then(|| format!("{NO_REPAIR}\n")))
            .collect()
    };
    ignore_broken_pipe(print(&text))?;
    Ok(exit(&report.remaining))
}

/// Checks the records and labels by the meaning that the program gives to them.
async fn meaning(store: &SharedStore, only: Option<&str>) -> Vec<IntegrityFault> {
    let records = check_records(&**store, only).await;
    let labels = check_labels(store, only).await;
    let mut faults = records.unwrap_or_else(|error| unreadable(&error));
    faults.extend(labels.unwrap_or_else(|error| unreadable(&error)));
    faults
}

/// Checks the types of the labels that the program sets.
async fn check_labels(
    store: &SharedStore,
    only: Option<&str>,
) -> Result<Vec<IntegrityFault>, logue_harness::store::StoreError> {
    let listed = match only {
        Some(session) => store.session(session).await?.into_iter().collect(),
        None => store.list(SessionFilter::default()).await?,
    };
    let mut faults = Vec::new();
    for info in listed {
        for (name, value) in &info.labels {
            let fits = match name.as_str() {
                name if TEXT_LABELS.contains(&name) => value.is_string() || value.is_null(),
                "permissions" => value
                    .as_array()
                    .is_some_and(|rules| rules.iter().all(Value::is_string)),
                EVALUATED | QUESTION => value.is_object(),
                VARIABLES => value.as_object().is_some_and(|values| {
                    values
                        .values()
                        .all(|value| value.is_string() || value.is_null())
                }),
                _ => true,
            };
            if !fits {
                let problem = format!("`{name}` has a value of the wrong type");
                let fault = IntegrityFault::new("label", problem).named(name);
                faults.push(fault.in_session(&info.session));
            }
        }
    }
    Ok(faults)
}

/// Returns the fault of a store whose records cannot be listed.
fn unreadable(error: &logue_harness::store::StoreError) -> Vec<IntegrityFault> {
    vec![IntegrityFault::new("file", error.to_string())]
}

const fn exit(faults: &[IntegrityFault]) -> Exit {
    if faults.is_empty() {
        Exit::Done
    } else {
        Exit::Findings
    }
}

fn line(fault: &IntegrityFault) -> String {
    format!("{}\n", escape_line(&fault.to_string()))
}

/// Returns the remedy for a fault. A repair needs sound pages.
fn remedy_of(fault: &IntegrityFault) -> &'static str {
    if fault.record == "page" {
        NO_REPAIR
    } else {
        REMEDY
    }
}

fn to_json(fault: &IntegrityFault) -> Value {
    json!({
        "session": fault.session,
        "record": fault.record,
        "position": fault.position,
        "problem": fault.problem,
        "remedy": remedy_of(fault),
    })
}
