//! The characters that names of glyphs denote.

/// The names of the characters from U+0020 to U+007E, without letters.
const ASCII: &str = "space exclam quotedbl numbersign dollar percent ampersand quotesingle parenleft \
    parenright asterisk plus comma hyphen period slash zero one two three four five six seven eight nine \
    colon semicolon less equal greater question at A B C D E F G H I J K L M N O P Q R S T U V W X Y Z \
    bracketleft backslash bracketright asciicircum underscore grave a b c d e f g h i j k l m n o p q r s \
    t u v w x y z braceleft bar braceright asciitilde";

/// The names of the characters from U+00A0 to U+017F.
const LATIN: &str = "nbspace exclamdown cent sterling currency yen brokenbar section dieresis copyright \
    ordfeminine guillemotleft logicalnot sfthyphen registered macron degree plusminus twosuperior \
    threesuperior acute mu paragraph periodcentered cedilla onesuperior ordmasculine guillemotright \
    onequarter onehalf threequarters questiondown Agrave Aacute Acircumflex Atilde Adieresis Aring AE \
    Ccedilla Egrave Eacute Ecircumflex Edieresis Igrave Iacute Icircumflex Idieresis Eth Ntilde Ograve \
    Oacute Ocircumflex Otilde Odieresis multiply Oslash Ugrave Uacute Ucircumflex Udieresis Yacute Thorn \
    germandbls agrave aacute acircumflex atilde adieresis aring ae ccedilla egrave eacute ecircumflex \
    edieresis igrave iacute icircumflex idieresis eth ntilde ograve oacute ocircumflex otilde odieresis \
    divide oslash ugrave uacute ucircumflex udieresis yacute thorn ydieresis Amacron amacron Abreve abreve \
    Aogonek aogonek Cacute cacute Ccircumflex ccircumflex Cdotaccent cdotaccent Ccaron ccaron Dcaron \
    dcaron Dcroat dcroat Emacron emacron Ebreve ebreve Edotaccent edotaccent Eogonek eogonek Ecaron ecaron \
    Gcircumflex gcircumflex Gbreve gbreve Gdotaccent gdotaccent Gcommaaccent gcommaaccent Hcircumflex \
    hcircumflex Hbar hbar Itilde itilde Imacron imacron Ibreve ibreve Iogonek iogonek Idotaccent dotlessi \
    IJ ij Jcircumflex jcircumflex Kcommaaccent kcommaaccent kgreenlandic Lacute lacute Lcommaaccent \
    lcommaaccent Lcaron lcaron Ldot ldot Lslash lslash Nacute nacute Ncommaaccent ncommaaccent Ncaron \
    ncaron napostrophe Eng eng Omacron omacron Obreve obreve Ohungarumlaut ohungarumlaut OE oe Racute \
    racute Rcommaaccent rcommaaccent Rcaron rcaron Sacute sacute Scircumflex scircumflex Scedilla scedilla \
    Scaron scaron Tcommaaccent tcommaaccent Tcaron tcaron Tbar tbar Utilde utilde Umacron umacron Ubreve \
    ubreve Uring uring Uhungarumlaut uhungarumlaut Uogonek uogonek Wcircumflex wcircumflex Ycircumflex \
    ycircumflex Ydieresis Zacute zacute Zdotaccent zdotaccent Zcaron zcaron longs";

/// The names of the Greek letters from U+0391.
const GREEK: &str = "Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi \
    Rho - Sigma Tau Upsilon Phi Chi Psi Omega - - - - - - - alpha beta gamma delta epsilon zeta eta theta \
    iota kappa lambda - nu xi omicron pi rho sigma1 sigma tau upsilon phi chi psi omega";

