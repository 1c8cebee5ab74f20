//! Standard output and standard error as people and pipes have them.

use std::io::{self, IsTerminal as _, Write as _};

use logue_source::{ColorMode, escape_untrusted};

use crate::exit::{Exit, Failure};

/// Whether reports on standard error carry colours: on a terminal, unless `NO_COLOR` is set;
/// `CLICOLOR_FORCE` forces them.
pub(crate) fn error_style() -> ColorMode {
    style(io::stderr().is_terminal())
}

/// The same for standard output.
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

/// Writes to standard output at once: as it is for a pipe, made harmless for a terminal.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(escape_untrusted(text).as_bytes())?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    out.flush()
}

/// Writes text of our own that holds colours, made harmless already, to standard output.
pub(crate) fn print_styled(text: &str, style: ColorMode) -> io::Result<()> {
    if style == ColorMode::Plain {
        return print(text);
    }
    print_as_is(text)
}

/// Writes to standard output at once what its caller has made harmless.
pub(crate) fn print_as_is(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes to standard error, which may be gone: then nobody is there to be told of it.
pub(crate) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

/// A reader that went away ends a command quietly.
pub(crate) fn closed_pipe_is_done(written: io::Result<()>) -> Result<Exit, Failure> {
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(write_failed(&error)),
    }
}

/// The failure of a write to standard output.
pub(crate) fn write_failed(error: &io::Error) -> Failure {
    Failure::new(
        Exit::Internal,
        "stdout_write_failed",
        format!("the output cannot be written: {error}"),
    )
}

/// Prints a failure on standard error.
pub(crate) fn report(failure: &Failure) {
    complain(&failure.text());
}
