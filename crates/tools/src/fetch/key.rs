//! The key of a service that is asked over HTTP.

use reqwest::header::{HeaderName, HeaderValue};

/// A header that one service gets and no other: behind a redirect to another host it is not sent.
/// Its value appears in no message and no `Debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchKey {
    pub(crate) header: HeaderName,
    pub(crate) value: HeaderValue,
}

impl FetchKey {
    /// A header with its value; `None` if a header cannot have that name or hold that value.
    pub fn new(header: &str, value: &str) -> Option<Self> {
        let header = HeaderName::from_bytes(header.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        Some(Self { header, value })
    }
}
