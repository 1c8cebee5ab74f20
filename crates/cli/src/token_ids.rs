//! Reading of files and token ids for `tokens` and `debug`.

use std::io;
use std::path::Path;

use logue_agent::{read_all, read_bytes};
use logue_o200k::VOCABULARY_SIZE;
use serde_json::Value;

use crate::exit::CliError;
use crate::setup::failures::source_failure;

pub(crate) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Returns the name of a file for messages.
pub(crate) fn name(file: &Path) -> String {
    if is_stdin(file) {
        "<stdin>".to_owned()
    } else {
        file.display().to_string()
    }
}

/// Reads a file and returns its name for messages and its bytes.
pub(crate) fn read_file(file: &Path) -> Result<(String, Vec<u8>), CliError> {
    let name = name(file);
    let read = if is_stdin(file) {
        read_all(&name, io::stdin().lock())
    } else {
        read_bytes(file)
    };
    Ok((name, read.map_err(|error| source_failure(&error))?))
}

/// Parses token ids from a JSON array, or from numbers separated by white space.
pub(crate) fn ids_of(name: &str, text: &[u8]) -> Result<Vec<u32>, CliError> {
    let wrong = |what: &str| {
        let shown: String = what.chars().take(40).collect();
        CliError::user(
            "invalid_token_ids",
            format!("`{name}`: invalid token id `{shown}`"),
        )
        .with_help(format!(
            "give a JSON array, or numbers from 0 to {} separated by white space",
            VOCABULARY_SIZE - 1
        ))
    };
    let id = |number: Option<u64>, shown: &str| {
        let id = number.and_then(|number| u32::try_from(number).ok());
        let known = id.filter(|id| logue_o200k::token_bytes(*id).is_some());
        known.ok_or_else(|| wrong(shown))
    };
    let text = String::from_utf8_lossy(text);
    if !text.trim_start().starts_with('[') {
        let words = text.split_whitespace();
        return words.map(|word| id(word.parse().ok(), word)).collect();
    }
    let values: Vec<Value> = serde_json::from_str(&text).map_err(|error| {
        CliError::user(
            "invalid_token_ids",
            format!("`{name}` is not JSON: {error}"),
        )
        .with_help("give an array of numbers, such as [200006, 1428]")
    })?;
    let ids = values.iter();
    ids.map(|value| id(value.as_u64(), &value.to_string()))
        .collect()
}
