//! Comparison with `tiktoken-rs`, token by token.
//!
//! `bench/peers` compares with more encoders and longer texts.

use crate::texts::{self, Random};
use logue_o200k::{SpecialSet, decode_text, encode, encode_with_specials};
use tiktoken_rs::{CoreBPE, o200k_harmony_singleton};

/// Asserts that `encode` equals the peer and decodes to the text.
fn compare(peer: &CoreBPE, text: &str) {
    let ids = encode(text);
    assert_eq!(ids, peer.encode_ordinary(text), "{text:?}");
    assert_eq!(decode_text(&ids).as_deref(), Ok(text));
}

#[test]
fn random_texts() {
    let peer = o200k_harmony_singleton();
    let mut random = Random::new(1);
    for _ in 0..testkit::soak::rounds(20_000, 1_000_000) {
        compare(peer, &texts::random(&mut random, 8));
    }
}

#[test]
fn random_texts_with_specials() {
    let peer = o200k_harmony_singleton();
    let mut random = Random::new(2);
    let mut found = 0;
    for _ in 0..10_000 {
        let text = texts::random(&mut random, 12);
        let ids = encode_with_specials(&text, &SpecialSet::ALL);
        assert_eq!(ids, peer.encode_with_special_tokens(&text), "{text:?}");
        found += ids
            .iter()
            .filter(|&&id| logue_o200k::special::is_special(id))
            .count();
    }
    assert!(found > 1_000, "{found} specials in all texts");
}

#[test]
fn every_third_character_in_context() {
    let peer = o200k_harmony_singleton();
    for point in (0..=0x10_FFFF).filter(|&point| point < 0x3000 || point % 31 == 0) {
        let Some(c) = char::from_u32(point) else {
            continue;
        };
        compare(peer, &format!("{c}a{c}B{c}{c} {c}1{c}\n{c}!{c}'s{c}"));
    }
}

#[test]
fn hard_texts() {
    let peer = o200k_harmony_singleton();
    for (_, text) in texts::hard(20_000) {
        compare(peer, &text);
    }
}

#[test]
fn long_pieces_of_tokens_of_one_kind() {
    let peer = o200k_harmony_singleton();
    let kinds: [fn(&char) -> bool; 4] = [
        char::is_ascii_lowercase,
        |c| ('\u{3040}'..='\u{9FFF}').contains(c),
        char::is_ascii_punctuation,
        |c| matches!(c, ' ' | '\t' | '\n'),
    ];
    let mut random = Random::new(4);
    for kind in kinds {
        let tokens: Vec<&str> = (0..199_998)
            .filter_map(|id| std::str::from_utf8(logue_o200k::token_bytes(id)?).ok())
            .filter(|token| token.chars().all(|c| kind(&c)))
            .collect();
        assert!(tokens.len() > 50, "{} tokens", tokens.len());
        for most in [2, 10, tokens.len()] {
            for _ in 0..500 {
                let mut text = String::new();
                let length = 65 + random.below(300);
                let set = random.below(tokens.len() - most + 1);
                while text.len() < length {
                    text.push_str(tokens[set + random.below(most)]);
                }
                compare(peer, &text);
            }
        }
    }
}

#[test]
fn every_token_alone_and_after_an_apostrophe() {
    let peer = o200k_harmony_singleton();
    for id in 0..199_998 {
        let bytes = logue_o200k::token_bytes(id).unwrap_or_default();
        if let Ok(text) = std::str::from_utf8(bytes) {
            compare(peer, text);
            compare(peer, &format!("a'{text}"));
        }
    }
}

#[test]
fn contractions_in_any_case_end_a_word() {
    let peer = o200k_harmony_singleton();
    for first in "sStTdDmMlLrReEvVxX\u{17F}\u{212A}".chars() {
        for second in "sStTdDmMlLrReEvVxX\u{17F} '".chars() {
            for word in ["a", "A", "Ab", "1", "文", "\u{301}", " "] {
                for rest in ["", "t", "T", "\u{301}", "ing", " "] {
                    compare(peer, &format!("{word}'{first}{second}{rest}"));
                }
            }
        }
    }
}
