//! Messages for TOML that does not fit the tables, in the terms of the file.
//!
//! The parser names the types of the program; people know keys, numbers and lists.

use logue_source::Span;
use toml::de::{DeTable, DeValue, Error};

/// Old names of tables and keys, and their new names.
const RENAMED: &[(&str, &str)] = &[
    ("approve", "[permissions.rules]"),
    ("run.max_turns", "max_requests"),
    ("run.max_tokens", "max_total_tokens"),
    ("run.budget", "max_cost_usd"),
    ("run.max_depth", "max_agent_depth"),
    ("run.wait_seconds", "lock_timeout_seconds"),
    ("run.agent_cache_hours", "agent_cache_ttl_hours"),
    ("model.dialect", "server"),
];

/// Returns the position and the message of an error.
pub(super) fn reading_error(text: &str, error: &Error) -> (Span, String) {
    let range = error.span().unwrap_or_default();
    let path = DeTable::parse(text)
        .ok()
        .and_then(|table| path_at(table.get_ref(), range.start))
        .unwrap_or_default();
    (Span::from(range), plain(error.message(), &path))
}

/// Translates a message; `path` leads to the key at its position.
fn plain(message: &str, path: &[String]) -> String {
    let (key, tables) = path
        .split_last()
        .map_or(("", path), |(key, tables)| (key.as_str(), tables));
    if let Some(unknown) = message.strip_prefix("unknown field ") {
        let path = path.join(".");
        if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == path) {
            return format!("unknown key `{key}`: it was renamed to `{new}`");
        }
        let (name, expected) = unknown.split_once(", expected ").unwrap_or((unknown, ""));
        let names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let near = chatmd::suggest(key, names.iter().copied());
        let near = near.map_or(String::new(), |near| format!(" (did you mean `{near}`?)"));
        let names = names.join(", ");
        return if tables.is_empty() {
            format!("unknown key {name}{near}; tables of the file are {names}")
        } else {
            format!(
                "unknown key {name}{near}; keys of [{}] are {names}",
                tables.join(".")
            )
        };
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("the key {name} is missing");
    }
    let value = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|value| value.rsplit_once(", expected "))
        .map(|(found, expected)| (found_value(found), expected_value(expected).to_owned()))
        .or_else(|| {
            let (found, expected) = message
                .strip_prefix("unknown variant ")?
                .split_once(", expected ")?;
            Some((found.to_owned(), expected.to_owned()))
        });
    match value {
        Some((found, expected)) if key.is_empty() => format!("expected {expected}, found {found}"),
        Some((found, expected)) => format!("`{key}`: expected {expected}, found {found}"),
        None => message.to_owned(),
    }
}

fn found_value(found: &str) -> String {
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        _ => match found.split_once(' ') {
            Some(("string", text)) => format!("the text {text}"),
            Some((_, value)) if value.contains('`') => {
                value.rsplit('`').nth(1).unwrap_or(value).to_owned()
            }
            _ => found.to_owned(),
        },
    }
}

fn expected_value(expected: &str) -> &str {
    match expected {
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "a nonzero u64" | "a nonzero usize" => "a whole number of at least 1",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number of at least 0",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "path string" => "a path in quotes",
        "a sequence" => "a list in brackets",
        "a map" => "a table",
        _ if expected.starts_with("struct ") => "a table",
        _ => expected,
    }
}

/// Returns the path to the key or the value that begins at a position.
fn path_at(table: &DeTable<'_>, start: usize) -> Option<Vec<String>> {
    table.iter().find_map(|(key, value)| {
        let is_here = key.span().start == start || value.span().start == start;
        let below = match value.get_ref() {
            // The span of a table may begin at its first key.
            DeValue::Table(inner) => path_at(inner, start),
            DeValue::Array(items) => items.iter().find_map(|item| match item.get_ref() {
                DeValue::Table(inner) => path_at(inner, start),
                _ => (item.span().start == start).then(Vec::new),
            }),
            _ => None,
        };
        let below = below.or_else(|| is_here.then(Vec::new))?;
        let mut path = vec![key.get_ref().to_string()];
        path.extend(below);
        Some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::config::Tables;

    fn message(text: &str) -> String {
        let error = toml::from_str::<Tables>(text).unwrap_err();
        reading_error(text, &error).1
    }

    #[test]
    fn messages_name_keys_and_no_types_of_the_program() {
        for (text, expected) in [
            (
                "[run]\nmax_turns = 3\n",
                "unknown key `max_turns`: it was renamed to `max_requests`",
            ),
            (
                "[run]\nmax_turn = 3\n",
                "unknown key `max_turn`; keys of [run] are max_requests, lock_timeout_seconds, \
                 agent_cache_ttl_hours, max_total_tokens, max_cost_usd, max_agent_depth, on_crash",
            ),
            (
                "[model]\nharmony = { promt = 1 }\n",
                "unknown key `promt` (did you mean `prompt`?); keys of [model.harmony] are prompt, server",
            ),
            (
                "[run]\nmax_requests = 0\n",
                "`max_requests`: expected a whole number from 1 to 4294967295, found 0",
            ),
            (
                "[model]\ntotal_timeout_seconds = 0\n",
                "`total_timeout_seconds`: expected a whole number of at least 1, found 0",
            ),
            (
                "[tools]\nmax_output_bytes = \"1k\"\n",
                "`max_output_bytes`: expected a whole number of at least 0, found the text \"1k\"",
            ),
            (
                "[tools]\nmax_output_bytes = -1\n",
                "`max_output_bytes`: expected a whole number of at least 0, found -1",
            ),
            (
                "[tools.settings.t]\nnetwork = 1.5\n",
                "`network`: expected true or false, found 1.5",
            ),
            (
                "[tools]\nroots = \"x\"\n",
                "`roots`: expected a list in brackets, found the text \"x\"",
            ),
            (
                "[tools]\nsandbox = \"on\"\n",
                "`sandbox`: expected one of `auto`, `landlock`, `bwrap`, `off`, found `on`",
            ),
            (
                "[run]\nmax_cost_usd = \"x\"\n",
                "`max_cost_usd`: expected a number, found the text \"x\"",
            ),
            (
                "[[redact.rule]]\nname = \"x\"\n",
                "the key `pattern` is missing",
            ),
        ] {
            assert_eq!(message(text), expected, "{text}");
        }
        let renamed = message("[approve]\nx = \"ask\"\n");
        assert_eq!(
            renamed,
            "unknown key `approve`: it was renamed to `[permissions.rules]`"
        );
        let unknown = message("[allow]\nx = \"ask\"\n");
        let start = "unknown key `allow`; tables of the file are model, models, tools, run,";
        assert!(unknown.starts_with(start), "{unknown}");
    }
}
