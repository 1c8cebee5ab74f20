//! What is hidden is nowhere in what is shown.
//!
//! Two properties. The rule of what may be seen, said once more and from the other side. And that
//! what is shown does not depend on hidden text: with every letter of it changed, the same is
//! shown.

use logue_source::Span;
use openchatml::harmony::{HarmonyReadOptions, MessageHeader};
use openchatml::{Channel, ControlToken, Document, FrameRole, View, parse};

use crate::events::{Told, messages, of_text};
use crate::input::Input;

/// The first byte says how to read the rest as Harmony; the rest is read as OpenChatML 2.x too.
pub fn visibility(data: &[u8]) {
    let mut input = Input::new(data);
    let options = input.options();
    let text = input.rest();
    from_openchatml(text);
    of_harmony(text, &options);
}

fn from_openchatml(text: &[u8]) {
    let document = parse(text);
    let view = View::new(&document);
    for frame in document.frames() {
        let to = document.to(frame);
        let intent = document.intent(frame);
        let allowed = !frame.is_stray()
            && may_be_seen(
                frame.role(),
                frame.channel(),
                intent.as_deref(),
                to.as_deref(),
            );
        assert_eq!(view.text(frame).is_ok(), allowed, "{frame:?}");
    }
    let hidden = document
        .frames()
        .iter()
        .filter(|frame| !openchatml::is_visible(frame));
    let changed = with_changes(text, hidden.map(openchatml::Frame::body_span));
    let other = parse(&changed);
    assert_eq!(
        shown(&other),
        shown(&document),
        "of {:?}",
        String::from_utf8_lossy(&changed)
    );
}

fn shown(document: &Document<'_>) -> Vec<String> {
    let view = View::new(document);
    let texts = view.frames().filter_map(|frame| view.text(frame).ok());
    texts.map(String::from).collect()
}

fn of_harmony(text: &[u8], options: &HarmonyReadOptions) {
    let told = of_text(&[text], options);
    let messages = messages(&told);
    for message in &messages {
        assert_eq!(
            message.head.is_visible(),
            head_may_be_seen(&message.head),
            "{message:?}"
        );
    }
    // A header that broke off left its text in the body, where letters still are its structure.
    let hidden = messages
        .iter()
        .filter(|message| !message.head.is_visible() && message.head.sound);
    let changed = with_changes(text, hidden.map(|message| message.ended.body));
    assert_eq!(
        visible_deltas(&of_text(&[&changed], options)),
        visible_deltas(&told),
        "of {:?}",
        String::from_utf8_lossy(&changed)
    );
}

fn visible_deltas(told: &[Told]) -> Vec<String> {
    let mut visible = false;
    let mut deltas = Vec::new();
    for event in told {
        match event {
            Told::Start(head) => visible = head.is_visible(),
            Told::Delta(text) if visible => deltas.push(text.clone()),
            _ => {}
        }
    }
    deltas
}

/// The only three kinds of frame that may be seen.
fn may_be_seen(role: FrameRole, channel: Channel, intent: Option<&str>, to: Option<&str>) -> bool {
    let to_tool = to.is_some_and(|to| !["user", "assistant", "all"].contains(&to));
    match (role, channel) {
        (FrameRole::User, Channel::Final) => true,
        (FrameRole::Assistant, Channel::Final) => !to_tool,
        (FrameRole::Assistant, Channel::Commentary) => !to_tool && intent == Some("preamble"),
        _ => false,
    }
}

fn head_may_be_seen(head: &MessageHeader) -> bool {
    let channel = match head.channel.as_deref() {
        Some("final") => Channel::Final,
        Some("commentary") => Channel::Commentary,
        None if head.role == FrameRole::User && head.sound => Channel::Final,
        _ => Channel::Unknown,
    };
    let (intent, to) = (head.intent.as_deref(), head.recipient.as_deref());
    !head.stray && may_be_seen(head.role, channel, intent, to)
}

/// The text with every letter and digit at `places` changed, but for those of tokens.
fn with_changes(text: &[u8], places: impl Iterator<Item = Span>) -> Vec<u8> {
    let mut changed = text.to_owned();
    for place in places {
        let mut at = place.start;
        while at < place.end {
            let rest = &text[at..];
            let tokens = ControlToken::ALL.map(ControlToken::as_str).into_iter();
            let mut tokens = tokens.chain(["<|endoftext|>"]);
            if let Some(token) = tokens.find(|token| rest.starts_with(token.as_bytes())) {
                at += token.len();
                continue;
            }
            if changed[at].is_ascii_alphanumeric() {
                changed[at] = b'x';
            }
            at += 1;
        }
    }
    changed
}
