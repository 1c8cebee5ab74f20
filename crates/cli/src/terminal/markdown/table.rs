//! Tables, which are laid out when they are complete.

use unicode_width::UnicodeWidthStr;

use crate::terminal::markdown::inline::spans;
use crate::terminal::markdown::style::{Look, Span, Style, paint};
use crate::terminal::markdown::wrap::{LINE_BREAK, Wrapper, may_break_between};

/// The space and the line between two cells.
const GAP: usize = 3;

/// The columns of a value after its heading in a block for each row.
const VALUE_INDENT: usize = 2;

/// The maximum number of columns; further cells of a row belong to its last column.
const MAX_COLUMNS: usize = 64;

/// The place of the text in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    Left,
    Right,
    Centre,
}

/// Returns whether a row separates the heading from the rows.
pub(super) fn is_rule(row: &str) -> bool {
    !alignments(row).is_empty()
}

/// Returns the alignments of the columns; nothing if the row is not a rule.
fn alignments(row: &str) -> Vec<Alignment> {
    let cells = cells(row);
    let found: Option<Vec<Alignment>> = cells.iter().map(|cell| alignment(cell)).collect();
    found.unwrap_or_default()
}

fn alignment(cell: &str) -> Option<Alignment> {
    let dashes = cell.strip_prefix(':').unwrap_or(cell);
    let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
    if dashes.is_empty() || !dashes.bytes().all(|byte| byte == b'-') {
        return None;
    }
    Some(match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => Alignment::Centre,
        (false, true) => Alignment::Right,
        _ => Alignment::Left,
    })
}

/// Returns the lines of a heading, a rule and rows; nothing without them.
///
/// Where the words do not fit into columns, each row is a block of headings with their values.
pub(super) fn table(rows: &[String], prefix: &str, width: usize, look: Look) -> String {
    let [heading, rule, body @ ..] = rows else {
        return String::new();
    };
    let mut alignments = alignments(rule);
    let style = |at: usize| if at == 0 { Style::BOLD } else { Style::PLAIN };
    let mut rows: Vec<Vec<Vec<Span>>> = std::iter::once(heading)
        .chain(body)
        .enumerate()
        .map(|(at, row)| {
            let row = cells(row);
            row.iter()
                .map(|cell| spans(cell, ' ', style(at), look))
                .collect()
        })
        .collect();
    // Cells beyond those of the heading have columns too.
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let count = count.max(alignments.len()).min(MAX_COLUMNS);
    alignments.resize(count, Alignment::Left);
    for row in &mut rows {
        let surplus: Vec<Span> = row.drain(count.min(row.len())..).flatten().collect();
        row.resize(count, Vec::new());
        if let Some(last) = row.last_mut() {
            last.extend(surplus);
        }
    }
    let column = |at: usize, measure: fn(&[Span]) -> usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| measure(cell)).max().unwrap_or(0).max(1)
    };
    let columns: Vec<Column> = (0..count)
        .map(|at| Column {
            width: column(at, longest_line),
            least: column(at, longest_word),
        })
        .collect();
    let gaps = GAP * count.saturating_sub(1);
    let available = width.saturating_sub(prefix.width() + gaps);
    let mut out = String::new();
    let Some(widths) = fitted(columns, available) else {
        write_blocks(&rows, prefix, width, look, &mut out);
        return out;
    };
    let columns: Vec<(usize, Alignment)> = widths.iter().copied().zip(alignments).collect();
    for (at, row) in rows.iter().enumerate() {
        write_row(row, &columns, prefix, look, &mut out);
        if at == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            let line = format!("{prefix}{}\n", lines.join("─┼─"));
            paint_dim(&line, look, &mut out);
        }
    }
    out
}

/// Writes each row as lines of headings and values.
fn write_blocks(rows: &[Vec<Vec<Span>>], prefix: &str, width: usize, look: Look, out: &mut String) {
    let [heading, body @ ..] = rows else {
        return;
    };
    // A table of headings only.
    let none = [vec![Vec::new(); heading.len()]];
    let body = if body.is_empty() {
        none.as_slice()
    } else {
        body
    };
    for (at, row) in body.iter().enumerate() {
        if at > 0 {
            let columns = width.saturating_sub(prefix.width()).min(8);
            paint_dim(&format!("{prefix}{}\n", "─".repeat(columns)), look, out);
        }
        for (heading, value) in heading.iter().zip(row) {
            if value.is_empty() && !body_is_empty(rows) {
                continue;
            }
            let mut spans = heading.clone();
            if !heading.is_empty() && !value.is_empty() {
                spans.push(Span::new(": ", Style::BOLD));
            }
            spans.extend(value.iter().cloned());
            let rest = format!("{prefix}{}", " ".repeat(VALUE_INDENT));
            let mut wrapper = Wrapper::new(look, prefix.to_owned(), rest);
            wrapper.push(&spans, width, out);
            wrapper.finish(width, out);
        }
    }
}

