//! The character classes of the o200k splitting pattern.
//!
//! Each character has exactly one class, a single bit, so a set of classes is a mask. The generated
//! table maps code points to classes in two stages. Its Unicode version, 16.0, is that of the
//! encoders whose output this crate reproduces.

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

/// Every letter.
pub(crate) const LETTER: u8 = UPPER | LOWER | CASELESS;

/// Returns the class of an ASCII byte; zero for bytes of longer characters.
#[inline]
pub(crate) const fn ascii(byte: u8) -> u8 {
    ASCII[byte as usize]
}

const ASCII: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' => LOWER,
            b'0'..=b'9' => NUMBER,
            b'\r' | b'\n' => LINE_END,
            b' ' | b'\t' | 0x0B | 0x0C => SPACE,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// Code points that share an entry of the first stage.
pub(crate) const BLOCK: usize = 128;
/// Entries of the first stage.
pub(crate) const BLOCKS: usize = 0x11_0000 / BLOCK;
/// Distinct blocks, the length of the second stage in blocks.
pub(crate) const DISTINCT: usize = 230;
