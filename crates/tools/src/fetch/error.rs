//! Errors of fetching.

use std::fmt;

/// The category of a fetch error, with a stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchCategory {
    /// The URL is invalid or has an unsupported scheme.
    Address,
    /// No rule allows the host.
    Denied,
    /// The host is in a private network and no rule allows that.
    Private,
    /// Too many redirects, or an invalid one.
    Redirect,
    /// No connection: unknown host, connection refused or invalid certificate.
    Unreachable,
    /// The request exceeded a time limit.
    Timeout,
    /// The server returned an error status.
    Status,
    /// The response exceeds the size limit.
    TooLarge,
    /// The response ended early or cannot be decompressed.
    Broken,
}

impl FetchCategory {
    /// Returns the stable name.
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

/// An error of fetching a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchError {
    /// The category.
    pub category: FetchCategory,
    /// The URL that failed, without credentials. After a redirect it differs from the requested
    /// one.
    pub url: String,
    /// The description of the error, with the URL.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
    /// The status of the response, if there was one.
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
