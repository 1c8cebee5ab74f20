//! The vocabulary of `o200k_base` and `o200k_harmony`, as a static table.
//!
//! Text becomes ids with [`encode`], ids become bytes or text with [`decode`], [`decode_text`] and
//! [`TextStream`], and [`count`] says how much of a context a text takes. The table is part of the
//! program and read in place: there is nothing to load, build or download, and the first call is as
//! quick as any other.
//!
//! ```
//! use logue_o200k::{SpecialSet, decode_text, encode, encode_with_specials, special};
//!
//! let ids = encode("The quick brown fox");
//! assert_eq!(ids, [976, 4853, 19705, 68347]);
//! assert_eq!(decode_text(&ids)?, "The quick brown fox");
//!
//! // What a person writes is text, whatever it looks like.
//! assert!(!encode("<|end|>").contains(&special::END));
//! // What the program writes may be structure.
//! assert!(encode_with_specials("<|end|>", &SpecialSet::HARMONY).contains(&special::END));
//! # Ok::<(), logue_o200k::DecodeError>(())
//! ```
//!
//! Ids are plain `u32`: the ordinary tokens `0..199_998`, then the [specials](special) up to
//! [`VOCABULARY_SIZE`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod brief;
mod cache;
mod class;
mod decode;
mod encode;
mod hash;
mod index;
mod merge;
mod pieces;
mod quick;
pub mod special;
mod split;
mod table;
mod windows;

pub use decode::{DecodeError, TextStream, UnknownId};
pub use decode::{decode, decode_lossy, decode_text, token_bytes, token_id};
pub use encode::{Encoder, count, count_with_specials, encode, encode_into, encode_with_specials};
pub use special::SpecialSet;
pub use split::split_point;

/// Ids of the vocabulary, specials included; every smaller number is an id.
pub const VOCABULARY_SIZE: usize = table::VOCABULARY;
