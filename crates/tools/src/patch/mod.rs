//! The patches that models write: files named between `*** Begin Patch` and `*** End Patch`, hunks
//! that are placed by the lines around them instead of line numbers.
//!
//! [`parse`](parse::parse) reads the envelope and decides nothing about files. [`apply`](apply::apply)
//! puts the hunks of one file into its text. Both are pure; what the text of an error says is for the
//! model, which shall write a better patch after reading it.

pub(crate) mod apply;
pub(crate) mod parse;
mod seek;

/// A line as an error shows it.
fn shown(line: &str) -> String {
    const MOST: usize = 120;
    let line = line.trim_end();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
