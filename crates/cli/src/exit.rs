//! The exit status of the program and the report of failures.

use std::process::ExitCode;
use std::time::Duration;

use logue_harness::ErrorBucket;
use logue_source::escape_untrusted;

/// The exit status of the program. The numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command completed.
    Done,
    /// An internal error of the program.
    Internal,
    /// The command line is invalid.
    Usage,
    /// The user can correct the error in a prompt, a key or a setting.
    UserCorrectable,
    /// A later attempt may succeed.
    Retryable,
    /// The conversation cannot continue.
    SessionTerminating,
    /// The turn requires a decision of the user before it continues.
    Suspended,
    /// Another turn holds the file or the session.
    Busy,
    /// `check` found errors.
    Findings,
    /// Ended by SIGHUP, after the terminal was closed.
    HungUp,
    /// Ended by SIGINT.
    Interrupted,
    /// Ended by SIGQUIT.
    Quit,
    /// Ended by SIGTERM.
    Terminated,
}

impl Exit {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Internal => 1,
            Self::Usage => 2,
            Self::UserCorrectable => 3,
            Self::Retryable => 4,
            Self::SessionTerminating => 5,
            Self::Suspended => 6,
            Self::Busy => 7,
            Self::Findings => 8,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Quit => 131,
            Self::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

impl From<ErrorBucket> for Exit {
    fn from(bucket: ErrorBucket) -> Self {
        match bucket {
            ErrorBucket::SessionTerminating => Self::SessionTerminating,
            ErrorBucket::RetryableTransient => Self::Retryable,
            ErrorBucket::UserCorrectable => Self::UserCorrectable,
        }
    }
}

/// The failure of a command, which `main` prints once on standard error.
#[derive(Clone, Debug)]
pub(crate) struct CliError {
    /// The exit status of the program.
    pub(crate) exit: Exit,
    /// The stable code or category.
    pub(crate) code: String,
    /// The description of the error.
    pub(crate) message: String,
    /// The remedies.
    pub(crate) help: Vec<String>,
    /// The wait that the server requests before the next attempt.
    pub(crate) retry_after: Option<Duration>,
    /// The complete report, if it is already rendered.
    pub(crate) report: Option<Box<ErrorReport>>,
}

/// A rendered report of errors.
#[derive(Clone, Debug)]
pub(crate) struct ErrorReport {
    /// The complete text.
    pub(crate) text: String,
    /// The text without lines of the prompt: the place and the code of each error.
    pub(crate) places: Option<String>,
}

impl From<String> for Box<ErrorReport> {
    fn from(text: String) -> Self {
        Self::new(ErrorReport { text, places: None })
    }
}

impl CliError {
    pub(crate) fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.into(),
            message: message.into(),
            help: Vec::new(),
            retry_after: None,
            report: None,
        }
    }

    /// Creates a failure that the user can correct in prompt, configuration or arguments.
    pub(crate) fn user(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Exit::UserCorrectable, code, message)
    }

    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Returns the failure with a report that quotes nothing of a prompt.
    #[must_use]
    pub(crate) fn without_sources(mut self) -> Self {
        if let Some(report) = &mut self.report
            && let Some(places) = report.places.take()
        {
            report.text = places;
        }
        self
    }

    /// Returns the first of several failures, with the reports of all.
    pub(crate) fn joined(failures: Vec<Self>) -> Option<Self> {
        let texts: String = failures.iter().map(Self::text).collect();
        let first = failures.into_iter().next()?;
        Some(Self {
            report: Some(texts.into()),
            ..first
        })
    }

    /// Returns the text for standard error.
    pub(crate) fn text(&self) -> String {
        if let Some(report) = &self.report {
            return report.text.clone();
        }
        let mut text = format!("error[{}]: {}\n", self.code, shown(&self.message));
        for help in &self.help {
            text.push_str(&format!("  = help: {}\n", shown(help)));
        }
        text
    }
}

/// Returns untrusted text for standard error, with a bar before each line after the first.
///
/// Texts of servers and file names may contain line breaks; only this program may begin a line.
fn shown(text: &str) -> String {
    escape_untrusted(text.trim_end()).replace('\n', "\n  | ")
}
