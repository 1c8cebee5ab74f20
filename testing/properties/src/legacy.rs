//! OpenChatML 0.1: however it is split it reads the same, and what is written of it reads back.

use openchatml::v0_1::{
    Event, Item, LegacyReadOptions, Stream, TextKind, WriteOptions, parse, to_transcript, write,
};

use crate::input::{Cuts, Input};

/// The first byte says how to cut the rest, which is the text; a capital letter reads plain
/// `ChatML`.
pub fn legacy(data: &[u8]) {
    let mut input = Input::new(data);
    let seed = input.byte();
    let plain = seed.is_ascii_uppercase();
    let (reading, writing) = if plain {
        (LegacyReadOptions::plain(), WriteOptions::plain())
    } else {
        (LegacyReadOptions::default(), WriteOptions::default())
    };
    let text = input.rest();
    let whole = hear(&[text], &reading);
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(hear(&single, &reading), whole, "byte by byte");
    let parts = Cuts::new(seed).parts(text);
    assert_eq!(hear(&parts, &reading), whole, "as {parts:?}");

    let document = parse(text, &reading);
    let mut at = 0;
    for piece in document.pieces() {
        assert_eq!(piece.span().start, at);
        at = piece.span().end;
    }
    assert_eq!(at, text.len());
    let mut said = String::new();
    for message in document.messages() {
        for item in &message.items {
            if let Item::Text(span) | Item::Thought(_, span) = item {
                said += &document.text(*span);
            }
        }
    }
    if document.task().is_none() {
        assert_eq!(said, whole);
    }

    let (transcript, _) = to_transcript(&document);
    let Ok(written) = write(&transcript, &writing) else {
        return;
    };
    let again = parse(written.text.as_bytes(), &reading);
    assert!(again.diagnostics().is_empty(), "{}", written.text);
    let (again, _) = to_transcript(&again);
    let twice = write(&again, &writing).map(|written| written.text);
    assert_eq!(twice.as_deref(), Ok(written.text.as_str()));
}

/// All text that a stream told.
fn hear(parts: &[&[u8]], options: &LegacyReadOptions) -> String {
    let mut said = String::new();
    let mut sink = |event: Event<'_>| {
        if let Event::Delta {
            kind: TextKind::Text | TextKind::Thought(_),
            text,
        } = event
        {
            said += text;
        }
    };
    let mut stream = Stream::new(options.clone());
    for part in parts {
        stream.push(part, &mut sink);
    }
    stream.finish(&mut sink);
    said
}
