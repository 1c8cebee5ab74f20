//! Tables with columns as wide as their longest cell.

use logue_source::ColorMode;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Formats rows under their headings, which are bold on a terminal with colours.
pub(crate) fn table<const N: usize>(
    columns: [(&str, Align); N],
    rows: &[[String; N]],
    style: ColorMode,
) -> String {
    let mut widths = columns.map(|(heading, _)| heading.len());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; N]| {
        let cells = cells.iter().zip(widths).zip(columns);
        let cells: Vec<String> = cells
            .map(|((cell, width), (_, align))| match align {
                Align::Left => format!("{cell:width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
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
