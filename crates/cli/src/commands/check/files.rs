//! Whether the files exist that a ChatMD document names.
//!
//! Only names are looked at: nothing is opened, and nothing is said of what a file holds. So a pipe
//! or a device cannot block, and a file that exists outside the roots is the run's concern.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use chatmd::{Document, ReferenceKind};
use logue_source::{Diagnostic, DiagnosticCode};

/// Missing files of one document that are told; a transcript may have lost hundreds of payloads.
const SHOWN: usize = 20;

/// A warning for each local file that does not exist, where it is named first.
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
            ReferenceKind::Image => "picture",
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
            .with_help("paths are relative to the folder of the file that names them"),
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

/// Why a path cannot be read as a file, where it is certain that it cannot.
fn absence(path: &Path) -> Option<&'static str> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Some("is a folder"),
        Ok(_) => None,
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                Some("does not exist")
            }
            // A name with a NUL in it; whatever else is wrong, something may be there.
            ErrorKind::InvalidInput => Some("does not exist"),
            _ => None,
        },
    }
}
