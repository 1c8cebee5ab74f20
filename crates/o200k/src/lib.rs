//! The tokenizers `o200k_base` and `o200k_harmony` as a static table.
//!
//! [`encode`] converts text to ids; [`decode`], [`decode_text`] and [`TextStream`] convert ids to
//! bytes or text; [`count`] counts the tokens of a text. The table is part of the program and read in
//! place: nothing is loaded, built or downloaded, and the first call is as fast as any other.
//!
//! # Examples
//!
//! ```
//! use logue_o200k::{SpecialSet, decode_text, encode, encode_with_specials, special};
//!
//! let ids = encode("The quick brown fox");
//! assert_eq!(ids, [976, 4853, 19705, 68347]);
//! assert_eq!(decode_text(&ids)?, "The quick brown fox");
//!
//! // Text of a user never becomes structure.
//! assert!(!encode("<|end|>").contains(&special::END));
//! // Text of the program may contain structure.
//! assert!(encode_with_specials("<|end|>", &SpecialSet::HARMONY).contains(&special::END));
//! # Ok::<(), logue_o200k::DecodeError>(())
//! ```
//!
//! Ids are plain `u32`: the ordinary tokens `0..199_998`, then the [specials](special) up to
//! [`VOCABULARY_SIZE`].
//!
//! # Features
//!
//! The crate has no features and no dependencies. It performs no I/O and contains no unsafe code.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod cache;
mod class;
mod decode;
mod encode;
mod hash;
mod index;
mod merge;
mod merge_long;
mod merge_short;
mod pretokenize;
mod safe_split;
pub mod special;
mod split_fast;
mod table;

pub use decode::{DecodeError, TextStream, UnknownTokenId};
pub use decode::{decode, decode_lossy, decode_text, token_bytes, token_id};
pub use encode::{Encoder, count, count_with_specials, encode, encode_into, encode_with_specials};
pub use safe_split::safe_split;
pub use special::SpecialSet;

/// The number of ids, specials included; every smaller number is an id.
pub const VOCABULARY_SIZE: usize = table::VOCABULARY;
