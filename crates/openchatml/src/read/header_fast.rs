//! Frame headers as the writer writes them, read in one go.
//!
//! Nearly every header is one of these, and looking for its tokens one by one costs more than
//! reading it. What is not exactly such a header is left to the [machine](crate::read::machine), which
//! reads every header, so this knows no errors.

use logue_source::Span;

use crate::document::frame::{Frame, Kind, Part};
use crate::read::attributes::is_type;
use crate::syntax::offset_slice::OffsetSlice;
use crate::syntax::rules::Rules;
use crate::syntax::token::ControlToken;
use crate::syntax::vocabulary::{Channel, FrameRole, Intent};
use crate::visibility::Recipient;

/// Maximum length of a header on the fast path.
const LONGEST: usize = 1024;

/// Reads the header of the frame whose `<|start|>` is at `start`, up to its body. `None` where
/// it is not as the writer writes it, or where it needs a diagnostic; what `frame` then
/// holds counts for nothing.
pub(crate) fn read(
    window: OffsetSlice<'_>,
    start: Span,
    rules: Rules,
    frame: &mut Frame,
) -> Option<()> {
    *frame = Frame::opened(start);
    let mut at = start.end;
    let mut rest = window.get(Span::new(at, at + LONGEST));

    let (role, length) = role(rest)?;
    frame.role = role;
    frame.set_part(Part::Role, Span::new(at, at + length));
    (at, rest) = (at + length, rest.get(length..)?);

    while let Some(word) = rest.strip_prefix(b" ") {
        let (part, key) = key(word)?;
        let value = word.get(key..)?;
        let length = value
            .iter()
            .position(|byte| *byte == b' ' || *byte == b'<')?;
        let value = value.get(..length)?;
        let plain = |byte: &u8| byte.is_ascii_graphic();
        if length == 0 || frame.has_part(part) || !value.iter().all(plain) {
            return None;
        }
        match part {
            Part::To => frame.recipient = Recipient::of(value),
            Part::Intent => match Intent::parse(value) {
                Intent::Other => return None,
                intent => frame.intent_word = Some(intent),
            },
            _ => {}
        }
        let from = at + 1 + key;
        frame.set_part(part, Span::new(from, from + length));
        (at, rest) = (from + length, word.get(key + length..)?);
    }

    frame.channel = Channel::Final;
    if let Some(word) = rest.strip_prefix(ControlToken::Channel.as_str().as_bytes()) {
        let (channel, length) = channel(word)?;
        let from = at + ControlToken::Channel.as_str().len();
        frame.channel = channel;
        frame.set_part(Part::Channel, Span::new(from, from + length));
        (at, rest) = (from + length, word.get(length..)?);
    }
    if let Some(word) = rest.strip_prefix(ControlToken::Constrain.as_str().as_bytes())
        && rules.has(ControlToken::Constrain)
    {
        let length = word.iter().take_while(|byte| byte.is_ascii_lowercase());
        let length = length.count();
        let from = at + ControlToken::Constrain.as_str().len();
        if length == 0 || !is_type(word.get(..length)?) {
            return None;
        }
        frame.set_part(Part::Constrain, Span::new(from, from + length));
        (at, rest) = (from + length, word.get(length..)?);
    }
    rest.starts_with(ControlToken::Message.as_str().as_bytes())
        .then_some(())?;
    frame.body = Span::empty(at + ControlToken::Message.as_str().len());
    frame.kind = Kind::Message;

    let needs_id = match frame.role {
        FrameRole::Tool => true,
        FrameRole::Assistant => frame.recipient == Recipient::Tool,
        _ => false,
    };
    let lacks = (needs_id && !frame.has_part(Part::CallId))
        || (frame.role == FrameRole::Tool && !frame.has_part(Part::Name));
    (rules == Rules::V2_0 || !lacks).then_some(())
}

/// The role at the beginning of `text`, and its length.
fn role(text: &[u8]) -> Option<(FrameRole, usize)> {
    let (role, word) = match text.first()? {
        b'a' => (FrameRole::Assistant, &b"assistant"[..]),
        b'u' => (FrameRole::User, &b"user"[..]),
        b't' => (FrameRole::Tool, &b"tool"[..]),
        b's' => (FrameRole::System, &b"system"[..]),
        b'd' => (FrameRole::Developer, &b"developer"[..]),
        _ => return None,
    };
    ends(text, word).then_some((role, word.len()))
}

fn channel(text: &[u8]) -> Option<(Channel, usize)> {
    let (channel, word) = match text.first()? {
        b'a' => (Channel::Analysis, &b"analysis"[..]),
        b'c' => (Channel::Commentary, &b"commentary"[..]),
        b'f' => (Channel::Final, &b"final"[..]),
        _ => return None,
    };
    let whole = text.starts_with(word) && text.get(word.len()) == Some(&b'<');
    whole.then_some((channel, word.len()))
}

fn ends(text: &[u8], word: &[u8]) -> bool {
    text.starts_with(word) && matches!(text.get(word.len()), Some(b' ' | b'<'))
}

/// The known key at the beginning of `text`, and its length with the `=`.
fn key(text: &[u8]) -> Option<(Part, usize)> {
    let (part, key) = match text.first()? {
        b't' => (Part::To, &b"to="[..]),
        b'n' => (Part::Name, &b"name="[..]),
        b'i' => (Part::Intent, &b"intent="[..]),
        b'c' if text.get(1) == Some(&b'a') => (Part::CallId, &b"call_id="[..]),
        b'c' => (Part::ContentType, &b"content_type="[..]),
        _ => return None,
    };
    text.starts_with(key).then_some((part, key.len()))
}
