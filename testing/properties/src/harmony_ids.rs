//! Harmony as token ids: the id counts and never the text that it spells.

use logue_o200k::{special, token_bytes, token_id};
use openchatml::ControlToken;
use openchatml::harmony::{HarmonyReadOptions, control_id, read_ids};

use crate::accounted::assert_is_accounted_for;
use crate::events::{messages, of_ids};
use crate::input::Input;

/// Ids that are in no vocabulary.
const UNKNOWN: [u32; 4] = [201_089, 201_090, 1 << 24, u32::MAX];

/// Any ids are read without panic and in order. The same text cut into other ordinary ids gives
/// the same, so no ordinary id is control, whatever it spells. What a message says is the text of
/// its ids.
///
/// The first byte says how to read; the others are ids: ASCII is the token of that character,
/// `0x80` and on the control tokens, the other ranges are described in the source.
pub fn harmony_ids(data: &[u8]) {
    let mut input = Input::new(data);
    let options = input.options();
    let mut ids = Vec::new();
    while let Some(byte) = input.next() {
        ids.extend(id(byte, &mut input));
    }
    ids_mean_themselves(&ids, &options);
}

fn id(byte: u8, input: &mut Input<'_>) -> Option<u32> {
    let next = u32::from(input_if(byte >= 0x90, input));
    Some(match byte {
        0..0x80 => token_id(&[byte])?,
        0x80..0x90 => {
            control_id(ControlToken::ALL[usize::from(byte & 0xF) % ControlToken::ALL.len()])?
        }
        // One byte of a character, or of none.
        0x90..0xA0 => token_id(&[u8::try_from(next).unwrap_or_default()])?,
        // An ordinary token.
        0xA0..0xE0 => next << 8 | u32::from(input.byte()) | u32::from(byte & 3) << 16,
        // A special, reserved or not.
        0xE0..0xF0 => special::START_OF_TEXT + (next | u32::from(byte & 0xF) << 8) % 1_091,
        0xF0..0xF8 => UNKNOWN[usize::from(byte & 3)],
        0xF8.. => next | u32::from(input.byte()) << 8 | u32::from(input.byte()) << 24,
    })
}

fn input_if(wanted: bool, input: &mut Input<'_>) -> u8 {
    if wanted { input.byte() } else { 0 }
}

fn ids_mean_themselves(ids: &[u32], options: &HarmonyReadOptions) {
    let whole = of_ids(ids, token_bytes, options);
    let told = messages(&whole);

    let single: Vec<u32> = ids.iter().flat_map(|id| in_single_bytes(*id)).collect();
    assert_eq!(of_ids(&single, token_bytes, options), whole, "byte by byte");

    let spelled: Vec<u8> = ids.iter().flat_map(|id| spelling(*id)).copied().collect();
    let opening = |id: &&u32| is_control(**id) || **id == special::END_OF_TEXT;
    let openings = ids.iter().filter(opening).count() + usize::from(options.start_role.is_some());
    assert!(
        told.len() <= 2 * openings + 1,
        "{} messages of {openings} control tokens",
        told.len()
    );
    if openings == 0 {
        assert!(told.iter().all(|message| message.head.stray));
    }
    if options.strict {
        return;
    }
    assert_is_accounted_for(&spelled, &whole, &told);
    let dropped = message_tokens(ids);
    for message in &told {
        let body = message.ended.body;
        let kept = body.bytes(&spelled).iter().zip(body.start..);
        let is_dropped = |at: usize| dropped.iter().any(|span| span.contains(&at));
        let kept = kept.filter(|(_, at)| !is_dropped(*at));
        let kept: Vec<u8> = kept.map(|(byte, _)| *byte).collect();
        let text = String::from_utf8_lossy(&kept);
        assert_eq!(message.content, text, "{:?}", message.head);
    }
    let document = read_ids(ids.iter().copied(), token_bytes, options);
    assert_eq!(document.messages.len(), told.len());
    for (read, told) in document.messages.iter().zip(&told) {
        assert_eq!((&read.head, &read.content), (&told.head, &told.content));
        assert_eq!((read.span, read.end), (told.ended.span, told.end));
    }
}

/// The places of `<|message|>` in the text, which a body does not contain.
fn message_tokens(ids: &[u32]) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    let spans = ids.iter().filter_map(|id| {
        let start = at;
        at += spelling(*id).len();
        (control_id(ControlToken::Message) == Some(*id)).then_some(start..at)
    });
    spans.collect()
}

fn is_control(id: u32) -> bool {
    ControlToken::ALL
        .into_iter()
        .any(|token| control_id(token) == Some(id))
}

/// The same text in other ids; structure and what nobody knows stay as they are.
fn in_single_bytes(id: u32) -> Vec<u32> {
    match token_bytes(id) {
        Some(bytes) if !special::is_special(id) => bytes
            .iter()
            .filter_map(|byte| token_id(std::slice::from_ref(byte)))
            .collect(),
        _ => vec![id],
    }
}

fn spelling(id: u32) -> &'static [u8] {
    token_bytes(id).unwrap_or("\u{FFFD}".as_bytes())
}
