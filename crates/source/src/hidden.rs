//! The characters that have no glyph of their own.

/// Returns whether a character is a control or has no glyph of its own.
pub(crate) fn is_hidden(character: char) -> bool {
    match character {
        '\u{AD}'
        | '\u{34F}'
        | '\u{61C}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{13430}'..='\u{1343F}'
        | '\u{16FE4}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        other => other.is_control(),
    }
}

/// Returns whether a character is hidden, or looks like a space and is not one.
pub(crate) fn is_deceptive(character: char) -> bool {
    is_hidden(character) || (character != ' ' && character.is_whitespace())
}

/// The effect that a character has on a following joiner or style selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Neighbor {
    /// It has none: a joiner or selector after it is not visible.
    #[default]
    Other,
    /// A digit, `#` or `*`, which a style selector makes a keycap.
    Keycap,
    /// An emoji, which has styles and joins with others.
    Emoji,
    /// An emoji with a style.
    StyledEmoji,
    /// A letter of a script whose letters join.
    Letter,
}

impl Neighbor {
    pub(crate) fn of(character: char) -> Self {
        match character {
            '0'..='9' | '#' | '*' => Self::Keycap,
            '\u{A9}'
            | '\u{AE}'
            | '\u{203C}'
            | '\u{2049}'
            | '\u{2122}'
            | '\u{2139}'
            | '\u{2190}'..='\u{21FF}'
            | '\u{2300}'..='\u{23FF}'
            | '\u{24C2}'
            | '\u{25A0}'..='\u{27BF}'
            | '\u{2900}'..='\u{297F}'
            | '\u{2B00}'..='\u{2BFF}'
            | '\u{3030}'
            | '\u{303D}'
            | '\u{3297}'
            | '\u{3299}'
            | '\u{1F000}'..='\u{1FAFF}' => Self::Emoji,
            // Arabic, Syriac, N'Ko, the scripts of India, Tibetan, Myanmar, Khmer, Mongolian.
            '\u{620}'..='\u{109F}'
            | '\u{1780}'..='\u{18AF}'
            | '\u{A840}'..='\u{A8FF}'
            | '\u{FB50}'..='\u{FDFF}'
            | '\u{FE70}'..='\u{FEFC}' => Self::Letter,
            _ => Self::Other,
        }
    }
}
