//! Token ids in files, for `tokens` and `debug`.

use logue_o200k::VOCABULARY_SIZE;
use serde_json::Value;

use crate::exit::CliError;
use crate::files::json_cause;

/// Parses ids of the vocabulary: a JSON array, or numbers separated by white space.
pub(crate) fn ids_of(name: &str, text: &[u8]) -> Result<Vec<u32>, CliError> {
    parsed_ids(name, text, |id| logue_o200k::token_bytes(id).is_some())
}

/// Parses ids like [`ids_of`], also those that the vocabulary does not have.
pub(crate) fn any_ids_of(name: &str, text: &[u8]) -> Result<Vec<u32>, CliError> {
    parsed_ids(name, text, |_| true)
}

fn parsed_ids(
    name: &str,
    text: &[u8],
    is_known: impl Fn(u32) -> bool,
) -> Result<Vec<u32>, CliError> {
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
        let known = id.filter(|id| is_known(*id));
        known.ok_or_else(|| wrong(shown))
    };
    let text = String::from_utf8_lossy(text);
    if !text.trim_start().starts_with('[') {
        let words = text.split_whitespace();
        return words.map(|word| id(word.parse().ok(), word)).collect();
    }
    let values: Vec<Value> = serde_json::from_str(&text).map_err(|error| {
        CliError::user("invalid_token_ids", json_cause(name, &error))
            .with_help("give an array of numbers, such as [200006, 1428]")
    })?;
    let ids = values.iter();
    ids.map(|value| id(value.as_u64(), &value.to_string()))
        .collect()
}
