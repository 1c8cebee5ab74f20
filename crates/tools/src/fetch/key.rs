//! API keys of HTTP services.

use reqwest::header::{HeaderName, HeaderValue};

/// A header sent to one service only; redirects to another host do not receive it.
///
/// Messages and `Debug` omit its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchKey {
    pub(crate) header: HeaderName,
    pub(crate) value: HeaderValue,
}

impl FetchKey {
    /// Creates a header; `None` if the name or the value is invalid.
    pub fn new(header: &str, value: &str) -> Option<Self> {
        let header = HeaderName::from_bytes(header.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        Some(Self { header, value })
    }
}
