//! Encodings of simple fonts.

use encoding_rs::{Encoding, MACINTOSH, WINDOWS_1252};

use crate::glyph_names;

/// The characters of a font's codes, without `ToUnicode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BaseEncoding {
    Standard,
    MacRoman,
    WinAnsi,
    /// The codes of the font itself, which its program defines.
    Unknown,
}

impl BaseEncoding {
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"StandardEncoding" => Some(Self::Standard),
            b"MacRomanEncoding" => Some(Self::MacRoman),
            b"WinAnsiEncoding" | b"PDFDocEncoding" => Some(Self::WinAnsi),
            _ => None,
        }
    }

    /// Returns the character of a code.
    pub(crate) fn character(self, code: u8) -> Option<char> {
        match self {
            Self::Standard => standard(code),
            Self::MacRoman => decoded(code, MACINTOSH),
            Self::WinAnsi => decoded(code, WINDOWS_1252),
            Self::Unknown => None,
        }
    }
}

fn decoded(code: u8, encoding: &'static Encoding) -> Option<char> {
    let bytes = [code];
    let (text, _) = encoding.decode_without_bom_handling(&bytes);
    text.chars()
        .next()
        .filter(|character| !character.is_control())
}

/// The names of `StandardEncoding` from 0xA1; `-` is a code without a character.
const STANDARD: &str = "exclamdown cent sterling fraction yen florin section currency quotesingle \
    quotedblleft guillemotleft guilsinglleft guilsinglright fi fl - endash dagger daggerdbl \
    periodcentered - paragraph bullet quotesinglbase quotedblbase quotedblright guillemotright \
    ellipsis perthousand - questiondown - grave acute circumflex tilde macron breve dotaccent dieresis - \
    ring cedilla - hungarumlaut ogonek caron emdash - - - - - - - - - - - - - - - - AE - ordfeminine - - - \
    - Lslash Oslash OE ordmasculine - - - - - ae - - - dotlessi - - lslash oslash oe germandbls";

fn standard(code: u8) -> Option<char> {
    match code {
        b'\'' => Some('\u{2019}'),
        b'`' => Some('\u{2018}'),
        b' '..=b'~' => Some(char::from(code)),
        _ => {
            let place = usize::from(code.checked_sub(0xa1)?);
            let name = STANDARD.split_whitespace().nth(place)?;
            glyph_names::text(name)?.chars().next()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_characters_of_their_tables() {
        for (encoding, code, expected) in [
            (BaseEncoding::Standard, b'A', Some('A')),
            (BaseEncoding::Standard, b'\'', Some('\u{2019}')),
            (BaseEncoding::Standard, 0xa1, Some('¡')),
            (BaseEncoding::Standard, 0xae, Some('f')),
            (BaseEncoding::Standard, 0xb1, Some('–')),
            (BaseEncoding::Standard, 0xb7, Some('•')),
            (BaseEncoding::Standard, 0xbf, Some('¿')),
            (BaseEncoding::Standard, 0xc8, Some('¨')),
            (BaseEncoding::Standard, 0xd0, Some('—')),
            (BaseEncoding::Standard, 0xe1, Some('Æ')),
            (BaseEncoding::Standard, 0xe8, Some('Ł')),
            (BaseEncoding::Standard, 0xf1, Some('æ')),
            (BaseEncoding::Standard, 0xfb, Some('ß')),
            (BaseEncoding::Standard, 0xff, None),
            (BaseEncoding::MacRoman, 0x8a, Some('ä')),
            (BaseEncoding::WinAnsi, 0x80, Some('€')),
            (BaseEncoding::WinAnsi, 0xe4, Some('ä')),
            (BaseEncoding::WinAnsi, 0x07, None),
            (BaseEncoding::Unknown, b'A', None),
        ] {
            assert_eq!(encoding.character(code), expected, "{encoding:?} {code:#x}");
        }
    }
}
