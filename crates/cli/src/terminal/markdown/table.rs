//! Tables, which are laid out when they are complete.

use unicode_width::UnicodeWidthStr;

use crate::terminal::markdown::inline::spans;
use crate::terminal::markdown::style::{Look, Span, Style, paint};
use crate::terminal::markdown::wrap::{Wrapper, width_of};

/// The space and the line between two cells.
const GAP: usize = 3;

/// Returns the lines of a table; `None` if it is not one, or too wide.
pub(super) fn table(rows: &[String], prefix: &str, width: usize, look: Look) -> Option<String> {
    let [heading, rule, body @ ..] = rows else {
        return None;
    };
    let is_rule = |cell: &String| {
        let dashes = cell.trim_matches(':');
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    };
    let rule = cells(rule);
    if rule.is_empty() || !rule.iter().all(is_rule) {
        return None;
    }
    let count = rule.len();
    let style = |at: usize| if at == 0 { Style::BOLD } else { Style::PLAIN };
    let rows: Vec<Vec<Vec<Span>>> = std::iter::once(heading)
        .chain(body)
        .enumerate()
        .map(|(at, row)| {
            let mut row = cells(row);
            row.resize(count.max(row.len()), String::new());
            row.iter()
                .map(|cell| spans(cell, style(at), look))
                .collect()
        })
        .collect();
    // Cells beyond the heading's would be lost.
    if rows.iter().any(|row| row.len() > count) {
        return None;
    }
    let column = |at: usize, measure: fn(&[Span]) -> usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| measure(cell)).max().unwrap_or(0).max(1)
    };
    let columns: Vec<Column> = (0..count)
        .map(|at| Column {
            width: column(at, width_of),
            least: column(at, longest_word),
        })
        .collect();
    let available = width.saturating_sub(prefix.width() + GAP * (count - 1));
    let widths = fitted(columns, available)?;
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        write_row(row, &widths, prefix, look, &mut out);
        if at == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            let line = format!("{prefix}{}\n", lines.join("─┼─"));
            paint_dim(&line, look, &mut out);
        }
    }
    Some(out)
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

fn longest_word(cell: &[Span]) -> usize {
    let text: String = cell.iter().map(|span| span.text.as_str()).collect();
    text.split_whitespace()
        .map(UnicodeWidthStr::width)
        .max()
        .unwrap_or(0)
}

fn write_row(row: &[Vec<Span>], widths: &[usize], prefix: &str, look: Look, out: &mut String) {
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
        .zip(widths)
        .map(|(cell, width)| (lines(cell, *width, plain), lines(cell, *width, look)))
        .collect();
    let height = cells
        .iter()
        .map(|(visible, _)| visible.len())
        .max()
        .unwrap_or(0)
        .max(1);
    for line in 0..height {
        paint_dim(prefix, look, out);
        for (at, ((visible, styled), width)) in cells.iter().zip(widths).enumerate() {
            if at > 0 {
                paint_dim(" │ ", look, out);
            }
            let used = visible.get(line).map_or(0, |text| text.width());
            out.push_str(styled.get(line).map_or("", String::as_str));
            if at + 1 < widths.len() {
                out.push_str(&" ".repeat(width.saturating_sub(used)));
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
