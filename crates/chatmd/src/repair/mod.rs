//! Repair of transcripts that earlier programs wrote and that are not readable.
//!
//! A repair inserts text that a writer omitted (a slash, a closing tag, the delimiters of a RAW
//! block) and removes text that it added (indentation, an empty message). All content stays byte by
//! byte, except white space that was layout. Ambiguous text stays unchanged, and its error is in
//! [`Repair::remaining`].

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

/// Maximum number of passes over a text; each may reveal further damage.
const PASSES: usize = 8;

/// A repaired text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Repair {
    /// The text after the changes; equal to the input without changes.
    pub text: String,
    /// Changes in the order of the text.
    pub changes: Vec<Change>,
    /// Remaining errors; their spans refer to the input.
    pub remaining: Vec<Diagnostic>,
}

/// Repairs a text; a text without damage stays unchanged.
///
/// - `<doc … local>` and similar tags get their slash.
/// - The text of summaries that quote tags is wrapped in RAW blocks. Such a summary ends at a
///   `</summary>` before another `<summary>` or the end of its `<reasoning>`.
/// - Tags in messages, calls and results without a meaning there, or without any attribute, become
///   text.
/// - Tabs before every line of a RAW block are removed if the layout of the element shows that an
///   earlier program inserted them.
/// - An unfinished last element is closed, unless it is a call with truncated arguments.
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

/// Returns the changes of one pass.
///
/// Summaries come first, because the tags that they quote may conceal other damage.
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
