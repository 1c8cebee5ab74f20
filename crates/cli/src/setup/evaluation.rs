//! The records of what evaluation obtained: beside a transcript, or with a session.

use std::path::Path;
use std::sync::Arc;

use logue_agent::{EvaluationRecord, RecordKey};
use logue_source::escape_line;
use serde_json::Value;

use crate::arguments::ModelArgs;
use crate::setup::environment::{file_owners, state_folder};
use crate::setup::settings::Settings;
use crate::terminal::print_error;

/// Returns the key that binds records to the user, or `None` without a state directory.
pub(crate) fn record_key() -> Option<RecordKey> {
    let key = state_folder().map(|folder| RecordKey::new(folder.join("evaluation.key")));
    key.map(|key| key.with_owners(file_owners()))
}

/// Reads the record beside a transcript. A record that is not used is reported.
pub(crate) fn record_beside(
    transcript: &Path,
    arguments: &ModelArgs,
    settings: &Settings,
) -> Option<Arc<EvaluationRecord>> {
    let record = EvaluationRecord::beside(transcript, record_key()?);
    Some(Arc::new(checked(record, arguments, settings)))
}

/// Reads the record of a session from its label. A record that is not used is reported.
pub(crate) fn record_of_session(
    label: Option<&Value>,
    arguments: &ModelArgs,
    settings: &Settings,
) -> Option<Arc<EvaluationRecord>> {
    let record = EvaluationRecord::stored(label, record_key()?);
    Some(Arc::new(checked(record, arguments, settings)))
}

/// Writes the record beside its transcript. A failure costs only later requests.
pub(crate) fn save(record: Option<&EvaluationRecord>) {
    if let Some(Err(error)) = record.map(EvaluationRecord::save) {
        not_recorded(&error);
    }
}

/// Reports that the next run asks again.
pub(crate) fn not_recorded(error: &std::io::Error) {
    let error = error.to_string();
    print_error(&format!(
        "note: the answers of agents and the pages are not recorded: {}; the next run asks again\n",
        escape_line(&error)
    ));
}

fn checked(
    record: EvaluationRecord,
    arguments: &ModelArgs,
    settings: &Settings,
) -> EvaluationRecord {
    let record = record.without(settings.redaction.clone());
    if arguments.fresh || arguments.no_cache {
        return record.fresh();
    }
    if let Some(reason) = record.unused() {
        print_error(&format!(
            "note: {}; agents are asked and pages are fetched again\n",
            escape_line(reason)
        ));
    }
    record
}
