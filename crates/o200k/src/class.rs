//! The classes of characters that the splitting pattern of o200k tells apart.
//!
//! Each character has exactly one class, a single bit, so that a set of classes is a mask. The
//! generated table holds the class of every code point in two stages; the Unicode version is that
//! of the peers whose output this crate reproduces (16.0, see the `README`).

/// Upper and title case letters: `Lu`, `Lt`.
pub(crate) const UPPER: u8 = 1;
/// Lower case letters: `Ll`.
pub(crate) const LOWER: u8 = 2;
/// Letters without case: `Lm`, `Lo`.
pub(crate) const CASELESS: u8 = 4;
/// Marks: `M`.
pub(crate) const MARK: u8 = 8;
/// Numbers: `N`.
pub(crate) const NUMBER: u8 = 16;
/// White space other than line ends.
pub(crate) const SPACE: u8 = 32;
/// Carriage return and line feed.
pub(crate) const LINE_END: u8 = 64;
/// Everything else: punctuation, symbols, controls, unassigned.
pub(crate) const OTHER: u8 = 128;

/// Code points that share an entry of the first stage.
pub(crate) const BLOCK: usize = 128;
/// Entries of the first stage.
pub(crate) const BLOCKS: usize = 0x11_0000 / BLOCK;
/// Different blocks, that is, the second stage's length in blocks.
pub(crate) const DISTINCT: usize = 230;
