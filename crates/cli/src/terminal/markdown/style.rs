//! Styled text of a line.

use std::fmt::Write as _;

/// The appearance of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether escape sequences for styles are used. Without them, the marks of Markdown stay.
    pub(crate) has_styles: bool,
    /// Whether links are hyperlinks (OSC 8); elsewhere the address follows the text.
    pub(crate) has_links: bool,
}

/// Attributes and colour of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    attributes: u8,
    colour: Option<u8>,
}

impl Style {
    pub(super) const PLAIN: Self = Self::with(0);
    pub(super) const BOLD: Self = Self::with(1);
    pub(super) const DIM: Self = Self::with(2);
    pub(super) const ITALIC: Self = Self::with(4);
    pub(super) const UNDERLINE: Self = Self::with(8);
    pub(super) const STRIKE: Self = Self::with(16);
    pub(super) const CODE: Self = Self::coloured(36);
    pub(super) const KEYWORD: Self = Self::coloured(35);
    pub(super) const STRING: Self = Self::coloured(32);
    /// Yellow has too little contrast on a light background.
    pub(super) const NUMBER: Self = Self::coloured(34);

    /// The parameters of the attributes, in the order of their bits.
    const PARAMETERS: [&'static str; 5] = ["1", "2", "3", "4", "9"];

    const fn with(attributes: u8) -> Self {
        Self {
            attributes,
            colour: None,
        }
    }

    const fn coloured(colour: u8) -> Self {
        Self {
            attributes: 0,
            colour: Some(colour),
        }
    }

    /// Returns the style with the attributes and the colour of another one.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            attributes: self.attributes | other.attributes,
            colour: match other.colour {
                Some(colour) => Some(colour),
                None => self.colour,
            },
        }
    }
}

/// A piece of text with one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) style: Style,
    /// The address, if the text is a hyperlink.
    pub(super) address: Option<String>,
}

impl Span {
    pub(super) fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
            address: None,
        }
    }
}

/// Writes text in a style, which ends with the text.
pub(super) fn paint(out: &mut String, span: &Span, look: Look) {
    if span.text.is_empty() {
        return;
    }
    let link = span.address.as_ref().filter(|_| look.has_links);
    if let Some(address) = link {
        write!(out, "\u{1b}]8;;{address}\u{1b}\\").unwrap_or_default();
    }
    if look.has_styles && span.style != Style::PLAIN {
        let bits = Style::PARAMETERS.iter().enumerate();
        let attributes = bits.filter(|(bit, _)| span.style.attributes & (1 << bit) != 0);
        let mut parameters: Vec<String> = attributes.map(|(_, word)| (*word).to_owned()).collect();
        parameters.extend(span.style.colour.map(|colour| colour.to_string()));
        write!(
            out,
            "\u{1b}[{}m{}\u{1b}[0m",
            parameters.join(";"),
            span.text
        )
        .unwrap_or_default();
    } else {
        out.push_str(&span.text);
    }
    if link.is_some() {
        out.push_str("\u{1b}]8;;\u{1b}\\");
    }
}
