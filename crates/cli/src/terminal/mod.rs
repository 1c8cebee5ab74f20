//! Writing to standard output and standard error, for terminals and pipes.

pub(crate) mod markdown;
mod wrapped;

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use logue_source::{ColorMode, ReportStyle, UntrustedEscaper};

use self::markdown::Look;
use self::wrapped::wrapped;
use crate::exit::{CliError, Exit};
use crate::progress::suspended;

/// The columns of the narrowest terminal for which text is wrapped.
pub(crate) const MIN_WIDTH: usize = 40;

/// The columns of a terminal that does not report them.
const DEFAULT_WIDTH: usize = 80;

/// The state of standard error: its last text is a question, which has no line break.
static IS_ASKING: AtomicBool = AtomicBool::new(false);

/// Returns the colour mode of standard error.
///
/// A terminal has colours unless `NO_COLOR` is set; `CLICOLOR_FORCE` forces them.
pub(crate) fn error_style() -> ColorMode {
    style(io::stderr().is_terminal())
}

/// Returns the appearance of reports on standard error.
pub(crate) fn report_style() -> ReportStyle {
    let style = ReportStyle::from(error_style());
    error_width().map_or(style, |width| style.with_width(width))
}

/// Returns the columns of standard error; `None` if text is not wrapped for it.
pub(crate) fn error_width() -> Option<usize> {
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return None;
    }
    let (width, _) = terminal_size::terminal_size_of(io::stderr())?;
    Some(usize::from(width.0)).filter(|width| *width >= MIN_WIDTH)
}

/// Returns the colour mode of standard output, by the rules of [`error_style`].
pub(crate) fn output_style() -> ColorMode {
    style(io::stdout().is_terminal())
}

fn style(terminal: bool) -> ColorMode {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return ColorMode::Plain;
    }
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if set("CLICOLOR_FORCE") || (terminal && !dumb) {
        ColorMode::Ansi
    } else {
        ColorMode::Plain
    }
}

/// Returns the appearance of standard output; `None` if Markdown is not rendered.
pub(crate) fn output_look() -> Option<Look> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let term = std::env::var("TERM").unwrap_or_default();
    if !io::stdout().is_terminal() || term == "dumb" {
        return None;
    }
    let has_styles = output_style() == ColorMode::Ansi;
    let program = std::env::var("TERM_PROGRAM").unwrap_or_default();
    let programs = ["iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper"];
    let variables = [
        "KITTY_WINDOW_ID",
        "WT_SESSION",
        "KONSOLE_VERSION",
        "VTE_VERSION",
    ];
    let has_links = programs.contains(&program.as_str())
        || variables.into_iter().any(is_set)
        || ["kitty", "foot", "alacritty"]
            .iter()
            .any(|name| term.contains(name));
    Some(Look {
        has_styles,
        has_links: has_styles && has_links,
    })
}

/// Returns the columns of the terminal at standard output.
pub(crate) fn output_width() -> usize {
    let size = terminal_size::terminal_size_of(io::stdout());
    let width = size.map(|(width, _)| usize::from(width.0));
    width.filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH)
}

/// Writes to standard output and flushes it; control characters are escaped for a terminal.
pub(crate) fn print(text: &str) -> io::Result<()> {
    print_part(text, &mut UntrustedEscaper::default())
}

/// Writes a part of a text as [`print()`] does; `escaper` has the parts before it.
pub(crate) fn print_part(text: &str, escaper: &mut UntrustedEscaper) -> io::Result<()> {
    suspended(|| {
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            out.write_all(escaper.escape(text).as_bytes())?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        out.flush()
    })
}

/// Writes escaped text with colours of this program to standard output.
pub(crate) fn print_styled(text: &str, style: ColorMode) -> io::Result<()> {
    if style == ColorMode::Plain {
        return print(text);
    }
    print_as_is(text)
}

/// Writes text that the caller has escaped to standard output and flushes it.
pub(crate) fn print_as_is(text: &str) -> io::Result<()> {
    suspended(|| {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    })
}

/// Writes to standard error; errors are ignored, since no stream remains for a report.
pub(crate) fn print_error(text: &str) {
    let wrapped = error_width().map(|width| wrapped(text, width));
    let text = wrapped.as_deref().unwrap_or(text);
    suspended(|| {
        let mut err = io::stderr().lock();
        drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
    });
    IS_ASKING.store(!text.ends_with('\n'), Ordering::Relaxed);
}

/// Notes that the user ended the line of a question.
pub(crate) fn answered() {
    IS_ASKING.store(false, Ordering::Relaxed);
}

/// Ends the line of a question that was not answered.
pub(crate) fn end_question() {
    if IS_ASKING.load(Ordering::Relaxed) {
        print_error("\n");
    }
}

/// Treats a closed pipe as the normal end of a command.
pub(crate) fn ignore_broken_pipe(written: io::Result<()>) -> Result<Exit, CliError> {
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(write_failed(&error)),
    }
}

/// Returns the failure of a write to standard output.
pub(crate) fn write_failed(error: &io::Error) -> CliError {
    CliError::new(
        Exit::Internal,
        "stdout_write_failed",
        format!("cannot write the output: {error}"),
    )
}

/// Prints a failure on standard error.
pub(crate) fn report(failure: &CliError) {
    print_error(&failure.text());
}
