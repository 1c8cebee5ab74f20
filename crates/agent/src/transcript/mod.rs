//! Transcripts: items, their text and their files.

pub(crate) mod file;
pub(crate) mod file_session;
pub(crate) mod format;
pub(crate) mod frames;
pub(crate) mod item;
pub(crate) mod journal;
pub(crate) mod payload;
pub(crate) mod redaction;
