//! Decoding of ids, all at once and one by one.

use logue_o200k::{
    DecodeError, TextStream, UnknownTokenId, VOCABULARY_SIZE, decode, decode_lossy, decode_text,
    encode, token_bytes, token_id,
};
use proptest::prelude::*;

/// Generates ids; many are part of a character or unknown.
fn ids() -> impl Strategy<Value = Vec<u32>> {
    let id = prop_oneof![
        4 => 0..201_089_u32,
        4 => 0..256_u32,
        1 => 201_089..201_100_u32,
        1 => any::<u32>(),
    ];
    prop::collection::vec(id, 0..40)
}

#[test]
fn every_id_has_bytes_and_every_ordinary_one_is_found_by_them() {
    for id in 0..201_089 {
        let Some(bytes) = token_bytes(id) else {
            panic!("{id} has no bytes");
        };
        assert!(!bytes.is_empty() && bytes.len() <= 128, "{id}");
        assert_eq!(decode(&[id]).as_deref(), Ok(bytes));
        assert_eq!(token_id(bytes), (id < 199_998).then_some(id));
    }
    assert_eq!(VOCABULARY_SIZE, 201_089);
}

#[test]
fn every_byte_is_a_token() {
    for byte in 0..=255_u8 {
        assert!(token_id(&[byte]).is_some_and(|id| id < 256));
    }
    assert_eq!(token_id(&[]), None);
    assert_eq!(token_id(&[b'a'; 129]), None);
    assert_eq!(token_id(&[0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
}

#[test]
fn an_unknown_id_is_an_error_with_its_number() {
    for id in [201_089, 201_090, 1 << 18, u32::MAX] {
        assert_eq!(decode(&[13225, id, 0]), Err(UnknownTokenId(id)));
        let error = decode_text(&[13225, id]);
        assert_eq!(error, Err(DecodeError::UnknownId(UnknownTokenId(id))));
        assert_eq!(token_bytes(id), None);
        assert_eq!(decode_lossy(&[13225, id, 0]), "Hello\u{FFFD}!");
    }
    let message = UnknownTokenId(201_089).to_string();
    assert_eq!(message, "201089 is not a token id of o200k_harmony");
}

#[test]
fn text_that_is_no_utf_8_keeps_its_bytes_in_the_error() {
    let ids = encode("\u{1F98A}");
    let cut = ids.get(..1).unwrap_or_default();
    let Err(DecodeError::Utf8(error)) = decode_text(cut) else {
        panic!("a part of a character is no text");
    };
    assert_eq!(Ok(error.into_bytes()), decode(cut));
}

#[test]
fn a_stream_holds_back_a_character_until_it_is_complete() {
    let bytes = "é€🦊"
        .bytes()
        .map(|byte| token_id(&[byte]).unwrap_or_default());
    let mut stream = TextStream::new();
    let parts: Vec<String> = bytes
        .map(|id| stream.push(id).unwrap_or("?").to_owned())
        .collect();
    assert_eq!(parts, ["", "é", "", "", "€", "", "", "", "🦊"]);
    assert!(!stream.is_incomplete());
    assert_eq!(stream.finish(), "");
}

#[test]
fn an_unknown_id_leaves_a_stream_as_it_was() {
    let mut bytes = "é"
        .bytes()
        .map(|byte| token_id(&[byte]).unwrap_or_default());
    let mut stream = TextStream::new();
    assert_eq!(stream.push(bytes.next().unwrap_or_default()), Ok(""));
    assert_eq!(stream.push(u32::MAX), Err(UnknownTokenId(u32::MAX)));
    assert!(stream.is_incomplete());
    assert_eq!(stream.push(bytes.next().unwrap_or_default()), Ok("é"));
}

#[test]
fn a_stream_that_ends_within_a_character_says_so_once() {
    let first = token_id(&[0xF0]).unwrap_or_default();
    let mut stream = TextStream::new();
    assert_eq!(stream.push(first), Ok(""));
    assert_eq!(stream.finish(), "\u{FFFD}");
    assert_eq!(stream.finish(), "");
    assert_eq!(stream.push(13225), Ok("Hello"));
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_itself(text in any::<String>()) {
        let ids = encode(&text);
        prop_assert_eq!(decode(&ids), Ok(text.clone().into_bytes()));
        prop_assert_eq!(decode_text(&ids), Ok(text.clone()));
        prop_assert_eq!(decode_lossy(&ids), text);
    }

    #[test]
    fn decoding_is_joining_the_bytes(ids in ids()) {
        let joined: Option<Vec<&[u8]>> = ids.iter().map(|&id| token_bytes(id)).collect();
        match (decode(&ids), joined) {
            (Ok(bytes), Some(joined)) => prop_assert_eq!(bytes, joined.concat()),
            (Err(UnknownTokenId(id)), None) => {
                let first = ids.iter().find(|&&id| token_bytes(id).is_none());
                prop_assert_eq!(Some(&id), first);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    /// Lossy text is that of the standard library, with U+FFFD for what is no id.
    #[test]
    fn lossy_text_loses_only_what_is_bad(ids in ids()) {
        let mut expected = String::new();
        for known in ids.split_inclusive(|&id| token_bytes(id).is_none()) {
            let (last, before) = known.split_last().map_or((None, known), |(last, before)| {
                if token_bytes(*last).is_none() { (Some(last), before) } else { (None, known) }
            });
            let bytes = decode(before).unwrap_or_default();
            expected.push_str(&String::from_utf8_lossy(&bytes));
            expected.extend(last.map(|_| '\u{FFFD}'));
        }
        prop_assert_eq!(decode_lossy(&ids), expected);
    }
}
