//! A command line taken apart without a shell.
//!
//! Words are separated by white space. What is between single quotes stands for itself. Between
//! double quotes everything stands for itself but a backslash, which makes the next `"` or `\` stand
//! for itself. Elsewhere a backslash does that for any character, and `%20` is a space. Nothing is
//! ever replaced: `$HOME`, `*`, `|` and `;` are what they look like.

use std::fmt;

/// Why a text is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandError {
    /// There is no word in it.
    Empty,
    /// A quote is never closed.
    UnclosedQuote(char),
    /// A backslash at the end stands for nothing.
    LoneBackslash,
    /// No argument can hold a NUL character.
    Nul,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the command is empty"),
            Self::UnclosedQuote(quote) => write!(
                f,
                "the command has a `{quote}` that is never closed; write `\\{quote}` for the character"
            ),
            Self::LoneBackslash => {
                f.write_str("the command ends in a backslash; write `\\\\` for the character")
            }
            Self::Nul => f.write_str("the command holds a NUL character"),
        }
    }
}

impl std::error::Error for CommandError {}

/// The words of a command, at least one.
///
/// # Errors
/// The text is no command.
pub fn command_words(command: &str) -> Result<Vec<String>, CommandError> {
    if command.contains('\0') {
        return Err(CommandError::Nul);
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(character) = rest.next() {
        if character.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match character {
            '\'' => loop {
                match rest.next().ok_or(CommandError::UnclosedQuote('\''))? {
                    '\'' => break,
                    other => word.push(other),
                }
            },
            '"' => loop {
                match rest.next().ok_or(CommandError::UnclosedQuote('"'))? {
                    '"' => break,
                    '\\' if rest.as_str().starts_with(['"', '\\']) => word.extend(rest.next()),
                    other => word.push(other),
                }
            },
            '\\' => word.push(rest.next().ok_or(CommandError::LoneBackslash)?),
            '%' if rest.as_str().starts_with("20") => {
                word.push(' ');
                rest.nth(1);
            }
            other => word.push(other),
        }
    }
    words.extend(word);
    if words.is_empty() {
        Err(CommandError::Empty)
    } else {
        Ok(words)
    }
}
