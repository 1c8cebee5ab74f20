//! Tables whose columns fit the terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _};

use crate::setup::environment::variable;
use logue_source::ColorMode;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// The maximum padding of a cell. A longer cell moves the rest of its own row only.
const MAX_PADDING: usize = 64;
/// The width below which a column is not shortened.
const MIN_WIDTH: usize = 8;
/// The space between two columns.
const GAP: &str = "  ";

/// Formats rows under their headings, which are bold on a terminal with colours.
///
/// On a terminal, or if `COLUMNS` is set, the widest columns are shortened until a row fits the width.
/// Elsewhere every cell is written in full.
pub(crate) fn table<const N: usize>(
    columns: [(&str, Align); N],
    rows: &[[String; N]],
    style: ColorMode,
) -> String {
    let terminal = io::stdout()
        .is_terminal()
        .then(terminal_size::terminal_size);
    let terminal = terminal.flatten().map(|(width, _)| usize::from(width.0));
    let wanted = variable("COLUMNS").and_then(|width| width.parse().ok());
    let available = wanted.filter(|width| *width > 0).or(terminal);
    fitted(columns, rows, style, available)
}

fn fitted<const N: usize>(
    columns: [(&str, Align); N],
    rows: &[[String; N]],
    style: ColorMode,
    available: Option<usize>,
) -> String {
    let mut widths = columns.map(|(heading, _)| heading.len());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let gaps = GAP.len() * N.saturating_sub(1);
    if let Some(available) = available {
        shrink(&mut widths, available.saturating_sub(gaps));
    }
    let line = |cells: &[String; N]| {
        let cells = cells.iter().zip(widths).zip(columns);
        let cells: Vec<String> = cells
            .map(|((cell, width), (_, align))| {
                let cell = match available {
                    Some(_) => shortened(cell, width),
                    None => cell.into(),
                };
                let padding = width.min(MAX_PADDING).saturating_sub(cell.width());
                let padding = " ".repeat(padding);
                match align {
                    Align::Left => format!("{cell}{padding}"),
                    Align::Right => format!("{padding}{cell}"),
                }
            })
            .collect();
        cells.join(GAP).trim_end().to_owned()
    };
    let heading = line(&columns.map(|(heading, _)| heading.to_owned()));
    let mut text = match style {
        ColorMode::Ansi => format!("\u{1b}[1m{heading}\u{1b}[0m\n"),
        ColorMode::Plain => format!("{heading}\n"),
    };
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}

/// Reduces the widest columns until their sum is at most `available`.
fn shrink(widths: &mut [usize], available: usize) {
    loop {
        let total: usize = widths.iter().sum();
        let Some(excess) = total.checked_sub(available).filter(|excess| *excess > 0) else {
            return;
        };
        let Some(widest) = widths
            .iter()
            .copied()
            .max()
            .filter(|width| *width > MIN_WIDTH)
        else {
            return;
        };
        // The widest column shrinks to the next width at once, so that this ends soon.
        let next = widths.iter().copied().filter(|width| *width < widest).max();
        let floor = next.unwrap_or(MIN_WIDTH).max(MIN_WIDTH);
        let equal = widths
            .iter()
            .filter(|width| **width == widest)
            .count()
            .max(1);
        let step = (widest - floor).min(excess.div_ceil(equal)).max(1);
        for width in widths.iter_mut().filter(|width| **width == widest) {
            *width = widest - step;
        }
    }
}

/// Replaces the middle of a cell that is too wide by an ellipsis.
fn shortened(cell: &str, width: usize) -> Cow<'_, str> {
    if cell.width() <= width {
        return cell.into();
    }
    let room = width.saturating_sub(1);
    let start = fitting(cell.chars(), room.div_ceil(2));
    let end: String = fitting(cell.chars().rev(), room / 2)
        .chars()
        .rev()
        .collect();
    format!("{start}…{end}").into()
}

/// Returns the first characters that fit a width.
fn fitting(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += character.width().unwrap_or_default();
            used <= width
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [(&str, Align); 3] = [
        ("NAME", Align::Left),
        ("SIZE", Align::Right),
        ("FILE", Align::Left),
    ];

    fn rows() -> Vec<[String; 3]> {
        let row = |name: &str, size: &str, file: &str| [name, size, file].map(str::to_owned);
        vec![
            row("a", "1", "x.md"),
            row(
                &"long".repeat(20_000),
                "22",
                "/home/ada/work/prompts/greeting.md",
            ),
            row("名前", "333", ""),
        ]
    }

    #[test]
    fn every_row_fits_a_terminal() {
        for width in [80, 40, 30] {
            let text = fitted(COLUMNS, &rows(), ColorMode::Plain, Some(width));
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
            assert!(text.contains('…'), "{text}");
        }
        // Below the minimum of each column the rows are wider, and whole enough to be read.
        let text = fitted(COLUMNS, &rows(), ColorMode::Plain, Some(1));
        assert!(text.lines().all(|line| line.width() <= 28), "{text}");
    }

    #[test]
    fn a_pipe_gets_every_cell_in_full() {
        let text = fitted(COLUMNS, &rows(), ColorMode::Plain, None);
        assert!(text.contains(&"long".repeat(20_000)), "shortened");
        let first = text.lines().nth(1).unwrap_or_default();
        assert!(first.len() < 80, "{first}");
    }

    #[test]
    fn wide_characters_keep_their_columns() {
        let rows = [["名前", "1", "x"], ["ab", "22", "y"]].map(|row| row.map(str::to_owned));
        let text = fitted(COLUMNS, &rows, ColorMode::Plain, None);
        assert_eq!(text, "NAME  SIZE  FILE\n名前     1  x\nab      22  y\n");
    }
}
