//! The tests of the crate, in one program: cases as documents, then properties.
#![expect(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

mod called;
mod conversations;
mod conversion_cases;
mod conversion_properties;
mod declared;
mod declared_schemas;
mod document_header;
mod harmony;
mod harmony_transcripts;
mod json_bodies;
mod legacy;
mod literate;
mod losses;
mod marked;
mod owning;
mod reading;
mod rendering;
mod rendering_properties;
mod responses;
mod rewriting;
mod round_trip;
mod sampling;
mod scanning;
mod shapes;
mod strategies;
mod streaming;
mod verdicts;
mod viewing;
mod writing;
