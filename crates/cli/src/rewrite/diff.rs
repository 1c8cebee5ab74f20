//! What changes in a file, as a unified diff.

use std::time::Duration;

use logue_source::{ColorMode, escape_untrusted};
use similar::TextDiff;

/// How long the shortest diff is looked for; then a longer one is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// The diff of a file's content, empty if nothing changes. With colours, what the file says cannot
/// drive the terminal.
pub(super) fn unified(name: &str, old: &str, new: &str, style: ColorMode) -> String {
    let mut configured = TextDiff::configure();
    let diff = configured.timeout(PATIENCE).diff_lines(old, new);
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
