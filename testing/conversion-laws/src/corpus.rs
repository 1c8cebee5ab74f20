//! Conversations that once broke a law, as JSON.

use std::path::Path;

use openchatml::Transcript;
use openchatml::convert::ConvertOptions;
use openchatml::project::{self, JsonFormat};

/// Returns the conversations of `corpus/`.
///
/// # Panics
/// Panics if a file cannot be read or is not a conversation.
#[must_use]
pub fn corpus() -> Vec<Transcript> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read(&path).unwrap_or_default();
        let read = project::read(&text, JsonFormat::Json, &ConvertOptions::default());
        let name = path.display().to_string();
        assert!(!read.has_errors(), "{name}: {:?}", read.diagnostics);
        read.transcript
    };
    files.into_iter().map(read).collect()
}

/// Returns a conversation as a file of the corpus.
#[must_use]
pub fn to_json(transcript: &Transcript) -> String {
    let written = project::write(transcript, JsonFormat::Json, &ConvertOptions::default());
    written.map(|written| written.text).unwrap_or_default()
}
