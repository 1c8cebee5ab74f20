//! Checks of the files that a ChatMD document names: they exist, in the directory of the prompt.
//!
//! The checks read metadata only and do not examine contents. A pipe or a device is not opened, so it
//! cannot block.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use chatmd::{Document, ReferenceKind};
use logue_source::{Diagnostic, DiagnosticCode};
use logue_tools::Roots;

use crate::files::folder_of;

/// Maximum number of files reported per document.
///
/// A transcript may have lost hundreds of payloads.
const SHOWN: usize = 20;

/// Returns an error for each local file that a run could not read.
pub(super) fn unreadable_references(document: &Document, path: &Path) -> Vec<Diagnostic> {
    let folder = folder_of(path);
    let roots = Roots::new([folder.clone()]).ok();
    let mut looked_at = BTreeSet::new();
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut hidden = 0_usize;
    for reference in document.references() {
        if !reference.local || !looked_at.insert(reference.src) {
            continue;
        }
        let is_outside = roots
            .as_ref()
            .is_some_and(|roots| roots.is_outside(reference.src));
        let (code, what, help) = match absence(&folder.join(reference.src)) {
            _ if is_outside => (
                DiagnosticCode::OutsideRoots,
                "is outside the directory of the prompt",
                "move the file there; a run reads others with --root DIR or [tools] roots, and \
                 --no-file-checks omits this check",
            ),
            Some(what) => (
                DiagnosticCode::MissingFile,
                what,
                "paths are relative to the directory of the file that names them",
            ),
            None => continue,
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
            Diagnostic::error(
                code,
                format!("the {kind} {:?} {what}", reference.src),
                reference.span,
            )
            .with_help(help),
        );
    }
    if hidden > 0
        && let Some(last) = found.last_mut()
    {
        let more = format!("{hidden} more files are not shown");
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
