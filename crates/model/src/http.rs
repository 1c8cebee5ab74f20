//! The HTTP exchange that all providers share.
//!
//! A server can be slow, endless, wrong or unreachable at every byte. Each case has a limit and an
//! error that names it; no server can make this module wait or grow without bound.

mod capture;
mod client;
mod endpoint;
mod exchange;
mod limits;
mod options;
mod redact;
mod retry_after;
mod server_error;
mod tls;

pub use capture::RequestCapture;
pub(crate) use client::{create_client, next_bytes, send};
pub use endpoint::is_base_url;
pub(crate) use endpoint::{RequestTarget, WireEndpoint, parse_base_url};
pub(crate) use exchange::HttpExchange;
pub use limits::HttpLimits;
pub use options::EndpointOptions;
pub(crate) use redact::redact;
pub use redact::{is_placeholder_key, redacted_base_url};
pub(crate) use server_error::ServerError;
