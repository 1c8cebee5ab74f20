//! Byte-level BPE tokenizers from the file `tokenizer.json` of a model.
//!
//! ```text
//! text ─▶ added tokens ─▶ NFC ─▶ added tokens of normalized text ─▶ pieces ─▶ merges ─▶ ids
//! ```
//!
//! The result is that of the package `tokenizers` for the same file. A file with a part that this
//! module does not implement exactly is refused, with the name of the part.

mod added;
mod cache;
mod file;
mod model;
mod normalize;
mod split;
mod tokenizer;

pub use tokenizer::HfTokenizer;
