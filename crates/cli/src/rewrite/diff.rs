//! Unified diffs of rewritten files.

use std::time::Duration;

use logue_source::{ColorMode, escape_line, escape_untrusted};
use similar::TextDiff;

/// The timeout of the search for the shortest diff; afterwards a longer one is used.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the diff of a file's content, or an empty text without changes.
///
/// The name is escaped. In a diff with colours, control characters of the file are escaped too.
pub(super) fn unified(name: &str, old: &str, new: &str, style: ColorMode) -> String {
    let name = escape_line(name);
    let mut configured = TextDiff::configure();
    let diff = configured.timeout(TIMEOUT).diff_lines(old, new);
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string();
    match style {
        ColorMode::Plain => text,
        ColorMode::Ansi => text.split_inclusive('\n').map(coloured).collect(),
    }
}

fn coloured(line: &str) -> String {
    let colour = match line.as_bytes() {
        [b'-', b'-', b'-', ..] | [b'+', b'+', b'+', ..] => "\x1b[1m",
        [b'-', ..] => "\x1b[31m",
        [b'+', ..] => "\x1b[32m",
        [b'@', ..] => "\x1b[36m",
        _ => return escape_untrusted(line).into_owned(),
    };
    let text = line.trim_end_matches('\n');
    format!("{colour}{}\x1b[0m\n", escape_untrusted(text))
}
