//! Fonts: the text and the width of codes.

use std::collections::HashMap;

use hayro_cmap::{BfString, CMap};
use hayro_syntax::object::{Array, Dict, Name, Number, Object, Stream};

use crate::encoding::BaseEncoding;
use crate::glyph_names;

/// The widths of U+0020 to U+007E in Helvetica, in thousandths of an em.
const HELVETICA: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// A code of a text with its text and its width.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Glyph {
    /// The text; `None` if the font does not name it.
    pub(crate) text: Option<String>,
    /// The width in ems.
    pub(crate) width: f64,
    /// Whether it is the code 32 of one byte, which word spacing applies to.
    pub(crate) is_space: bool,
}

/// A font of a page.
#[derive(Debug)]
pub(crate) struct Font {
    to_unicode: Option<CMap>,
    kind: FontKind,
}

#[derive(Debug)]
enum FontKind {
    /// Codes of one byte.
    Simple(SimpleFont),
    /// Codes of several bytes.
    Composite(CompositeFont),
}

#[derive(Debug)]
struct SimpleFont {
    base: BaseEncoding,
    /// The names of glyphs that replace those of the encoding.
    differences: HashMap<u8, String>,
    first_code: i64,
    widths: Vec<f64>,
    /// The width of other codes; `None` for the widths of a standard font.
    missing_width: Option<f64>,
}

#[derive(Debug)]
struct CompositeFont {
    codes: CodeMap,
    default_width: f64,
    widths: HashMap<u32, f64>,
}

/// The way in which a composite font divides a text into codes.
#[derive(Debug)]
enum CodeMap {
    /// Two bytes, which are the number of the glyph.
    Identity,
    /// UTF-16 with the larger byte first.
    Utf16,
    Embedded(Box<CMap>),
    /// A table that is not in the file.
    Unknown,
}

impl Font {
    pub(crate) fn new(dict: &Dict<'_>) -> Self {
        let to_unicode = dict.get::<Stream<'_>>("ToUnicode");
        let to_unicode = to_unicode.and_then(|stream| cmap(&stream));
        let is_composite = dict
            .get::<Name<'_>>("Subtype")
            .is_some_and(|kind| kind.as_ref() == b"Type0");
        let kind = if is_composite {
            FontKind::Composite(CompositeFont::new(dict))
        } else {
            FontKind::Simple(SimpleFont::new(dict))
        };
        Self { to_unicode, kind }
    }

    /// Calls `each` with the glyphs of a text.
    pub(crate) fn glyphs(&self, mut bytes: &[u8], mut each: impl FnMut(Glyph)) {
        while !bytes.is_empty() {
            let (length, code, width, text) = match &self.kind {
                FontKind::Simple(font) => {
                    let code = bytes[0];
                    let text = self.unicode(code.into()).or_else(|| font.text(code));
                    (1, u32::from(code), font.width(code), text)
                }
                FontKind::Composite(font) => {
                    let (length, code, glyph) = font.codes.next(bytes);
                    let text = self.unicode(code);
                    let text = text.or_else(|| font.codes.text(&bytes[..length]));
                    (length, code, font.width(glyph), text)
                }
            };
            bytes = &bytes[length..];
            each(Glyph {
                text: text.map(|text| letters(&text)),
                width,
                is_space: length == 1 && code == 32,
            });
        }
    }

    fn unicode(&self, code: u32) -> Option<String> {
        let text = match self.to_unicode.as_ref()?.lookup_bf_string(code)? {
            BfString::Char(character) => character.to_string(),
            BfString::String(text) => text,
        };
        let is_text = !text
            .chars()
            .any(|character| character == '\0' || character == '\u{fffd}');
        is_text.then_some(text)
    }
}

