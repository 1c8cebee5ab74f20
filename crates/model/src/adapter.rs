//! Providers that wrap another provider.

mod retry;
mod sanitized_names;
mod structured;

pub use retry::{Jitter, RetryBudget, RetryProvider};
pub use sanitized_names::SanitizedNames;
pub use structured::StructuredProvider;
