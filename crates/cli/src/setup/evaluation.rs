//! The records of what evaluation obtained: beside a transcript, or with a session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{EvaluationRecord, RecordKey};
use logue_source::escape_line;
use serde_json::Value;

use crate::arguments::ModelArgs;
use crate::files::folder_of;
use crate::setup::environment::{file_owners, state_folder};
use crate::setup::settings::Settings;
use crate::terminal::print_error;

/// Returns the key that binds records to the user, or `None` without a state directory.
pub(crate) fn record_key() -> Option<RecordKey> {
    let key = state_folder().map(|folder| RecordKey::new(folder.join("evaluation.key")));
    key.map(|key| key.with_owners(file_owners()))
}

/// Reads the record beside a transcript. A record that is not used is reported.
///
/// `started_from` is the prompt that `-o` begins the transcript with.
pub(crate) fn record_beside(
    transcript: &Path,
    started_from: Option<&Path>,
    arguments: &ModelArgs,
    settings: &Settings,
) -> Option<Arc<EvaluationRecord>> {
    let record = EvaluationRecord::beside(transcript, record_key()?);
    if record.is_moved() {
        print_error(
            "note: the transcript was moved, so its paths count from its own folder; `-o` with its prompt sets them again\n",
        );
    }
    let record = match started_from {
        Some(prompt) => record.with_origin(is_elsewhere(prompt, transcript).then_some(prompt)),
        None => record,
    };
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

/// Returns the prompt in another directory that the paths of a transcript count from.
pub(crate) fn base_of(path: &Path) -> Option<PathBuf> {
    let record = EvaluationRecord::beside(&path.canonicalize().ok()?, record_key()?);
    let base = record.origin()?;
    folder_of(base).is_dir().then(|| base.to_owned())
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

/// Reports that messages of agents are not beside the transcript.
pub(crate) fn not_kept(error: &std::io::Error) {
    let error = error.to_string();
    print_error(&format!(
        "note: calls of agents are not kept beside the transcript: {}\n",
        escape_line(&error)
    ));
}

fn is_elsewhere(prompt: &Path, transcript: &Path) -> bool {
    prompt.parent() != transcript.parent()
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
