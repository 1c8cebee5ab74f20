//! Texts for comparing encoders: random ones from a seed, and difficult ones.

/// A small generator of random numbers; the same seed gives the same texts.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % limit as u64).unwrap_or_default()
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// Sets of characters, by what the splitting pattern does with them.
const ALPHABETS: &[&str] = &[
    "abcdefghijklmnopqrstuvwxyz",
    "eeetaoinshr",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "aAbBzZ",
    "0123456789",
    " ",
    " \t\n\r",
    "\n",
    "\r\n",
    "  \u{A0}\u{2003}\u{3000}\u{2028}\u{85}\u{B}\u{C}\u{1680}",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "/\n\r",
    "=-_*#",
    "'sStTdDmMlLrReEvV\u{17F}",
    "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "АБВГабвг",
    "αβγδεζηθΑΒΓΔάέ",
    "ǅǈǋǲᾈᾘᾨ",
    "ʰʲʷˠˤᵃᵇᶜᶿⁱⁿₐ",
    "ªºƻǀאבגד",
    "文字漢字的一是不了人我在有他这",
    "ひらがなカタカナー々",
    "한국어조선말",
    "العربيةفارسی",
    "ًٌٍَُِّْ",
    "हिन्दीनमस्ते",
    "ไทยภาษาที่นี่",
    "\u{300}\u{301}\u{308}\u{20DD}\u{FE0F}\u{1AB0}",
    "٠١٢٣४५६ⅧⅫ²³½①𝟙",
    "😀🎉👍🏽👩‍💻🏳️‍🌈🇩🇪❤️",
    "→⇒∀∃∑√∞≠€£¥©™",
    "\u{0}\u{1}\u{7F}\u{80}\u{AD}\u{200B}\u{200D}\u{FEFF}\u{FFFD}",
    "\u{E000}\u{FFFF}\u{10FFFF}\u{378}\u{2FE0}",
    "𝐀𝐁𝐚𝐛𐐀𐐨𞤀𞤢",
];

/// Words and fragments of what models read.
const FRAGMENTS: &[&str] = &[
    "the",
    "Hello",
    " world",
    "I'm",
    "we'll",
    "THEY'RE",
    "it's",
    "don'T",
    "o'clock",
    " 'tis",
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|",
    "|>",
    "<|reserved_200000|>",
    "assistant",
    "fn main() {\n    println!(\"{}\", x);\n}\n",
    "\"=\"",
    "\": \"",
    "</div>\n\n",
    "://",
    "----",
    "camelCaseWord",
    "XMLHttpRequest",
    "snake_case_word",
    "SCREAMING_CASE",
    "0x1F",
    "3.14159",
    "1,000,000",
    "2026-11-21T10:00:00Z",
    "\r\n\r\n",
    "\n\n\n",
    "    ",
    "\t\t",
    "  \n  ",
    "Donaudampfschifffahrtsgesellschaft",
    "antidisestablishmentarianism",
    "na\u{EF}ve",
    "Straße",
    "e\u{301}",
    "A\u{30A}b",
    "你好，世界",
    "こんにちは",
    "안녕하세요",
    "مرحبا",
    "नमस्ते",
    "สวัสดี",
    "👨‍👩‍👧‍👦",
    "🇫🇷",
    "#️⃣",
    "\\u0041",
    "&amp;",
    "@user",
    "a/b/c\n/d",
    "!\n/\n!",
    ".\r\n",
];

/// A text of up to `most` segments.
pub(crate) fn random(random: &mut Random, most: usize) -> String {
    let mut text = String::new();
    for _ in 0..=random.below(most) {
        match random.below(16) {
            0..=4 => text.push_str(random.pick(FRAGMENTS)),
            5 => {
                let code_point = u32::try_from(random.below(0x11_0000)).unwrap_or_default();
                text.extend(char::from_u32(code_point));
            }
            6 => {
                let length = 1 + random.below(3);
                let id = u32::try_from(random.below(199_998)).unwrap_or_default();
                for id in (id..200_000).step_by(777).take(length) {
                    let bytes = logue_o200k::token_bytes(id).unwrap_or_default();
                    text.push_str(&String::from_utf8_lossy(bytes));
                }
            }
            _ => {
                let alphabet: Vec<char> = random.pick(ALPHABETS).chars().collect();
                let longest = if random.below(50) == 0 { 200 } else { 8 };
                for _ in 0..=random.below(longest) {
                    text.push(alphabet[random.below(alphabet.len())]);
                }
            }
        }
    }
    text
}

/// Runs that make an encoder of quadratic time stand still, about `bytes` long.
pub(crate) fn hard(bytes: usize) -> Vec<(&'static str, String)> {
    let units = [
        ("a letter", "a"),
        ("a capital", "A"),
        ("a digit", "7"),
        ("spaces", " "),
        ("line ends", "\n"),
        ("spaces and line ends", " \n"),
        ("tabs and spaces", "\t "),
        ("a sign", "!"),
        ("slashes", "/"),
        ("quotes", "\"=\""),
        ("apostrophes", "'"),
        ("contractions", "'s"),
        ("a caseless letter", "文"),
        ("two scripts", "文A"),
        ("a mark", "\u{301}"),
        ("a mark and a capital", "\u{301}A"),
        ("an emoji", "👩‍💻"),
        ("letters", "abcdefghijklmnopqrstuvwxyzaeiou"),
        ("openings of specials", "<|"),
        ("names of specials", "<|start|>"),
    ];
    let mut texts: Vec<_> = units
        .iter()
        .map(|&(name, unit)| (name, unit.repeat(bytes / unit.len())))
        .collect();
    texts.push(("spaces before a letter", " ".repeat(bytes) + "a"));
    texts.push((
        "capitals after a mark",
        "\u{301}".to_owned() + &"A".repeat(bytes),
    ));
    texts.push((
        "capitals after a caseless letter",
        "文".to_owned() + &"A".repeat(bytes),
    ));
    let mut letters = Random::new(7);
    let unbroken =
        (0..bytes).map(|_| char::from(b'a' + u8::try_from(letters.below(26)).unwrap_or_default()));
    texts.push(("random letters without a break", unbroken.collect()));
    texts
}
