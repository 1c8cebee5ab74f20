//! Command lines split into words without a shell.
//!
//! Words are separated by white space. Text between single quotes is literal. Between double quotes
//! a backslash escapes `"` and `\`; elsewhere it escapes any character, and `%20` is a space.
//! Nothing is expanded: `$HOME`, `*`, `|` and `;` are literal.

use std::fmt;

/// An error in a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandError {
    /// It has no words.
    Empty,
    /// A quote is not closed.
    UnclosedQuote(char),
    /// A backslash at the end escapes nothing.
    LoneBackslash,
    /// Arguments cannot contain NUL.
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

/// Splits a command into at least one word.
///
/// # Errors
/// Returns an error if the text is not a command.
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
