//! Choices out of bytes.
//!
//! The first bytes of an input make the choices and the rest is its text, so that a corpus file
//! can be written by hand: `a0<|channel|>final…`.

use openchatml::FrameRole;
use openchatml::harmony::HarmonyReadOptions;

/// Bytes that are taken from the front.
pub(crate) struct Input<'d> {
    rest: &'d [u8],
}

impl<'d> Input<'d> {
    pub(crate) const fn new(rest: &'d [u8]) -> Self {
        Self { rest }
    }

    /// The next byte; zero at the end.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }

    /// The next byte, if there is one.
    pub(crate) fn next(&mut self) -> Option<u8> {
        (!self.rest.is_empty()).then(|| self.byte())
    }

    /// The next line without its end.
    pub(crate) fn line(&mut self) -> &'d [u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (line, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        line
    }

    /// Everything that is left.
    pub(crate) const fn rest(self) -> &'d [u8] {
        self.rest
    }

    /// How to read Harmony: a letter from `a` on says the role of a completion, `A` and on the
    /// same in strict mode.
    pub(crate) fn options(&mut self) -> HarmonyReadOptions {
        let byte = self.byte();
        let start_role = match byte.to_ascii_lowercase().wrapping_sub(b'a') % 8 {
            1 => Some(FrameRole::Assistant),
            2 => Some(FrameRole::User),
            3 => Some(FrameRole::Tool),
            4 => Some(FrameRole::System),
            _ => None,
        };
        HarmonyReadOptions::default()
            .with_start_role(start_role)
            .with_strict(byte.is_ascii_uppercase())
            .with_tools(match byte % 16 {
                15 => vec!["functions.f".to_owned(), "functions.find".to_owned()],
                _ => Vec::new(),
            })
    }
}

/// A small generator (xorshift): places to cut a text at, out of one byte.
pub(crate) struct Cuts(u64);

impl Cuts {
    pub(crate) fn new(seed: u8) -> Self {
        Self(u64::from(seed) * 0x9E37_79B9 + 0x5EED)
    }

    /// `text` in parts of up to sixteen bytes.
    pub(crate) fn parts<'t>(&mut self, mut text: &'t [u8]) -> Vec<&'t [u8]> {
        let mut parts = Vec::new();
        while !text.is_empty() {
            let (part, rest) = text.split_at(self.below(17).min(text.len()));
            parts.push(part);
            text = rest;
        }
        parts
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }
}
