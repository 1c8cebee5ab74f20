//! The differences between a grant and the one that was trusted before.

use std::time::Duration;

use logue_agent::{Grant, GrantChange, TrustFile, Trusted};
use serde_json::{Value, json};
use similar::TextDiff;

/// The timeout of the search for the shortest difference; afterwards a longer one is used.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of shown lines of one changed file.
const MAX_LINES: usize = 60;

/// A change and, for a text file, the difference of its content.
pub(crate) struct TrustChange {
    change: GrantChange,
    /// The lines of the difference. They may contain control characters.
    lines: Vec<String>,
}

/// Returns the differences of a grant from an earlier one.
pub(crate) fn since(file: &TrustFile, known: &Trusted, grant: &Grant) -> Vec<TrustChange> {
    let changes = grant.changes_since(known).into_iter();
    let changes = changes.map(|change| {
        let texts = match &change {
            GrantChange::FileChanged { path } => file.changed_text(known, grant, path),
            _ => None,
        };
        let lines = texts.map(|(old, new)| difference(&old, &new));
        TrustChange {
            change,
            lines: lines.unwrap_or_default(),
        }
    });
    changes.collect()
}

impl TrustChange {
    /// Formats the change as lines of a difference. They may contain control characters.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let first = std::iter::once(self.change.to_string());
        first.chain(self.lines.iter().map(|line| format!("    {line}")))
    }

    /// The change with the lines of its difference.
    pub(crate) fn to_json(&self) -> Value {
        let mut value = json!(self.change);
        if let (Some(object), false) = (value.as_object_mut(), self.lines.is_empty()) {
            object.insert("diff".to_owned(), json!(self.lines));
        }
        value
    }
}

/// Returns the lines of a difference with three lines of context.
fn difference(old: &str, new: &str) -> Vec<String> {
    let mut configured = TextDiff::configure();
    let diff = configured.timeout(TIMEOUT).diff_lines(old, new);
    let text = diff.unified_diff().context_radius(3).to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("… {more} more lines"));
    }
    lines
}
