//! Letters of a text in pieces, with JSON's escapes undone.

use logue_source::Span;

/// Gives each byte of a text with its place. In JSON an escape is one character: each of its bytes
/// has the place of the whole escape. Half a surrogate pair is not in a token and becomes a zero byte.
#[derive(Clone, Debug, Default)]
pub(super) struct Letters {
    json: bool,
    /// Offset of the next byte.
    at: usize,
    escape: Escape,
}

#[derive(Clone, Copy, Debug, Default)]
enum Escape {
    #[default]
    None,
    /// After the backslash at the offset.
    Begun(usize),
    /// After `\u` and some digits.
    Digits { start: usize, count: u8, value: u32 },
}

impl Letters {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], out: &mut dyn FnMut(u8, Span)) {
        for byte in bytes {
            self.byte(*byte, out);
            self.at += 1;
        }
    }

    fn byte(&mut self, byte: u8, out: &mut dyn FnMut(u8, Span)) {
        let here = Span::new(self.at, self.at + 1);
        match self.escape {
            Escape::None if self.json && byte == b'\\' => self.escape = Escape::Begun(self.at),
            Escape::None => out(byte, here),
            Escape::Begun(start) if byte == b'u' => {
                self.escape = Escape::Digits {
                    start,
                    count: 0,
                    value: 0,
                };
            }
            Escape::Begun(start) => {
                self.escape = Escape::None;
                let letter = match byte {
                    b'n' | b'r' | b't' | b'b' | b'f' => b' ',
                    other => other,
                };
                out(letter, Span::new(start, here.end));
            }
            Escape::Digits {
                start,
                count,
                value,
            } => {
                let Some(digit) = char::from(byte).to_digit(16) else {
                    // No escape after all; nothing of it can be in a token.
                    self.escape = Escape::None;
                    out(0, Span::new(start, self.at));
                    return self.byte(byte, out);
                };
                let value = value * 16 + digit;
                self.escape = if count == 3 {
                    let character = char::from_u32(value).unwrap_or('\0');
                    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                        out(byte, Span::new(start, here.end));
                    }
                    Escape::None
                } else {
                    Escape::Digits {
                        start,
                        count: count + 1,
                        value,
                    }
                };
            }
        }
    }
}
