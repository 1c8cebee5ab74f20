//! The crate through its public functions.

mod cost;
mod markdown;
mod oracle;
mod properties;
mod sniff;
mod strip;
