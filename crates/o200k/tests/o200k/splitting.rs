//! Safe splits keep the tokens of the complete text.

use logue_o200k::{SpecialSet, encode, encode_with_specials, safe_split};
use proptest::prelude::*;

/// Generates text from the parts of pieces.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zA-Z]{1,5}",
        4 => Just(" ".to_owned()),
        3 => Just("\n".to_owned()),
        2 => proptest::sample::select(vec!["'s", "'LL", "'", "/", "\r", "\t", "  ", "\u{A0}", "\u{2028}"])
            .prop_map(str::to_owned),
        2 => proptest::sample::select(vec!["<|start|>", "<|end|>", "<|", "|>", ".", "){", "12", "1234"])
            .prop_map(str::to_owned),
        1 => "[é世한\u{301}Ǆǅ🦀½ʰ]{1,3}",
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Returns every safe split, from the last to the first.
fn places(text: &str) -> Vec<usize> {
    std::iter::successors(safe_split(text), |at| safe_split(&text[..*at])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(2_000, 100_000)))]

    #[test]
    fn the_parts_have_the_tokens_of_the_whole(text in text()) {
        let whole = encode(&text);
        let with_specials = encode_with_specials(&text, &SpecialSet::ALL);
        for at in places(&text) {
            let (left, right) = text.split_at(at);
            prop_assert!(!left.is_empty() && !right.is_empty());
            prop_assert_eq!(&[encode(left), encode(right)].concat(), &whole);
            let parts = [left, right].map(|part| encode_with_specials(part, &SpecialSet::ALL));
            prop_assert_eq!(&parts.concat(), &with_specials);
        }
    }
}

#[test]
fn a_place_is_behind_a_line_or_before_a_word() {
    let cases = [
        ("", None),
        ("a", None),
        ("a b", Some(1)),
        ("a  b", None),
        ("1 b", None),
        ("a\nb", Some(2)),
        ("a\n\n", None),
        (")\n/b", None),
        (")\n{", Some(2)),
        ("\nb", None),
        ("a b\u{E9}c d", Some(6)),
        ("one two three", Some(7)),
        ("世界。\nb", Some(10)),
    ];
    for (text, expected) in cases {
        assert_eq!(safe_split(text), expected, "{text:?}");
    }
}
