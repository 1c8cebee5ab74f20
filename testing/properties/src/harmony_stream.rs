//! Harmony as text: however it arrives, the same is read, and all of it.

use openchatml::harmony::{HarmonyReadOptions, read};

use crate::accounted::assert_is_accounted_for;
use crate::events::{messages, of_text};
use crate::input::{Cuts, Input};

/// The first byte says how to read, the second how to cut the rest, which is the text.
pub fn harmony_stream(data: &[u8]) {
    let mut input = Input::new(data);
    let options = input.options();
    let seed = input.byte();
    harmony_text_in_parts(input.rest(), &options, seed);
}

/// A text in one part, in single bytes and in parts out of a seed gives the same events; they are
/// what [`read`] collects; and no byte is lost.
pub fn harmony_text_in_parts(text: &[u8], options: &HarmonyReadOptions, seed: u8) {
    let whole = of_text(&[text], options);
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(of_text(&single, options), whole, "byte by byte");
    let parts = Cuts::new(seed).parts(text);
    assert_eq!(of_text(&parts, options), whole, "as {parts:?}");

    let told = messages(&whole);
    let document = read(text, options);
    assert!(document.messages.len() <= told.len());
    if !options.strict {
        assert_eq!(document.messages.len(), told.len());
        assert_is_accounted_for(text, &whole, &told);
    }
    for (read, told) in document.messages.iter().zip(&told) {
        assert_eq!(read.head, told.head);
        assert_eq!(read.content, told.content);
        assert_eq!(read.span, told.ended.span);
        assert_eq!(read.body, told.ended.body);
        assert_eq!(read.complete, told.ended.complete);
        // A strict reader stops at a body that is no JSON, before a later stop token.
        assert!(options.strict || read.end == told.end);
    }
}