impl SimpleFont {
    fn new(dict: &Dict<'_>) -> Self {
        let name = dict.get::<Name<'_>>("BaseFont");
        let name = name
            .map(|name| name.as_str().to_owned())
            .unwrap_or_default();
        let descriptor = dict.get::<Dict<'_>>("FontDescriptor");
        let kind = dict.get::<Name<'_>>("Subtype");
        let is_type3 = kind.as_ref().is_some_and(|kind| kind.as_ref() == b"Type3");
        let is_true_type = kind.is_some_and(|kind| kind.as_ref() == b"TrueType");
        let default = if name.contains("Symbol") || name.contains("Dingbats") || is_type3 {
            BaseEncoding::Unknown
        } else if is_true_type {
            BaseEncoding::WinAnsi
        } else {
            BaseEncoding::Standard
        };
        let mut base = default;
        let mut differences = HashMap::new();
        match dict.get::<Object<'_>>("Encoding") {
            Some(Object::Name(name)) => {
                base = BaseEncoding::from_name(name.as_ref()).unwrap_or(default);
            }
            Some(Object::Dict(encoding)) => {
                let named = encoding.get::<Name<'_>>("BaseEncoding");
                let named = named.and_then(|name| BaseEncoding::from_name(name.as_ref()));
                base = named.unwrap_or(default);
                if let Some(list) = encoding.get::<Array<'_>>("Differences") {
                    differences = named_codes(&list);
                }
            }
            _ => {}
        }
        let number = |dict: &Dict<'_>, key: &str| dict.get::<Number>(key);
        let widths = dict.get::<Array<'_>>("Widths");
        // The widths of a Type 3 font are in its own space.
        let matrix = dict.get::<Array<'_>>("FontMatrix").filter(|_| is_type3);
        let matrix = matrix.and_then(|matrix| matrix.iter::<Number>().next());
        let scale = matrix.map_or(0.001, |scale| scale.as_f64());
        let widths: Option<Vec<f64>> = widths.map(|widths| {
            let widths = widths.iter::<Number>().take(256);
            widths.map(|width| width.as_f64() * scale).collect()
        });
        let fixed = (name.contains("Courier") || name.contains("Mono")).then_some(0.6);
        let missing = descriptor.and_then(|descriptor| number(&descriptor, "MissingWidth"));
        let missing = missing.map(|width| width.as_f64() / 1000.0);
        Self {
            base,
            differences,
            first_code: number(dict, "FirstChar").map_or(0, |first| first.as_i64()),
            missing_width: if widths.is_some() {
                missing.or(Some(0.0))
            } else {
                fixed
            },
            widths: widths.unwrap_or_default(),
        }
    }

    fn text(&self, code: u8) -> Option<String> {
        match self.differences.get(&code) {
            Some(name) => glyph_names::text(name),
            None => self.base.character(code).map(String::from),
        }
    }

    fn width(&self, code: u8) -> f64 {
        let place = usize::try_from(i64::from(code).saturating_sub(self.first_code));
        let known = place.ok().and_then(|place| self.widths.get(place)).copied();
        known.or(self.missing_width).unwrap_or_else(|| {
            let place = usize::from(code).checked_sub(32);
            let width = place.and_then(|place| HELVETICA.get(place));
            width.map_or(0.5, |width| f64::from(*width) / 1000.0)
        })
    }
}

impl CompositeFont {
    fn new(dict: &Dict<'_>) -> Self {
        let codes = match dict.get::<Object<'_>>("Encoding") {
            Some(Object::Name(name)) => CodeMap::from_name(name.as_ref()),
            Some(Object::Stream(stream)) => {
                cmap(&stream).map_or(CodeMap::Unknown, |map| CodeMap::Embedded(Box::new(map)))
            }
            _ => CodeMap::Identity,
        };
        let descendants = dict.get::<Array<'_>>("DescendantFonts");
        let descendant = descendants.and_then(|fonts| fonts.iter::<Dict<'_>>().next());
        let descendant = descendant.unwrap_or_default();
        let default = descendant.get::<Number>("DW");
        let widths = descendant.get::<Array<'_>>("W");
        Self {
            codes,
            default_width: default.map_or(1.0, |width| width.as_f64() / 1000.0),
            widths: widths
                .map(|widths| glyph_widths(&widths))
                .unwrap_or_default(),
        }
    }

    fn width(&self, glyph: u32) -> f64 {
        self.widths
            .get(&glyph)
            .copied()
            .unwrap_or(self.default_width)
    }
}

