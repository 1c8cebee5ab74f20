//! Limits of one HTTP request.

use std::time::Duration;

/// The time and size limits of one request.
///
/// ```
/// use std::time::Duration;
///
/// let mut limits = logue_model::HttpLimits::default();
/// limits.first_byte = Duration::from_secs(300);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// The time until a connection is established, including TLS.
    pub connect: Duration,
    /// The time until the first byte of the response, including the connection.
    pub first_byte: Duration,
    /// The time between two chunks of the response.
    pub idle: Duration,
    /// The time for the complete response.
    ///
    /// Exceeding it is not a transient error: the server is alive, but its model does not stop.
    pub total: Duration,
    /// The size of the complete response in bytes on the wire.
    pub response_bytes: usize,
    /// The size of one stream event in bytes.
    pub event_bytes: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(30 * 60),
            response_bytes: 64 * 1024 * 1024,
            event_bytes: 8 * 1024 * 1024,
        }
    }
}
