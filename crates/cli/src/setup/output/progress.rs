//! Progress lines and warnings of a turn.

use std::time::Duration;

use logue_agent::TurnReport;
use logue_message::ToolCall;
use logue_model::FinishReason;
use logue_source::{ColorMode, escape_json, escape_line, excerpt};
use logue_tools::{APPROVAL_STALE, ARGUMENTS_REDACTED};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::setup::output::events::cost;
use crate::terminal::{error_style, error_width, print_error};

/// The columns of a call's arguments in a progress line.
const ARGUMENTS: usize = 60;

/// The columns of arguments below which they are not shown.
const MIN_ARGUMENTS: usize = 6;

/// The columns between the parts of a progress line.
const SEPARATORS: usize = "  ".len() + " · ".len();

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
        excerpt(on_one_line(reason), REASON)
    ));
}

/// Returns a text with one space in place of its line breaks and other blanks.
pub(super) fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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

/// Formats a duration for people.
pub(super) fn shown_time(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Returns text of low importance on standard error.
pub(super) fn dim(text: &str) -> String {
    match error_style() {
        ColorMode::Ansi => format!("\u{1b}[2m{text}\u{1b}[0m"),
        ColorMode::Plain => text.to_owned(),
    }
}

/// Formats a call with its outcome and duration; `None` if it was not started.
pub(super) fn outcome_line(call: &ToolCall, ok: bool, took: Option<Duration>) -> String {
    let mark = if ok { "✓" } else { "✗" };
    let outcome = match took {
        None => "denied".to_owned(),
        Some(took) if ok => shown_time(took),
        Some(took) => format!("failed, {}", shown_time(took)),
    };
    let name = escape_line(&call.name);
    let most = error_width().map_or(usize::MAX, |width| {
        width.saturating_sub(mark.width() + name.width() + outcome.width() + SEPARATORS)
    });
    let call = described_within(call, most);
    match error_style() {
        ColorMode::Plain => format!("{mark} {call}· {outcome}"),
        ColorMode::Ansi => {
            let colour = if ok { 32 } else { 31 };
            let rest = dim(&format!("· {outcome}"));
            format!("\u{1b}[{colour}m{mark}\u{1b}[0m {call}{rest}")
        }
    }
}

/// Formats the tokens, the cost and the time of a turn.
pub(super) fn usage_line(report: &TurnReport, time: Duration) -> String {
    let tokens = report.usage.map(|usage| {
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        format!("{input} tokens in, {output} out")
    });
    let cost = cost(report).map(|dollars| format!("${dollars:.4}"));
    let parts = [tokens, cost, Some(shown_time(time))];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Formats a call as one short line.
pub(super) fn described(call: &ToolCall) -> String {
    described_within(call, usize::MAX).trim_end().to_owned()
}

/// Formats a call and a space; its arguments have at most `most` columns.
fn described_within(call: &ToolCall, most: usize) -> String {
    let name = escape_line(&call.name);
    if most < MIN_ARGUMENTS {
        return format!("{name} ");
    }
    let arguments = escape_json(call.arguments.as_str());
    let arguments = on_one_line(&arguments);
    let most = most.min(ARGUMENTS);
    if arguments.width() <= most {
        return format!("{name} {arguments} ");
    }
    let mut short = String::new();
    for character in arguments.chars() {
        if short.width() + character.width().unwrap_or(0) + 1 > most {
            break;
        }
        short.push(character);
    }
    format!("{name} {short}… ")
}
