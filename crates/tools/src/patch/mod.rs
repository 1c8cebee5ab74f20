//! Patches written by models.
//!
//! A patch lists files between `*** Begin Patch` and `*** End Patch`; hunks are located by their
//! context instead of line numbers. [`parse`](parse::parse) reads the envelope without access to
//! files. [`apply`](apply::apply) applies the hunks of one file to its text. Both are pure; error
//! texts are written for the model, which corrects the patch.

pub(crate) mod apply;
pub(crate) mod parse;
mod seek;

/// Maximum length of a line quoted in an error, in characters.
const MAX_QUOTED_CHARS: usize = 120;
