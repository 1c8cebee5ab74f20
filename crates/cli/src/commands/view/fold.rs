//! Folding of long text to its first lines and the amount of hidden text.

use std::borrow::Cow;

use crate::counted::counted;

/// The limits for the shown part of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// A text of more lines is folded.
    pub(super) lines: usize,
    /// Lines that a folded text begins with.
    pub(super) head: usize,
    /// Lines that a folded text ends with.
    pub(super) tail: usize,
    /// Bytes of a line; a longer one is cut.
    pub(super) line: usize,
}

/// Limits for tool calls, tool results and reasoning.
pub(super) const TOOL_LIMITS: Limits = Limits {
    lines: 12,
    head: 8,
    tail: 0,
    line: 600,
};

/// Limits for messages.
///
/// The end is shown too, as the question often follows a pasted file.
pub(super) const MESSAGE_LIMITS: Limits = Limits {
    lines: 60,
    head: 30,
    tail: 10,
    line: 4000,
};

/// Returns the text within limits, in time linear in its length.
pub(super) fn fold(text: &str, limits: Limits) -> Cow<'_, str> {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= limits.lines && lines.iter().all(|line| line.len() <= limits.line) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    let (head, tail) = if lines.len() > limits.lines {
        (limits.head, lines.len() - limits.tail)
    } else {
        (lines.len(), lines.len())
    };
    for line in lines.iter().take(head) {
        cut(line, limits.line, &mut shown);
    }
    if tail > head {
        let folded = lines.iter().take(tail).skip(head);
        let bytes: usize = folded.map(|line| line.len() + 1).sum();
        let more = format!(
            "… {} ({})\n",
            counted(tail - head, "more line"),
            size(count(bytes))
        );
        shown.push_str(&more);
    }
    for line in lines.iter().skip(tail) {
        cut(line, limits.line, &mut shown);
    }
    Cow::Owned(shown)
}

fn cut(line: &str, limit: usize, out: &mut String) {
    let end = line.floor_char_boundary(limit);
    out.push_str(line.get(..end).unwrap_or(line));
    if end < line.len() {
        let more = size(count(line.len() - end));
        out.push_str(&format!("… {more} more in this line"));
    }
    out.push('\n');
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Formats a number of bytes with a unit and one decimal digit.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes / 100;
    let mut unit = "KB";
    for larger in ["MB", "GB", "TB"] {
        if tenths < 10_000 {
            break;
        }
        tenths /= 1000;
        unit = larger;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}