/// Returns whether a table has a heading only.
fn body_is_empty(rows: &[Vec<Vec<Span>>]) -> bool {
    rows.len() < 2
}

/// The width of a column.
struct Column {
    width: usize,
    /// The width of its longest word.
    least: usize,
}

/// Reduces the widest columns until all fit; `None` if a word would be divided.
fn fitted(mut columns: Vec<Column>, available: usize) -> Option<Vec<usize>> {
    while columns.iter().map(|column| column.width).sum::<usize>() > available {
        let reducible = columns
            .iter_mut()
            .filter(|column| column.width > column.least);
        reducible.max_by_key(|column| column.width)?.width -= 1;
    }
    Some(columns.iter().map(|column| column.width).collect())
}

fn text_of(cell: &[Span]) -> String {
    cell.iter().map(|span| span.text.as_str()).collect()
}

fn longest_line(cell: &[Span]) -> usize {
    let text = text_of(cell);
    let lines = text.split(LINE_BREAK);
    lines.map(UnicodeWidthStr::width).max().unwrap_or(0)
}

fn longest_word(cell: &[Span]) -> usize {
    let mut longest = 0;
    for word in text_of(cell).split_whitespace() {
        let mut start = 0;
        let characters: Vec<(usize, char)> = word.char_indices().collect();
        for pair in characters.windows(2) {
            if let [(_, last), (at, next)] = *pair
                && may_break_between(last, next)
            {
                longest = longest.max(word.get(start..at).unwrap_or_default().width());
                start = at;
            }
        }
        longest = longest.max(word.get(start..).unwrap_or_default().width());
    }
    longest
}

fn write_row(
    row: &[Vec<Span>],
    columns: &[(usize, Alignment)],
    prefix: &str,
    look: Look,
    out: &mut String,
) {
    let plain = Look {
        has_styles: false,
        has_links: false,
    };
    // The visible and the styled lines of each cell.
    let lines = |cell: &[Span], width: usize, look: Look| -> Vec<String> {
        let mut wrapper = Wrapper::narrow(look);
        let mut text = String::new();
        wrapper.push(cell, width, &mut text);
        wrapper.finish(width, &mut text);
        text.lines().map(str::to_owned).collect()
    };
    let cells: Vec<(Vec<String>, Vec<String>)> = row
        .iter()
        .zip(columns)
        .map(|(cell, (width, _))| (lines(cell, *width, plain), lines(cell, *width, look)))
        .collect();
    let height = cells
        .iter()
        .map(|(visible, _)| visible.len())
        .max()
        .unwrap_or(0)
        .max(1);
    for line in 0..height {
        paint_dim(prefix, look, out);
        for (at, ((visible, styled), (width, alignment))) in cells.iter().zip(columns).enumerate() {
            if at > 0 {
                paint_dim(" │ ", look, out);
            }
            let used = visible.get(line).map_or(0, |text| text.width());
            let free = width.saturating_sub(used);
            let before = match alignment {
                Alignment::Left => 0,
                Alignment::Right => free,
                Alignment::Centre => free / 2,
            };
            if used > 0 {
                out.push_str(&" ".repeat(before));
            }
            out.push_str(styled.get(line).map_or("", String::as_str));
            if at + 1 < columns.len() {
                let before = if used > 0 { before } else { 0 };
                out.push_str(&" ".repeat(free - before));
            }
        }
        out.push('\n');
    }
}

fn paint_dim(text: &str, look: Look, out: &mut String) {
    if !text.is_empty() {
        let (line, end) = match text.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (text, ""),
        };
        paint(out, &Span::new(line, Style::DIM), look);
        out.push_str(end);
    }
}

/// Returns the cells of a row; `|` in code or after a backslash is text.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let (mut in_code, mut is_escaped) = (false, false);
    for character in row.chars() {
        let Some(cell) = cells.last_mut() else {
            break;
        };
        match character {
            '|' if is_escaped => {
                cell.pop();
                cell.push('|');
            }
            '|' if !in_code => cells.push(String::new()),
            _ => {
                in_code ^= character == '`';
                cell.push(character);
            }
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    // The row ended with a separator.
    if cells.last().is_some_and(String::is_empty) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}
