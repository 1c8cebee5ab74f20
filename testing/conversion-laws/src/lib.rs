//! Laws of conversions between forms, and random conversations to test them.
//!
//! A conversation is written in one form and read, so that it is in the normal form of that form. Then
//! it goes to another form and back. Each of the two passages obeys the laws of [`violation`]: what
//! differs is listed, each difference by a loss of a kind that permits it, at the frame that the
//! loss names.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod conversation;
mod corpus;
mod law;

pub use conversation::conversation;
pub use corpus::{corpus, to_json};
pub use law::{Passage, violation};
