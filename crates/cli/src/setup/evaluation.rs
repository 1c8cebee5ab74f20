//! The records of what evaluation obtained: beside a transcript, or with a session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{EvaluationRecord, OriginRefusal, PromptLanguage, RecordKey};
use logue_source::{escape_line, quote_word};
use serde_json::Value;

use crate::arguments::ModelArgs;
use crate::language::Language;
use crate::setup::environment::{file_owners, state_folder};
use crate::setup::settings::Settings;
use crate::terminal::print_error;

/// Returns the key that binds records to the user, or `None` without a state directory.
pub(crate) fn record_key() -> Option<RecordKey> {
    let key = state_folder().map(|folder| RecordKey::new(folder.join("evaluation.key")));
    key.map(|key| key.with_owners(file_owners()))
}

/// A transcript that a command reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TranscriptText<'t> {
    /// Its path, with links followed.
    pub(crate) path: &'t Path,
    pub(crate) text: &'t str,
    pub(crate) language: Language,
}

/// The place that the paths of a transcript count from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TranscriptOrigin {
    /// No other directory is recorded.
    Own,
    /// A prompt in another directory.
    Prompt(PathBuf),
    /// The recorded prompt is not used; paths count from the transcript.
    Refused,
}

impl TranscriptOrigin {
    /// Returns the origin of a transcript. One that is not used is reported.
    pub(crate) fn of(transcript: TranscriptText<'_>) -> Self {
        let Some(key) = record_key() else {
            return Self::Own;
        };
        let record = EvaluationRecord::beside(transcript.path, key);
        let record = record.with_text(transcript.text, prompt_language(transcript.language));
        let named = record.recorded_origin().map(Path::to_owned);
        if let (Some(refusal), Some(prompt)) = (record.refused_origin(), named) {
            report_refusal(refusal, transcript.path, &prompt);
            return Self::Refused;
        }
        record
            .origin()
            .map_or(Self::Own, |base| Self::Prompt(base.to_owned()))
    }

    /// Returns the prompt in another directory.
    pub(crate) fn prompt(self) -> Option<PathBuf> {
        match self {
            Self::Prompt(prompt) => Some(prompt),
            Self::Own | Self::Refused => None,
        }
    }
}

fn report_refusal(refusal: &OriginRefusal, transcript: &Path, prompt: &Path) {
    let reason = refusal.to_string();
    let (transcript, prompt) = (transcript.display(), prompt.display());
    let (transcript, prompt) = (transcript.to_string(), prompt.to_string());
    print_error(&format!(
        "note: {}, so its paths count from its own directory and not from {}; review it, then \
         `logue run -o {} {}` counts them from there\n",
        escape_line(&reason),
        escape_line(&prompt),
        quote_word(&transcript),
        quote_word(&prompt),
    ));
}

fn prompt_language(language: Language) -> PromptLanguage {
    match language {
        Language::Openchatml => PromptLanguage::OpenChatMl,
        _ => PromptLanguage::ChatMd,
    }
}

/// Reads the record beside a transcript. A record that is not used is reported.
///
/// `started_from` is the prompt that `-o` begins the transcript with, and `is_resumed` states whether a
/// suspended turn continues.
pub(crate) fn record_beside(
    transcript: TranscriptText<'_>,
    started_from: Option<&Path>,
    is_resumed: bool,
    arguments: &ModelArgs,
    settings: &Settings,
) -> Option<Arc<EvaluationRecord>> {
    let record = EvaluationRecord::beside(transcript.path, record_key()?);
    let record = match started_from {
        Some(prompt) => {
            let prompt = is_elsewhere(prompt, transcript.path).then_some(prompt);
            record.with_origin(prompt, transcript.text)
        }
        None => record.with_text(transcript.text, prompt_language(transcript.language)),
    };
    let record = if is_resumed { record.resumed() } else { record };
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
///
/// An origin that is not used is reported.
pub(crate) fn base_of(path: &Path, text: &str, language: Language) -> Option<PathBuf> {
    let path = &path.canonicalize().ok()?;
    let transcript = TranscriptText {
        path,
        text,
        language,
    };
    TranscriptOrigin::of(transcript).prompt()
}

/// Returns the prompt that the record beside a transcript names, used or not.
pub(crate) fn recorded_origin(transcript: &Path) -> Option<PathBuf> {
    let transcript = transcript.canonicalize().ok()?;
    let record = EvaluationRecord::beside(&transcript, record_key()?);
    record.recorded_origin().map(Path::to_owned)
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