impl CodeMap {
    fn from_name(name: &[u8]) -> Self {
        let has = |part: &[u8]| name.windows(part.len()).any(|found| found == part);
        if name.starts_with(b"Identity") {
            Self::Identity
        } else if name.starts_with(b"Uni") && (has(b"UCS2") || has(b"UTF16")) {
            Self::Utf16
        } else {
            Self::Unknown
        }
    }

    /// Returns the length of the first code, the code and the number of its glyph.
    fn next(&self, bytes: &[u8]) -> (usize, u32, u32) {
        let code = |length: usize| {
            let bytes = bytes.iter().take(length);
            bytes.fold(0, |code, byte| code << 8 | u32::from(*byte))
        };
        let longest = bytes.len().min(2);
        match self {
            Self::Embedded(map) => {
                for (length, size) in (1..=bytes.len().min(4)).zip(1_u8..) {
                    if let Some(glyph) = map.lookup_cid_code(code(length), size) {
                        return (length, code(length), glyph);
                    }
                }
                (longest, code(longest), 0)
            }
            Self::Utf16 if bytes.len() >= 4 && (0xd8..0xdc).contains(&bytes[0]) => {
                (4, code(4), code(4))
            }
            _ => (longest, code(longest), code(longest)),
        }
    }

    fn text(&self, code: &[u8]) -> Option<String> {
        if !matches!(self, Self::Utf16) {
            return None;
        }
        let pairs = code.chunks(2);
        let units = pairs.map(|pair| {
            pair.iter()
                .fold(0, |unit, byte| unit << 8 | u16::from(*byte))
        });
        String::from_utf16(&units.collect::<Vec<_>>()).ok()
    }
}

fn cmap(stream: &Stream<'_>) -> Option<CMap> {
    let bytes = stream.decoded_data().ok()?;
    CMap::parse(&bytes, |_| None)
}

/// Returns the names of a list `code name name … code name …`.
fn named_codes(list: &Array<'_>) -> HashMap<u8, String> {
    let mut names = HashMap::new();
    let mut code = Some(0_u8);
    for item in list.iter::<Object<'_>>() {
        match item {
            Object::Number(number) => code = u8::try_from(number.as_i64()).ok(),
            Object::Name(name) => {
                if let Some(code) = code {
                    names.insert(code, name.as_str().to_owned());
                }
                code = code.and_then(|code| code.checked_add(1));
            }
            _ => {}
        }
    }
    names
}

/// Returns the widths of a list `first [width …]` or `first last width`.
fn glyph_widths(list: &Array<'_>) -> HashMap<u32, f64> {
    let mut widths = HashMap::new();
    let mut items = list.iter::<Object<'_>>();
    let glyph = |number: Number| u32::try_from(number.as_i64()).unwrap_or(u32::MAX);
    while let Some(Object::Number(first)) = items.next() {
        let first = glyph(first);
        match items.next() {
            Some(Object::Array(list)) => {
                let list = list.iter::<Number>().map(|width| width.as_f64() / 1000.0);
                // A glyph has a number of 16 bits.
                widths.extend((first..=0xffff).zip(list));
            }
            Some(Object::Number(last)) => {
                let Some(Object::Number(width)) = items.next() else {
                    break;
                };
                let width = width.as_f64() / 1000.0;
                let last = glyph(last).min(0xffff);
                widths.extend((first..=last).map(|glyph| (glyph, width)));
            }
            _ => break,
        }
    }
    widths
}

/// Returns a text with the letters of its ligatures and without control characters.
fn letters(text: &str) -> String {
    let mut letters = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{fb00}' => letters.push_str("ff"),
            '\u{fb01}' => letters.push_str("fi"),
            '\u{fb02}' => letters.push_str("fl"),
            '\u{fb03}' => letters.push_str("ffi"),
            '\u{fb04}' => letters.push_str("ffl"),
            '\u{fb05}' | '\u{fb06}' => letters.push_str("st"),
            '\t' | '\n' | '\r' => letters.push(' '),
            character if character.is_control() => {}
            character => letters.push(character),
        }
    }
    letters
}
