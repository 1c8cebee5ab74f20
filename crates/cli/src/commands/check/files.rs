//! Existence checks for the files that a ChatMD document names.
//!
//! The checks read metadata only: they open no file and do not examine its contents. A pipe or a
//! device therefore cannot block, and a run decides about existing files outside the roots.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use chatmd::{Document, ReferenceKind};
use logue_source::{Diagnostic, DiagnosticCode};

/// Maximum number of missing files reported per document.
///
/// A transcript may have lost hundreds of payloads.
const SHOWN: usize = 20;

/// Returns a warning for each missing local file, at its first reference.
pub(super) fn missing(document: &Document, path: &Path) -> Vec<Diagnostic> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut looked_at = BTreeSet::new();
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut hidden = 0_usize;
    for reference in document.references() {
        if !reference.local || !looked_at.insert(reference.src) {
            continue;
        }
        let Some(what) = absence(&folder.join(reference.src)) else {
            continue;
        };
        if found.len() == SHOWN {
            hidden += 1;
            continue;
        }
        let kind = match reference.kind {
            ReferenceKind::Image => "image",
            ReferenceKind::Agent | ReferenceKind::AgentTool => "prompt",
            ReferenceKind::Import => "text to import",
            _ => "document",
        };
        found.push(
            Diagnostic::warning(
                DiagnosticCode::MissingFile,
                format!("the {kind} {:?} {what}", reference.src),
                reference.span,
            )
            .with_help("paths are relative to the directory of the file that names them"),
        );
    }
    if hidden > 0
        && let Some(last) = found.last_mut()
    {
        let more = format!("{hidden} more missing files are not shown");
        last.help.push(more);
    }
    found
}

/// Returns the reason if a path is certainly not a readable file.
fn absence(path: &Path) -> Option<&'static str> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Some("is a directory"),
        Ok(_) => None,
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                Some("does not exist")
            }
            // The name contains a NUL. After any other error, the file may exist.
            ErrorKind::InvalidInput => Some("does not exist"),
            _ => None,
        },
    }
}
