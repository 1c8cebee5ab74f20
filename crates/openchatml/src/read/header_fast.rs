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
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'<';
        let length = value.iter().position(|byte| !is_plain(byte))?;
        let is_ended = matches!(value.get(length), Some(b' ' | b'<'));
        if length == 0 || !is_ended || frame.has_part(part) {
            return None;
        }
        let value = value.get(..length)?;
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
    // Each word has a length of its own, so its comparison needs no call.
    let (role, rest) = match text.first()? {
        b'a' => (FrameRole::Assistant, text.strip_prefix(b"assistant")?),
        b'u' => (FrameRole::User, text.strip_prefix(b"user")?),
        b't' => (FrameRole::Tool, text.strip_prefix(b"tool")?),
        b's' => (FrameRole::System, text.strip_prefix(b"system")?),
        b'd' => (FrameRole::Developer, text.strip_prefix(b"developer")?),
        _ => return None,
    };
    matches!(rest.first(), Some(b' ' | b'<')).then_some((role, text.len() - rest.len()))
}

fn channel(text: &[u8]) -> Option<(Channel, usize)> {
    let (channel, rest) = match text.first()? {
        b'a' => (Channel::Analysis, text.strip_prefix(b"analysis")?),
        b'c' => (Channel::Commentary, text.strip_prefix(b"commentary")?),
        b'f' => (Channel::Final, text.strip_prefix(b"final")?),
        _ => return None,
    };
    (rest.first() == Some(&b'<')).then_some((channel, text.len() - rest.len()))
}

/// The known key at the beginning of `text`, and its length with the `=`.
fn key(text: &[u8]) -> Option<(Part, usize)> {
    let (part, rest) = match text.first()? {
        b't' => (Part::To, text.strip_prefix(b"to=")?),
        b'n' => (Part::Name, text.strip_prefix(b"name=")?),
        b'i' => (Part::Intent, text.strip_prefix(b"intent=")?),
        b'c' if text.get(1) == Some(&b'a') => (Part::CallId, text.strip_prefix(b"call_id=")?),
        b'c' => (Part::ContentType, text.strip_prefix(b"content_type=")?),
        _ => return None,
    };
    Some((part, text.len() - rest.len()))
}
