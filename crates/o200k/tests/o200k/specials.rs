//! Specials by number and name; ordinary text never becomes one.

use logue_o200k::special::{self, IDS, is_special};
use logue_o200k::{
    Encoder, SpecialSet, VOCABULARY_SIZE, count, count_with_specials, encode, encode_with_specials,
    token_bytes, token_id,
};
use proptest::prelude::*;

const NAMED: [(u32, &str); 9] = [
    (199_998, "<|startoftext|>"),
    (199_999, "<|endoftext|>"),
    (200_002, "<|return|>"),
    (200_003, "<|constrain|>"),
    (200_005, "<|channel|>"),
    (200_006, "<|start|>"),
    (200_007, "<|end|>"),
    (200_008, "<|message|>"),
    (200_012, "<|call|>"),
];

/// Returns the expected name of a special.
fn expected(id: u32) -> String {
    let named = NAMED.iter().find(|&&(named, _)| named == id);
    named.map_or_else(
        || format!("<|reserved_{id}|>"),
        |&(_, name)| name.to_owned(),
    )
}

#[test]
fn every_special_has_its_name() {
    assert_eq!(IDS, 199_998..=201_088);
    assert_eq!(IDS.count(), 1_091);
    assert_eq!(special::COUNT, 1_091);
    assert_eq!(VOCABULARY_SIZE, 201_089);
    for id in IDS {
        let name = expected(id);
        assert_eq!(special::name(id), Some(name.as_str()));
        assert_eq!(special::id(&name), Some(id));
        assert_eq!(token_bytes(id), Some(name.as_bytes()));
        assert_eq!(encode_with_specials(&name, &SpecialSet::ALL), [id]);
    }
}

#[test]
fn constants_are_the_table_s() {
    let constants = [
        special::START_OF_TEXT,
        special::END_OF_TEXT,
        special::RETURN,
        special::CONSTRAIN,
        special::CHANNEL,
        special::START,
        special::END,
        special::MESSAGE,
        special::CALL,
    ];
    assert_eq!(constants, NAMED.map(|(id, _)| id));
}

#[test]
fn what_is_no_special_has_no_name() {
    for id in [0, 199_997, 201_089, u32::MAX] {
        assert!(!is_special(id));
        assert_eq!(special::name(id), None);
    }
    let names = [
        "",
        "<|",
        "<||>",
        "<|>",
        "start",
        "<|start",
        "start|>",
        "<|START|>",
        "<| start|>",
        "<|reserved_|>",
        "<|reserved_200006|>",
        "<|reserved_0200000|>",
        "<|reserved_+200000|>",
        "<|reserved_201089|>",
        "<|reserved_199997|>",
        "<|reserved_99999999999999999999|>",
        "<|literal|>",
        "<|refusal|>",
    ];
    for name in names {
        assert_eq!(special::id(name), None, "{name:?}");
    }
}

#[test]
fn names_in_ordinary_text_are_text() {
    for id in IDS {
        let text = format!("a {} b", expected(id));
        assert!(encode(&text).iter().all(|&id| !is_special(id)), "{text}");
        assert_eq!(
            encode(&text),
            encode_with_specials(&text, &SpecialSet::NONE)
        );
        assert_eq!(token_id(expected(id).as_bytes()), None);
    }
}

#[test]
fn specials_are_found_wherever_they_stand() {
    let cases: [(&str, &[&str]); 9] = [
        ("<|start|><|end|>", &["<|start|>", "<|end|>"]),
        ("<|<|start|>", &["<|", "<|start|>"]),
        ("<|start<|start|>", &["<|start", "<|start|>"]),
        ("<|start|>|>", &["<|start|>", "|>"]),
        ("<|>start|><|end|>", &["<|>start|>", "<|end|>"]),
        ("<||><|end|>", &["<||>", "<|end|>"]),
        ("<<|end|>", &["<", "<|end|>"]),
        ("文<|end|>\u{301}", &["文", "<|end|>", "\u{301}"]),
        (
            "<|reserved_200000|><|end",
            &["<|reserved_200000|>", "<|end"],
        ),
    ];
    for (text, parts) in cases {
        let mut ids = Vec::new();
        for part in parts {
            match special::id(part) {
                Some(id) => ids.push(id),
                None => ids.extend(encode(part)),
            }
        }
        assert_eq!(
            encode_with_specials(text, &SpecialSet::ALL),
            ids,
            "{text:?}"
        );
    }
}

#[test]
fn white_space_before_a_special_is_the_end_of_a_text() {
    // Alone, the spaces are one piece; before a letter, the last of them goes with it.
    let ids = encode_with_specials("a   <|end|>b", &SpecialSet::HARMONY);
    let mut parts = encode("a   ");
    parts.push(special::END);
    parts.extend(encode("b"));
    assert_eq!(ids, parts);
}

#[test]
fn a_set_has_its_members() {
    assert_eq!(SpecialSet::NONE.iter().count(), 0);
    assert!(SpecialSet::ALL.iter().eq(IDS));
    let harmony: Vec<u32> = SpecialSet::HARMONY.iter().collect();
    let expected = [
        200_002, 200_003, 200_005, 200_006, 200_007, 200_008, 200_012,
    ];
    assert_eq!(harmony, expected);
    assert_eq!(
        expected.into_iter().collect::<SpecialSet>(),
        SpecialSet::HARMONY
    );
    assert_eq!(SpecialSet::NONE.with(13).with(u32::MAX), SpecialSet::NONE);
    assert!(!SpecialSet::ALL.contains(13));
    assert_eq!(format!("{:?}", SpecialSet::NONE.with(200_007)), "{200007}");
}

proptest! {
    /// Texts of pieces of names, in which names come to be now and then.
    #[test]
    fn no_ordinary_text_becomes_a_special(
        parts in prop::collection::vec(
            prop_oneof![
                Just("<|"), Just("|>"), Just("start"), Just("end"), Just("reserved_"),
                Just("200000"), Just("<|start|>"), Just("<|call|>"), Just(" "), Just("文"),
            ],
            0..12,
        )
    ) {
        let text = parts.concat();
        let ids = encode(&text);
        prop_assert!(ids.iter().all(|&id| !is_special(id)));
        prop_assert_eq!(count(&text), ids.len());

        let with = encode_with_specials(&text, &SpecialSet::HARMONY);
        let names = ["<|start|>", "<|end|>", "<|call|>"];
        let spelled: usize = names.iter().map(|name| text.matches(name).count()).sum();
        prop_assert_eq!(with.iter().filter(|&&id| is_special(id)).count(), spelled);
        prop_assert_eq!(count_with_specials(&text, &SpecialSet::HARMONY), with.len());

        let mut encoder = Encoder::new();
        for _ in 0..2 {
            prop_assert_eq!(&encoder.encode(&text), &ids);
            let again = encoder.encode_with_specials(&text, &SpecialSet::HARMONY);
            prop_assert_eq!(&again, &with);
        }
    }
}
