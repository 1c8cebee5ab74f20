//! The report of a finished program for the model.

use super::ShellOptions;
use super::program::{ExitReason, ProgramOutput, Streams};
use crate::ToolResult;

/// Formats both streams and the exit reason.
///
/// Standard output has no heading unless there is text on standard error.
pub(crate) fn outcome(ran: ProgramOutput, options: &ShellOptions) -> ToolResult {
    let ProgramOutput { streams, end, left } = ran;
    let ok = end == ExitReason::Exited(0);
    let mut text = output_text(streams, options.output_bytes);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("[{}]", describe(&end, options)));
    if left > 0 && ok {
        text.push_str(&format!(
            "\n[it left {left} running, which ended with it: nothing continues in the background]"
        ));
    }
    if ok {
        return ToolResult::success(text);
    }
    let failed = ToolResult::failure_with_text(text);
    match code(&end) {
        Some(code) => failed.with_code(code),
        None => failed,
    }
}

/// Returns the stable code of an exit reason.
fn code(end: &ExitReason) -> Option<&'static str> {
    Some(match end {
        ExitReason::TimedOut => "E-TOOL-TIMEOUT",
        ExitReason::Flooded | ExitReason::Excessive(_) => "E-TOOL-LIMIT-EXCEEDED",
        ExitReason::Refused(_) => "E-SANDBOX-UNAVAILABLE",
        ExitReason::Exited(_)
        | ExitReason::Signalled(_)
        | ExitReason::NotStarted(_)
        | ExitReason::Lost(_) => return None,
    })
}

fn output_text(streams: Streams, limit: usize) -> String {
    let Streams { mut out, mut err } = streams;
    if out.len() + err.len() > limit {
        // Neither stream displaces the other.
        let half = limit / 2;
        let of_err = err.len().min(half.max(limit.saturating_sub(out.len())));
        err.shorten(of_err);
        out.shorten(limit - of_err);
    }
    let (out, err) = (out.into_text(), err.into_text());
    if err.is_empty() {
        return out;
    }
    let mut text = String::new();
    for (heading, stream) in [("[stdout]\n", out), ("[stderr]\n", err)] {
        if stream.is_empty() {
            continue;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(heading);
        text.push_str(&stream);
    }
    text
}

fn describe(end: &ExitReason, options: &ShellOptions) -> String {
    match end {
        ExitReason::Exited(code) => format!("exit status {code}"),
        ExitReason::Signalled(signal) => match name(*signal) {
            Some(name) => format!("killed by signal {signal}, {name}"),
            None => format!("killed by signal {signal}"),
        },
        ExitReason::NotStarted(why) => why.clone(),
        ExitReason::Refused(why) => {
            format!("E-SANDBOX-UNAVAILABLE: the command was not run: {why}")
        }
        ExitReason::TimedOut => format!(
            "E-TOOL-TIMEOUT: the command was killed after {} s",
            options.timeout.as_secs_f64()
        ),
        ExitReason::Flooded => {
            "E-TOOL-LIMIT-EXCEEDED: the command was killed because it did not stop writing output"
                .to_owned()
        }
        ExitReason::Excessive(what) => {
            format!(
                "E-TOOL-LIMIT-EXCEEDED: the command was killed because it used too much of its {what}"
            )
        }
        ExitReason::Lost(why) => format!("the end of the command is not known: {why}"),
    }
}

/// Returns the name of a signal, by its number on Linux.
fn name(signal: i32) -> Option<&'static str> {
    let (number, name) = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL: an illegal instruction"),
        (5, "SIGTRAP"),
        (6, "SIGABRT: it gave up by itself"),
        (8, "SIGFPE: a fault of arithmetic"),
        (9, "SIGKILL"),
        (11, "SIGSEGV: a fault of memory"),
        (13, "SIGPIPE: its output was not read"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        (24, "SIGXCPU: too much time of the processor"),
        (25, "SIGXFSZ: a file grew too large"),
        (31, "SIGSYS: a forbidden system call"),
    ]
    .into_iter()
    .find(|(number, _)| *number == signal)?;
    // Other systems use other numbers above those fixed by POSIX.
    (cfg!(target_os = "linux") || number <= 15).then_some(name)
}
