//! The tests of the crate, in one program: cases as documents, then properties.
#![expect(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

mod conversations;
mod declared;
mod document_header;
mod harmony;
mod json_bodies;
mod literate;
mod losses;
mod reading;
mod round_trip;
mod sampling;
mod shapes;
mod strategies;
mod viewing;
mod writing;
