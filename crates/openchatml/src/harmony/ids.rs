//! Token ids: what counts is the id, never the text that it spells.

use logue_source::Span;

use super::control::Control;
use super::event::{Event, HarmonyReadOptions};
use super::machine::Machine;
use crate::ControlToken;

/// The ids of `o200k_harmony` after its ordinary ones.
const SPECIAL: std::ops::RangeInclusive<u32> = 199_998..=201_088;

/// The id of a token in `o200k_harmony`; literal blocks have none.
pub const fn control_id(token: ControlToken) -> Option<u32> {
    Some(match token {
        ControlToken::Return => 200_002,
        ControlToken::Constrain => 200_003,
        ControlToken::Channel => 200_005,
        ControlToken::Start => 200_006,
        ControlToken::End => 200_007,
        ControlToken::Message => 200_008,
        ControlToken::Call => 200_012,
        ControlToken::Literal | ControlToken::EndLiteral => return None,
    })
}

/// Reads Harmony as token ids of `o200k_harmony`.
///
/// Only the ids of control tokens are control; an ordinary id is text even if it spells a token.
/// There is no escape and no literal block. Spans count the bytes of the text that the ids spell.
/// Text in a body is emitted without a copy or an allocation.
///
/// ```
/// use openchatml::harmony::{Event, IdStream, HarmonyReadOptions};
///
/// let bytes_of = |id| Some(match id { 1 => &b"assistant"[..], 2 => b"final", 3 => b"<|end|>", _ => return None });
/// let mut stream = IdStream::new(HarmonyReadOptions::default());
/// let mut text = String::new();
/// for id in [200_006, 1, 200_005, 2, 200_008, 3, 77, 200_002] {
///     stream.push(id, bytes_of, &mut |event: Event<'_>| if let Event::Delta(delta) = event { text += delta });
/// }
/// stream.finish(&mut |_: Event<'_>| {});
/// assert_eq!(text, "<|end|>\u{FFFD}"); // id 77 is unknown
/// ```
#[derive(Debug)]
pub struct IdStream {
    machine: Machine,
    at: usize,
}

impl IdStream {
    /// A stream at its beginning.
    pub fn new(options: HarmonyReadOptions) -> Self {
        Self {
            machine: Machine::new(options),
            at: 0,
        }
    }

    /// The next id. `bytes_of` gives the bytes of an ordinary one, which may be part of a
    /// character; an id that it does not know costs one U+FFFD and nothing after it.
    pub fn push<'v>(
        &mut self,
        id: u32,
        bytes_of: impl FnOnce(u32) -> Option<&'v [u8]>,
        sink: &mut impl FnMut(Event<'_>),
    ) {
        if let Some(control) = control_of(id) {
            let at = self.advance(control.as_str().len());
            self.machine.control(control, at, sink);
        } else if let Some(bytes) = bytes_of(id) {
            let at = self.advance(bytes.len());
            self.machine.text(bytes, at.start, sink);
        } else if SPECIAL.contains(&id) {
            let name = if id == 199_998 {
                "<|startoftext|>".to_owned()
            } else {
                format!("<|reserved_{id}|>")
            };
            let at = self.advance(name.len());
            self.machine.text(name.as_bytes(), at.start, sink);
        } else {
            let at = self.advance('\u{FFFD}'.len_utf8());
            self.machine.unknown_id(id, at, sink);
        }
    }

    /// Reads an ordinary id within a body if it is whole characters, and returns them.
    ///
    /// Returns `None` for any other id and anywhere else, and then has read nothing.
    #[cfg(feature = "o200k")]
    pub(super) fn push_text<'v>(
        &mut self,
        id: u32,
        bytes_of: impl FnOnce(u32) -> Option<&'v [u8]>,
    ) -> Option<&'v str> {
        if !self.machine.is_in_text() || SPECIAL.contains(&id) {
            return None;
        }
        let text = std::str::from_utf8(bytes_of(id)?).ok()?;
        if text.is_empty() {
            return None;
        }
        self.advance(text.len());
        Some(text)
    }

    /// Reads ordinary ids within a body that together are whole characters, and returns them.
    ///
    /// Returns `None` for other ids and anywhere else, and then has read nothing.
    #[cfg(feature = "o200k")]
    pub(super) fn push_texts<'v, 'b>(
        &mut self,
        ids: &[u32],
        bytes_of: impl Fn(u32) -> Option<&'v [u8]>,
        buffer: &'b mut Vec<u8>,
    ) -> Option<&'b str> {
        if !self.machine.is_in_text() {
            return None;
        }
        buffer.clear();
        for id in ids {
            if SPECIAL.contains(id) {
                return None;
            }
            buffer.extend_from_slice(bytes_of(*id)?);
        }
        let text = std::str::from_utf8(buffer).ok()?;
        self.advance(text.len());
        Some(text)
    }

    /// The end of the ids.
    pub fn finish(mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.machine.finish(self.at, sink);
    }

    fn advance(&mut self, length: usize) -> Span {
        let start = self.at;
        self.at += length;
        Span::new(start, self.at)
    }
}

fn control_of(id: u32) -> Option<Control> {
    if !SPECIAL.contains(&id) {
        return None;
    }
    if id == 199_999 {
        return Some(Control::EndOfText);
    }
    let token = ControlToken::ALL
        .into_iter()
        .find(|token| control_id(*token) == Some(id))?;
    Some(Control::Token(token))
}