/// Other names.
const OTHERS: &[(&str, &str)] = &[
    ("quoteleft", "\u{2018}"),
    ("quoteright", "\u{2019}"),
    ("quotesinglbase", "\u{201a}"),
    ("quotedblleft", "\u{201c}"),
    ("quotedblright", "\u{201d}"),
    ("quotedblbase", "\u{201e}"),
    ("guilsinglleft", "\u{2039}"),
    ("guilsinglright", "\u{203a}"),
    ("endash", "\u{2013}"),
    ("emdash", "\u{2014}"),
    ("bullet", "\u{2022}"),
    ("ellipsis", "\u{2026}"),
    ("dagger", "\u{2020}"),
    ("daggerdbl", "\u{2021}"),
    ("perthousand", "\u{2030}"),
    ("fraction", "\u{2044}"),
    ("Euro", "\u{20ac}"),
    ("trademark", "\u{2122}"),
    ("minus", "\u{2212}"),
    ("florin", "\u{192}"),
    ("ff", "ff"),
    ("fi", "fi"),
    ("fl", "fl"),
    ("ffi", "ffi"),
    ("ffl", "ffl"),
    ("dotlessj", "j"),
    ("circumflex", "\u{2c6}"),
    ("caron", "\u{2c7}"),
    ("breve", "\u{2d8}"),
    ("dotaccent", "\u{2d9}"),
    ("ring", "\u{2da}"),
    ("ogonek", "\u{2db}"),
    ("tilde", "\u{2dc}"),
    ("hungarumlaut", "\u{2dd}"),
    ("infinity", "\u{221e}"),
    ("lessequal", "\u{2264}"),
    ("greaterequal", "\u{2265}"),
    ("notequal", "\u{2260}"),
    ("approxequal", "\u{2248}"),
    ("equivalence", "\u{2261}"),
    ("similar", "\u{223c}"),
    ("proportional", "\u{221d}"),
    ("partialdiff", "\u{2202}"),
    ("summation", "\u{2211}"),
    ("product", "\u{220f}"),
    ("radical", "\u{221a}"),
    ("integral", "\u{222b}"),
    ("lozenge", "\u{25ca}"),
    ("element", "\u{2208}"),
    ("notelement", "\u{2209}"),
    ("emptyset", "\u{2205}"),
    ("union", "\u{222a}"),
    ("intersection", "\u{2229}"),
    ("universal", "\u{2200}"),
    ("existential", "\u{2203}"),
    ("gradient", "\u{2207}"),
    ("logicaland", "\u{2227}"),
    ("logicalor", "\u{2228}"),
    ("arrowleft", "\u{2190}"),
    ("arrowup", "\u{2191}"),
    ("arrowright", "\u{2192}"),
    ("arrowdown", "\u{2193}"),
    ("arrowboth", "\u{2194}"),
    ("arrowdblright", "\u{21d2}"),
    ("asteriskmath", "\u{2217}"),
    ("dotmath", "\u{22c5}"),
    ("angleleft", "\u{2329}"),
    ("angleright", "\u{232a}"),
    ("theta1", "\u{3d1}"),
    ("phi1", "\u{3d5}"),
    ("omega1", "\u{3d6}"),
    ("nonbreakingspace", "\u{a0}"),
    ("softhyphen", "\u{ad}"),
    ("hyphenminus", "-"),
    ("middot", "\u{b7}"),
    ("Ldotaccent", "\u{13f}"),
    ("Scommaaccent", "\u{218}"),
    ("scommaaccent", "\u{219}"),
    ("visiblespace", " "),
];

/// Returns the text of a glyph with this name.
pub(crate) fn text(name: &str) -> Option<String> {
    // The part after a point names a variant of the glyph.
    let name = name.split('.').next().filter(|name| !name.is_empty())?;
    let known = numbered(name).or_else(|| listed(name));
    if let Some(character) = known {
        return Some(character.into());
    }
    if let Some((_, text)) = OTHERS.iter().find(|(known, _)| *known == name) {
        return Some((*text).to_owned());
    }
    // A ligature has the names of its parts.
    let parts = name.contains('_').then(|| name.split('_').map(text));
    parts?.collect()
}

fn listed(name: &str) -> Option<char> {
    let in_list = |list: &str, first: u32| {
        let place = list.split_whitespace().position(|known| known == name)?;
        char::from_u32(first + u32::try_from(place).ok()?)
    };
    in_list(ASCII, 0x20)
        .or_else(|| in_list(LATIN, 0xa0))
        .or_else(|| in_list(GREEK, 0x391).filter(|_| name != "-"))
        .or_else(|| cyrillic(name))
}

/// Returns the character of `uniXXXX` or `uXXXXX`.
fn numbered(name: &str) -> Option<char> {
    let digits = match name.strip_prefix("uni") {
        // Further digits are further characters, which few fonts have.
        Some(digits) => digits.get(..4)?,
        None => name
            .strip_prefix('u')
            .filter(|rest| (4..=6).contains(&rest.len()))?,
    };
    let number = u32::from_str_radix(digits, 16).ok()?;
    char::from_u32(number).filter(|character| !character.is_control())
}

/// Returns the character of `afii10017` and the following names.
fn cyrillic(name: &str) -> Option<char> {
    let number: u32 = name.strip_prefix("afii")?.parse().ok()?;
    let point = match number {
        10017..=10022 => 0x410 + number - 10017,
        10023 => 0x401,
        10024..=10049 => 0x416 + number - 10024,
        10065..=10070 => 0x430 + number - 10065,
        10071 => 0x451,
        10072..=10097 => 0x436 + number - 10072,
        _ => return None,
    };
    char::from_u32(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_denote_their_characters() {
        for (name, expected) in [
            ("A", "A"),
            ("asciitilde", "~"),
            ("adieresis", "ä"),
            ("ydieresis", "ÿ"),
            ("Lslash", "Ł"),
            ("longs", "ſ"),
            ("Omega", "Ω"),
            ("omega", "ω"),
            ("afii10049", "Я"),
            ("afii10097", "я"),
            ("uni20AC", "€"),
            ("u1F600", "😀"),
            ("ffi", "ffi"),
            ("f_f_i", "ffi"),
            ("a.sc", "a"),
            ("quoteright", "’"),
        ] {
            assert_eq!(text(name).as_deref(), Some(expected), "{name}");
        }
        for name in ["", ".notdef", "g123", "-", "uni12", "u12", "_"] {
            assert_eq!(text(name), None, "{name}");
        }
    }

    #[test]
    fn lists_have_every_character_of_their_range() {
        assert_eq!(ASCII.split_whitespace().count(), 0x7f - 0x20);
        assert_eq!(LATIN.split_whitespace().count(), 0x180 - 0xa0);
        assert_eq!(GREEK.split_whitespace().count(), 0x3ca - 0x391);
    }
}
