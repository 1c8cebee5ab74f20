//! The repair of transcripts that earlier programs wrote and that no reader can read back.
//!
//! A repair adds what a writer left out (a slash, a closer, the delimiters of a RAW block) and takes
//! away what it put in (indentation, an empty message). What anybody said stays, byte by byte, white
//! space that was layout aside. Where it is not certain what was meant, the text stays as it is and
//! the error is among [`Repair::remaining`].

mod change;
mod elements;
mod ends;
mod indented;
mod origin;
mod proposal;
mod summaries;

use logue_source::Diagnostic;

use crate::check::check;
use crate::edit::replacement::apply;
use crate::syntax::builder::parse;
use origin::Origin;
use proposal::Proposal;

pub use change::{Change, RepairKind};

/// Passes over a text; each may uncover what the one before it hid.
const PASSES: usize = 8;

/// A repaired text.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The text after the changes: the one that was given, if there are none.
    pub text: String,
    /// What was changed, in the order of the text.
    pub changes: Vec<Change>,
    /// The errors that the text still has; their spans point into the text that was given.
    pub remaining: Vec<Diagnostic>,
}

/// Repairs a text; one without damage comes back as it is.
///
/// - `<doc … local>` and its like get their slash.
/// - The text of summaries that quote tags goes into RAW blocks. Such a summary ends at the
///   `</summary>` that another `<summary>` or the end of its `<reasoning>` follows.
/// - Tags in messages, calls and results that mean nothing there, or lack every attribute, become
///   the text that they are.
/// - The tabs that an earlier program put before every line of a RAW block are taken away where its
///   whole layout shows that it wrote the block.
/// - A last element that was not finished is closed, unless it is a call cut in its arguments.
/// - Empty `<user>` messages at the end of a transcript, or before another `<user>`, are removed.
///
/// Linear in the text.
///
/// ```
/// let text = "<tool_call tool_call_id=\"c\" function_name=\"f\">\n\
///     <doc src=\"./.chatmd/0.json\" local>\n</tool_call>\n<user>Go on.</user>\n";
/// let repair = chatmd::repair(text);
/// assert_eq!(repair.changes[0].kind, chatmd::RepairKind::Stub);
/// assert!(repair.text.contains("local/>"));
/// assert!(repair.remaining.is_empty());
/// ```
pub fn repair(text: &str) -> Repair {
    let mut repaired = text.to_owned();
    let mut changes = Vec::new();
    let mut origin = Origin::default();
    for _ in 0..PASSES {
        let proposals = proposals(&repaired);
        if proposals.is_empty() {
            break;
        }
        let edits = proposals
            .iter()
            .flat_map(|proposal| proposal.edits.clone())
            .collect();
        let Ok(next) = apply(&repaired, edits) else {
            break;
        };
        changes.extend(proposals.iter().map(|proposal| Change {
            span: origin.span(text, proposal.span),
            kind: proposal.kind,
            what: proposal.what.clone(),
        }));
        origin.push(&proposals);
        repaired = next;
    }
    changes.sort_by_key(|change| change.span.start);
    let mut remaining = check(&repaired);
    remaining.retain(Diagnostic::is_error);
    for error in &mut remaining {
        error.primary = origin.span(text, error.primary);
        for label in &mut error.labels {
            label.span = origin.span(text, label.span);
        }
    }
    Repair {
        text: repaired,
        changes,
        remaining,
    }
}

/// What one pass changes: first the summaries, because what they quote may hide everything else.
fn proposals(text: &str) -> Vec<Proposal> {
    let found = summaries::proposals(text);
    if !found.is_empty() {
        return found;
    }
    let tree = parse(text);
    let mut found = elements::proposals(&tree);
    if found.is_empty() {
        found = ends::proposals(&tree);
    }
    if found.is_empty() {
        found = indented::proposals(&tree);
    }
    found
}
