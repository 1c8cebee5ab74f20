//! Errors of the command line in plain words, with new names of old flags.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Old flags and their new names. A command that still has a flag of that name accepts it.
const FLAGS: &[(&str, &str)] = &[
    ("--approve", "--permission"),
    ("--max-turns", "--max-requests"),
    ("--max-tokens", "--max-total-tokens"),
    ("--budget", "--max-cost"),
    ("--max-depth", "--max-agent-depth"),
    ("--no-write", "--no-save"),
    ("--lang", "--from"),
    ("--debug-channels", "--show-hidden"),
    ("--completion", "--next-role"),
    ("--thinking", "--keep-reasoning"),
    ("--lines", "--jsonl"),
    ("--specials", "--special-tokens"),
    ("--expand", "--expand-imports"),
    ("--at-once", "--concurrency"),
    ("--no-files", "--no-file-checks"),
    ("--note", "--reason"),
    ("--at", "--messages"),
    ("--list", "list"),
];

/// Explains an error: expected numbers, and the new name of a renamed flag or command.
///
/// Advice to send an unknown flag as text is removed.
pub(crate) fn plain_error(mut error: clap::Error, first_argument: &str) -> clap::Error {
    if let Some(expected) = expected_number(&error) {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.as_str(),
            _ => "",
        };
        let message = format!(
            "invalid value '{}' for '{}': expected {expected}\n\n\
             For more information, try '--help'.\n",
            text(ContextKind::InvalidValue),
            text(ContextKind::InvalidArg),
        );
        return clap::Error::raw(ErrorKind::ValueValidation, message);
    }
    let tip = match (error.kind(), invalid(&error)) {
        (ErrorKind::UnknownArgument, Some(flag)) => {
            let renamed = FLAGS.iter().find(|(old, _)| *old == flag);
            renamed.map(|(old, new)| format!("`{old}` was renamed to `{new}`"))
        }
        (ErrorKind::InvalidSubcommand, Some(name)) => match (first_argument, name.as_str()) {
            (group, "help") => Some(format!("`logue help {group}` prints its help")),
            ("sessions", "tail") => Some("`tail` was renamed to `outcomes`".to_owned()),
            ("trust", file) => Some(format!("`trust {file}` was renamed to `trust add {file}`")),
            _ => None,
        },
        _ => return error,
    };
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    if tip.is_some() || is_unknown {
        error.remove(ContextKind::Suggested);
    }
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    error
}

/// Returns the numbers that a flag accepts, if an error is about them.
fn expected_number(error: &clap::Error) -> Option<String> {
    let cause = error.source()?;
    if cause.is::<std::num::ParseIntError>() {
        return Some("a whole number".to_owned());
    }
    let cause = cause.to_string();
    let (_, range) = cause.split_once(" is not in ")?;
    let (least, most) = range.split_once("..")?;
    let most = most.trim_start_matches('=');
    if most.is_empty() || most == u64::MAX.to_string() {
        return Some(format!("a whole number of at least {least}"));
    }
    Some(format!("a whole number from {least} to {most}"))
}

/// Returns the unknown flag or subcommand of an error, without a value.
fn invalid(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    let value = kinds.into_iter().find_map(|kind| error.get(kind))?;
    let ContextValue::String(text) = value else {
        return None;
    };
    let name = text.split_once('=').map_or(text.as_str(), |(name, _)| name);
    Some(name.to_owned())
}
