//! Checks of the files that a ChatMD document names: they exist, in the directory of the prompt.
//!
//! The checks read metadata, and the content only of response schemas and of payloads that are named
//! by their hash. A pipe or a device is not opened, so it cannot block.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chatmd::{Document, ReferenceKind};
use logue_agent::{AGENT_DEPTH_HELP, ResponseRequirements, named_roots, read_bytes, too_deep};
use logue_source::{Diagnostic, DiagnosticCode};
use logue_tools::{NamedRoot, Roots};
use serde_json::Value;

use crate::files::folder_of;

/// Maximum number of files reported per document.
///
/// A transcript may have lost hundreds of payloads.
const SHOWN: usize = 20;

/// Returns an error for each local file that a run could not read.
///
/// An agent may also read the files of its `callers`.
pub(super) fn unreadable_references(
    document: &Document,
    path: &Path,
    callers: &[PathBuf],
) -> Vec<Diagnostic> {
    let folders = folders(path, callers);
    let roots = Roots::new(folders.clone()).ok();
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
        let (code, what, help) = match absence_below(&folders, reference.src) {
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
            ReferenceKind::ResponseSchema => "schema",
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

/// Returns the directories that a prompt and its callers confine reading to; empty for none.
///
/// # Errors
/// Returns an error for the first `<read>` that a run could not open.
pub(super) fn confined_reading(
    document: &Document,
    path: &Path,
    agent: Option<&AgentPrompt>,
) -> Result<Vec<NamedRoot>, Box<Diagnostic>> {
    let callers = agent.map_or(&[][..], |agent| &agent.callers);
    let within = agent.map_or(&[][..], |agent| &agent.reading);
    let folders = folders(path, callers);
    let (Ok(allowed), Some(folder)) = (Roots::new(folders.clone()), folders.first()) else {
        return Ok(within.to_vec());
    };
    let named = named_roots(document.tools(), &allowed, folder, within)?;
    Ok(if named.is_empty() {
        within.to_vec()
    } else {
        named
    })
}

/// Returns an error for a response schema that a run would refuse.
pub(super) fn invalid_schema(
    document: &Document,
    path: &Path,
    callers: &[PathBuf],
) -> Option<Diagnostic> {
    let config = document.config()?;
    let src = config.response_schema.as_deref()?;
    let folders = folders(path, callers);
    let roots = Roots::new(folders.clone()).ok()?;
    if roots.is_outside(src) {
        return None;
    }
    let mut files = folders.iter().map(|folder| folder.join(src));
    let bytes = read_bytes(&files.find(|path| path.is_file())?).ok()?;
    let invalid = |message: String, help: &str| {
        let code = DiagnosticCode::MdInvalidAttribute;
        Diagnostic::error(code, message, config.opener).with_help(help)
    };
    let schema: Value = match serde_json::from_slice(&bytes) {
        Ok(schema) => schema,
        Err(error) => {
            return Some(invalid(
                format!("the schema {src:?} is not JSON: {error}"),
                "write a JSON Schema with an object at its root",
            ));
        }
    };
    let required = ResponseRequirements::default().with_response_schema(Arc::new(schema));
    let error = required.check(&[]).err()?;
    let cause = error
        .message
        .trim_start_matches("the request was not sent: ");
    let help = error.help.as_deref().unwrap_or_default();
    Some(invalid(
        format!("the schema {src:?} is refused: {cause}"),
        help,
    ))
}

/// The directory of a prompt, followed by those of its callers.
pub(super) fn folders(path: &Path, callers: &[PathBuf]) -> Vec<PathBuf> {
    let own = folder_of(path);
    std::iter::once(own)
        .chain(callers.iter().cloned())
        .collect()
}

/// Returns the reason if a path is certainly not a readable file below any directory.
fn absence_below(folders: &[PathBuf], src: &str) -> Option<&'static str> {
    let mut reasons = folders.iter().map(|folder| absence(&folder.join(src)));
    let first = reasons.next()??;
    reasons.all(|reason| reason.is_some()).then_some(first)
}

/// The prompt of an agent that a checked prompt names.
#[derive(Clone, Debug)]
pub(super) struct AgentPrompt {
    pub(super) path: PathBuf,
    /// The directories of its callers, which it may read as well.
    pub(super) callers: Vec<PathBuf>,
    /// The prompts that call it, the first one first, without links.
    pub(super) chain: Vec<PathBuf>,
    /// The directories that its callers confine reading to; empty for none.
    pub(super) reading: Vec<NamedRoot>,
}

/// Returns the agents of a prompt below its directories, and errors of others.
///
/// `chain` are the prompts that call this one, and `reading` the directories that it and they
/// confine reading to. Agents deeper than `max_depth` are not returned.
pub(super) fn agents_of(
    document: &Document,
    path: &Path,
    callers: &[PathBuf],
    chain: &[PathBuf],
    reading: &[NamedRoot],
    max_depth: usize,
) -> (Vec<AgentPrompt>, Vec<Diagnostic>) {
    let folders = folders(path, callers);
    let Ok(roots) = Roots::new(folders.clone()) else {
        return (Vec::new(), Vec::new());
    };
    let own = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let chain: Vec<PathBuf> = chain.iter().cloned().chain([own]).collect();
    let is_agent = |kind| matches!(kind, ReferenceKind::Agent | ReferenceKind::AgentTool);
    let references = document.references();
    let agents = references.filter(|reference| reference.local && is_agent(reference.kind));
    let is_too_deep = callers.len() >= max_depth;
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for reference in agents.filter(|reference| !roots.is_outside(reference.src)) {
        let mut paths = folders.iter().map(|folder| folder.join(reference.src));
        let Some(path) = paths.find(|path| path.is_file()) else {
            continue;
        };
        // A document calls its agents each time that it is evaluated, a tool only when it is used.
        let is_called = reference.kind == ReferenceKind::Agent;
        let real = path.canonicalize();
        let is_recursive = real.is_ok_and(|real| chain.contains(&real));
        if is_called && is_recursive {
            let message = format!("the agent {:?} calls itself", reference.src);
            refused.push(
                Diagnostic::error(DiagnosticCode::MdAgentFailed, message, reference.span)
                    .with_help("remove the agent that calls its own prompt"),
            );
            continue;
        }
        if is_too_deep {
            // A tool may call its own prompt, and the model ends that.
            if !is_recursive {
                let (code, message) = (DiagnosticCode::MdAgentFailed, too_deep(max_depth));
                let finding = if is_called {
                    Diagnostic::error(code, message, reference.span)
                } else {
                    Diagnostic::warning(code, message, reference.span)
                };
                refused.push(finding.with_help(AGENT_DEPTH_HELP));
            }
            continue;
        }
        found.push(AgentPrompt {
            path,
            callers: folders.clone(),
            chain: chain.clone(),
            reading: reading.to_vec(),
        });
    }
    (found, refused)
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
