//! Why something was not fetched.

use std::fmt;

/// Why something was not fetched, by a word that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchCategory {
    /// The address is none that can be fetched.
    Address,
    /// No rule allows the host.
    Denied,
    /// The host lies in a private network and no rule allows that.
    Private,
    /// Too many redirects, or one that leads nowhere.
    Redirect,
    /// No connection: no such host, nobody listens, or its certificate is not valid.
    Unreachable,
    /// It took too long.
    Timeout,
    /// The server answered something else than success.
    Status,
    /// The answer is larger than the limit.
    TooLarge,
    /// The answer broke off or cannot be unpacked.
    Broken,
}

impl FetchCategory {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Denied => "denied",
            Self::Private => "private",
            Self::Redirect => "redirect",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::TooLarge => "too_large",
            Self::Broken => "broken",
        }
    }
}

/// Why something was not fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchError {
    /// The kind of failure.
    pub category: FetchCategory,
    /// The address that failed, which is another one than the one asked for behind a redirect.
    /// Without credentials.
    pub url: String,
    /// What happened; it names the address.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
}

impl FetchError {
    pub(crate) fn new(category: FetchCategory, url: &str, message: impl Into<String>) -> Self {
        Self {
            category,
            url: url.to_owned(),
            message: message.into(),
            help: None,
            status: None,
        }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FetchError {}
