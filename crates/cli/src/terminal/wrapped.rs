//! Messages of standard error, which continue at words where the terminal ends.

use unicode_width::UnicodeWidthChar as _;

/// The columns of a continued line beside its beginning, at least.
const MIN_WIDTH: usize = 16;

/// Breaks the lines that are wider than the terminal.
///
/// Quoted lines of a report keep their form, since marks below them belong to their columns. A
/// preview continues after another bar than its own lines have.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_report = false;
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        let visible = visible(line);
        if visible.trim_start().starts_with("--> ") {
            is_report = true;
        } else if visible.starts_with(|one: char| one.is_alphabetic()) {
            is_report = false;
        }
        let is_quoted = is_report
            && visible
                .trim_start()
                .starts_with(|one: char| one.is_ascii_digit() || one == '|');
        match beginning(&visible, is_report) {
            None if is_quoted && columns(&visible) > width => clip(line, width, &mut out),
            Some(rest) if columns(&visible) > width => wrap_line(line, &rest, width, &mut out),
            _ => out.push_str(line),
        }
        out.push_str(end);
    }
    out
}

/// Returns the beginning of the lines that continue a line; `None` if it stays whole.
fn beginning(line: &str, is_report: bool) -> Option<String> {
    if line.starts_with("  │ ") {
        return Some("  ┆ ".to_owned());
    }
    let content = line.trim_start();
    let indent = line.len() - content.len();
    if is_report {
        if content.starts_with("--> ") || content.starts_with(|one: char| one.is_ascii_digit()) {
            return None;
        }
        if let Some(marks) = content.strip_prefix('|') {
            // A text after the marks below a quoted line.
            let label = marks.trim_start_matches([' ', '^', '-', '|', '_']);
            let start = line.len() - label.len();
            let gutter = format!("{}|", " ".repeat(indent));
            return (!label.is_empty()).then(|| {
                let blank = start.saturating_sub(gutter.len()).min(12);
                format!("{gutter}{}", " ".repeat(blank))
            });
        }
    }
    if content.starts_with("| ") {
        return Some(format!("{}| ", " ".repeat(indent)));
    }
    let labels = ["= help: ", "= note: "];
    let label = labels.iter().find(|label| content.starts_with(**label));
    let hang = label.map_or(2, |label| label.len());
    Some(" ".repeat(indent + hang))
}

/// Writes the beginning of a quoted line and the sequences for styles after it.
fn clip(line: &str, width: usize, out: &mut String) {
    let mut column = 0;
    let mut is_cut = false;
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("\u{1b}[") {
            let end = rest.find(|one: char| one.is_ascii_alphabetic());
            let (sequence, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            out.push_str(sequence);
            rest = after;
            continue;
        }
        column += first.width().unwrap_or(0);
        if column < width {
            out.push(first);
        } else if !is_cut {
            out.push('…');
            is_cut = true;
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
}

fn wrap_line(line: &str, rest: &str, width: usize, out: &mut String) {
    let begin = columns(rest);
    let width = width.max(begin + MIN_WIDTH);
    let mut column = 0;
    let mut is_start = true;
    for word in line.split_inclusive(' ') {
        let shown = columns(&visible(word.trim_end_matches(' ')));
        if column + shown > width && !is_start {
            let kept = out.trim_end_matches(' ').len();
            out.truncate(kept);
            out.push('\n');
            out.push_str(rest);
            column = begin;
        }
        out.push_str(word);
        column += columns(&visible(word));
        is_start = is_start && shown == 0;
    }
}

/// Returns a text without the sequences for styles.
fn visible(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|one: char| one.is_ascii_alphabetic());
        out.push_str(end.and_then(|end| part.get(end + 1..)).unwrap_or_default());
    }
    out
}

fn columns(text: &str) -> usize {
    text.chars().map(|one| one.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_continue_at_words_with_their_indentation() {
        for (text, expected) in [
            ("short\n", "short\n"),
            (
                "warning[x]: a message that is longer than forty columns\n",
                "warning[x]: a message that is longer\n  than forty columns\n",
            ),
            (
                "  = help: write the arguments of the call as one JSON object\n",
                "  = help: write the arguments of the\n          call as one JSON object\n",
            ),
            (
                "  │ sh deploy.sh 'stage two' --verbose --to production\n",
                "  │ sh deploy.sh 'stage two' --verbose\n  ┆ --to production\n",
            ),
            (
                "\u{1b}[1merror\u{1b}[0m: a bold message that is longer than that\n",
                "\u{1b}[1merror\u{1b}[0m: a bold message that is longer\n  than that\n",
            ),
            (
                "see https://example.test/a/very/long/address/of/a/page and go\n",
                "see\n  https://example.test/a/very/long/address/of/a/page\n  and go\n",
            ),
            ("Run it? [y/N] ", "Run it? [y/N] "),
        ] {
            assert_eq!(wrapped(text, 40), expected);
        }
    }

    #[test]
    fn quoted_lines_are_clipped_and_labels_continue_below_themselves() {
        let place = " --> prompts/a-long-name-of-a-prompt-file.md:1:2\n  |\n";
        let long = "1 | <user>a line of the \u{1b}[1msource\u{1b}[0m, that is clipped</user>\n";
        let clipped = "1 | <user>a line of the \u{1b}[1msource\u{1b}[0m, that is…\n";
        let label = "  |  ^^^^ expected a name that the table has\n  | more\n";
        let continued = "  |  ^^^^ expected a name that the table\n  |       has\n  | more\n";
        assert_eq!(
            wrapped(&format!("{place}{long}{label}"), 40),
            format!("{place}{clipped}{continued}")
        );
    }
}
