//! Text to ids and back.

use logue_o200k::{
    Encoder, SpecialSet, TextStream, VOCABULARY_SIZE, count, decode, decode_text, encode,
    encode_with_specials, safe_split, special,
};

/// Encoding loses nothing and gives ids of the vocabulary; text gives no special, and with the
/// specials allowed their names are the same bytes. Ids in any order decode without panic.
pub fn o200k(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let ids = encode(&text);
    assert_eq!(decode_text(&ids).as_deref(), Ok(&*text));
    assert!(ids.iter().all(|id| !special::is_special(*id)));
    assert_eq!(count(&text), ids.len());

    let mut encoder = Encoder::new();
    for _ in 0..2 {
        assert_eq!(
            encoder.encode(&text),
            ids,
            "what was learnt changes nothing"
        );
    }
    let with_specials = encode_with_specials(&text, &SpecialSet::ALL);
    let in_range = |id: &u32| usize::try_from(*id).is_ok_and(|id| id < VOCABULARY_SIZE);
    assert!(with_specials.iter().all(in_range));
    assert_eq!(decode(&with_specials).as_deref(), Ok(text.as_bytes()));

    cut_anywhere_safe(&text, &ids, &with_specials);

    let mut stream = TextStream::new();
    let mut told = String::new();
    for id in &ids {
        told.push_str(stream.push_lossy(*id));
    }
    told.push_str(stream.finish());
    assert_eq!(told, text);

    let any: Vec<u32> = data
        .chunks(3)
        .map(|bytes| bytes.iter().fold(0, |id, byte| id << 6 | u32::from(*byte)))
        .collect();
    if let Ok(bytes) = decode(&any) {
        assert_eq!(
            logue_o200k::decode_lossy(&any),
            String::from_utf8_lossy(&bytes)
        );
    }
}

/// At the last places where a text may be cut, its parts have the tokens of the whole.
fn cut_anywhere_safe(text: &str, ids: &[u32], with_specials: &[u32]) {
    let places = std::iter::successors(safe_split(text), |at| safe_split(&text[..*at]));
    for at in places.take(4) {
        let (left, right) = text.split_at(at);
        assert_eq!([encode(left), encode(right)].concat(), ids, "cut at {at}");
        let parts = [left, right].map(|part| encode_with_specials(part, &SpecialSet::ALL));
        assert_eq!(parts.concat(), with_specials, "cut at {at}");
    }
}
