//! An unfinished table: rows of cells, each on one line.

/// Maximum cells of a row; further cells join the last one.
const MAX_CELLS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    row: Option<Vec<String>>,
    cell: bool,
    bytes: usize,
}

impl Table {
    /// Returns the length of the table in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_in_cell(&self) -> bool {
        self.cell
    }

    /// Returns whether the table has no cell.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.row.as_ref().is_none_or(Vec::is_empty)
    }

    pub(crate) fn open_row(&mut self) {
        self.row = Some(Vec::new());
    }

    pub(crate) fn open_cell(&mut self) {
        self.row.get_or_insert_default();
        self.cell = true;
    }

    /// Ends the open cell with its text, and adds `empty` cells.
    ///
    /// Empty cells fill the other columns of a cell that spans several.
    pub(crate) fn close_cell(&mut self, text: String, empty: usize) {
        self.cell = false;
        self.bytes = self.bytes.saturating_add(text.len() + 4);
        let row = self.row.get_or_insert_default();
        if row.len() < MAX_CELLS {
            row.push(text);
            let empty = empty.min(MAX_CELLS - row.len());
            row.extend(std::iter::repeat_n(String::new(), empty));
            self.bytes = self.bytes.saturating_add(empty * 4);
        } else if let Some(last) = row.last_mut().filter(|_| !text.is_empty()) {
            last.push(' ');
            last.push_str(&text);
        }
    }

    pub(crate) fn close_row(&mut self) {
        if let Some(row) = self.row.take()
            && row.iter().any(|cell| !cell.is_empty())
        {
            self.bytes = self.bytes.saturating_add(4);
            self.rows.push(row);
        }
    }

    /// Returns the lines of a Markdown table.
    ///
    /// Returns `None` for a single column or row, which is more readable as text.
    pub(crate) fn markdown(&self) -> Option<Vec<String>> {
        let columns = self.rows.iter().map(Vec::len).max()?;
        if columns < 2 || self.rows.len() < 2 {
            return None;
        }
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (at, row) in self.rows.iter().enumerate() {
            let mut line = String::from("|");
            for cell in row {
                line.push(' ');
                push_cell(cell, &mut line);
                line.push_str(" |");
            }
            if at == 0 {
                // The first row determines the number of columns.
                line.push_str(&"  |".repeat(columns - row.len().min(columns)));
                lines.push(line);
                lines.push(format!("|{}", " --- |".repeat(columns)));
            } else {
                lines.push(line);
            }
        }
        Some(lines)
    }

    /// Returns each row as a line of text.
    pub(crate) fn text(&self, separator: &str) -> impl Iterator<Item = String> {
        let filled = |cell: &&String| !cell.is_empty();
        self.rows.iter().map(move |row| {
            let cells: Vec<&str> = row.iter().filter(filled).map(String::as_str).collect();
            cells.join(separator)
        })
    }
}

/// Appends a cell; escapes bars and line ends, which would end it.
fn push_cell(cell: &str, line: &mut String) {
    for character in cell.chars() {
        match character {
            '|' => line.push_str("\\|"),
            '\n' => line.push(' '),
            _ => line.push(character),
        }
    }
}
