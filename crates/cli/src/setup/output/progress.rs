//! Progress lines and warnings of a turn.

use std::time::Duration;

use logue_message::ToolCall;
use logue_model::FinishReason;
use logue_source::{escape_json, escape_line, excerpt};
use logue_tools::{APPROVAL_STALE, ARGUMENTS_REDACTED};

use crate::terminal::print_error;

/// The characters of a call's arguments in a progress line.
const ARGUMENTS: usize = 60;

/// The characters of a failed call's result in a warning.
const REASON: usize = 300;

/// Returns whether the code means that an approved call was not run.
pub(super) fn is_refused(code: Option<&str>) -> bool {
    matches!(code, Some(APPROVAL_STALE | ARGUMENTS_REDACTED))
}

/// Warns that an approved call did not run, or failed.
pub(super) fn without_effect(name: &str, code: Option<&str>, text: &str) {
    let reason = code.and_then(|code| text.split_once(code));
    let reason = reason.map_or(text, |(_, reason)| reason.trim_start_matches(": "));
    let what = if is_refused(code) {
        "was not run"
    } else {
        "failed"
    };
    let code = code.map_or(String::new(), |code| format!("[{code}]"));
    print_error(&format!(
        "warning{code}: the approved call of {} {what}: {}\n",
        escape_line(name),
        excerpt(reason, REASON)
    ));
}

pub(super) fn warn_of_cut(cut: Option<FinishReason>) {
    let why = match cut {
        None => return,
        Some(FinishReason::Length) => {
            "it reached the length limit; raise `max_tokens` in <config/>"
        }
        Some(_) => "the server's filter ended it",
    };
    print_error(&format!("warning: the answer is incomplete: {why}\n"));
}

/// Formats a wait for people.
pub(super) fn shown_wait(wait: Duration) -> String {
    format!("{:.1} s", wait.as_secs_f64())
}

/// Formats a call as one short line.
pub(super) fn described(call: &ToolCall) -> String {
    let arguments = escape_json(call.arguments.as_str());
    let arguments = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = match arguments.char_indices().nth(ARGUMENTS) {
        Some((at, _)) => format!("{}…", &arguments[..at]),
        None => arguments,
    };
    format!("{} {short}", escape_line(&call.name))
}
