//! Events out of bytes: any split gives the same.

use logue_model::{SseDecoder, SseError};
use proptest::prelude::*;

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = SseDecoder::new(10_000);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events).unwrap();
    }
    events
        .into_iter()
        .map(|event| String::from_utf8_lossy(&event).into_owned())
        .collect()
}

#[test]
fn lines_and_fields_are_read_as_the_format_says() {
    let cases: &[(&str, &[&str])] = &[
        ("data: a\n\n", &["a"]),
        ("data:a\r\n\r\ndata:  b\r\r", &["a", " b"]),
        ("data: a\ndata\ndata: b\n\n", &["a\n\nb"]),
        (": comment\nevent: x\nid: 1\n\ndata: a\n\n", &["a"]),
        ("\u{FEFF}data: a\n\n", &["a"]),
        ("database: a\n\n", &[]),
        ("data: cut", &[]),
        ("data: cut\n", &[]),
        ("data\n\n", &[""]),
    ];
    for (text, expected) in cases {
        assert_eq!(decode([text.as_bytes()]), *expected, "{text:?}");
    }
}

#[test]
fn an_event_over_the_limit_is_refused_however_it_comes() {
    for piece in [1, 7, 1000] {
        let mut decoder = SseDecoder::new(100);
        let text = format!("data: {}", "a".repeat(1000));
        let mut result = Ok(());
        for piece in text.as_bytes().chunks(piece) {
            result = result.and_then(|()| decoder.push(piece, &mut Vec::new()));
        }
        assert_eq!(result, Err(SseError::TooLarge(100)));
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("data: "), Just("\n"), Just("\r"), Just("\r\n"), Just("é🦀"), Just(":"),
                Just("data"), Just("event: x"), Just("a b"), Just("\u{FEFF}"),
            ],
            0..40,
        ),
        cuts in proptest::collection::vec(0usize..200, 0..20),
    ) {
        let text = parts.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
        prop_assert_eq!(decode(pieces), decode([text.as_slice()]));
        prop_assert_eq!(decode(text.chunks(1)), decode([text.as_slice()]));
    }
}
