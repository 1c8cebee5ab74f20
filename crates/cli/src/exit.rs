//! What the program ends with, and how it says why.

use std::process::ExitCode;
use std::time::Duration;

use logue_harness::ErrorBucket;
use logue_source::escape_untrusted;

/// The exit status of the program. The numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done,
    /// A fault of the program itself.
    Internal,
    /// The command line was wrong.
    Usage,
    /// The user can correct it: a prompt, a key, a setting.
    UserCorrectable,
    /// The same command may work later.
    Retryable,
    /// The conversation cannot go on.
    SessionTerminating,
    /// A person has to decide before the turn goes on.
    Suspended,
    /// Another turn has the file or the session.
    Busy,
    /// `check` found errors.
    Findings,
    /// Ended by SIGHUP: the terminal went away.
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

/// Why a command did not do what it was asked: printed on standard error by `main`, once.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What the program ends with.
    pub(crate) exit: Exit,
    /// The stable code or category.
    pub(crate) code: String,
    /// What happened.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: Vec<String>,
    /// How long a server asks to wait before the next try.
    pub(crate) retry_after: Option<Duration>,
    /// The whole report, where one was made already.
    pub(crate) report: Option<String>,
}

impl Failure {
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

    /// A mistake in the prompt, the configuration or the arguments' values.
    pub(crate) fn user(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Exit::UserCorrectable, code, message)
    }

    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// The text for standard error.
    pub(crate) fn text(&self) -> String {
        if let Some(report) = &self.report {
            return report.clone();
        }
        // Servers and file names may say anything; only our own codes may drive the terminal.
        let mut text = format!(
            "error[{}]: {}\n",
            self.code,
            escape_untrusted(&self.message)
        );
        for help in &self.help {
            text.push_str(&format!("  = help: {}\n", escape_untrusted(help)));
        }
        text
    }
}
