//! What a reader of Harmony tells, as values that can be compared.

use logue_source::Diagnostic;
use openchatml::harmony::{
    End, Event, HarmonyReadOptions, IdStream, MessageEnd, MessageHeader, Stream,
};

/// An [`Event`] that owns what it tells; adjacent deltas are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Start(MessageHeader),
    Delta(String),
    End(MessageEnd),
    Amended(End),
    Diagnostic(Diagnostic),
}

/// The events of a text that arrives in these parts.
pub(crate) fn of_text(parts: &[&[u8]], options: &HarmonyReadOptions) -> Vec<Told> {
    let mut told = Vec::new();
    let mut stream = Stream::new(options.clone());
    for part in parts {
        stream.push(part, &mut |event: Event<'_>| take(&mut told, event));
    }
    stream.finish(&mut |event: Event<'_>| take(&mut told, event));
    told
}

/// The events of ids.
pub(crate) fn of_ids<'v>(
    ids: &[u32],
    bytes_of: impl Fn(u32) -> Option<&'v [u8]>,
    options: &HarmonyReadOptions,
) -> Vec<Told> {
    let mut told = Vec::new();
    let mut stream = IdStream::new(options.clone());
    for id in ids {
        stream.push(*id, &bytes_of, &mut |event: Event<'_>| {
            take(&mut told, event);
        });
    }
    stream.finish(&mut |event: Event<'_>| take(&mut told, event));
    told
}

fn take(told: &mut Vec<Told>, event: Event<'_>) {
    let event = match event {
        Event::Start(head) => Told::Start(head.clone()),
        Event::End(ended) => Told::End(ended),
        Event::Amended(end) => Told::Amended(end),
        Event::Diagnostic(found) => Told::Diagnostic(found),
        Event::Delta(text) => {
            assert!(!text.is_empty(), "an empty delta");
            if let Some(Told::Delta(before)) = told.last_mut() {
                before.push_str(text);
                return;
            }
            Told::Delta(text.to_owned())
        }
        other => unreachable!("an event that nobody compares: {other:?}"),
    };
    told.push(event);
}

/// A message as events tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) head: MessageHeader,
    pub(crate) content: String,
    pub(crate) ended: MessageEnd,
    /// The end that counts, amended or not.
    pub(crate) end: End,
}

/// The messages that events tell of. Panics where the events are in no order that makes sense.
pub(crate) fn messages(told: &[Told]) -> Vec<Whole> {
    let mut whole: Vec<Whole> = Vec::new();
    let mut open: Option<(MessageHeader, String)> = None;
    for event in told {
        match event {
            Told::Start(head) => {
                let before = open.replace((head.clone(), String::new()));
                assert!(before.is_none(), "a message begins in another");
            }
            Told::Delta(text) => {
                let open = open.as_mut();
                let Some((_, content)) = open else {
                    panic!("text outside every message: {text:?}");
                };
                content.push_str(text);
            }
            Told::End(ended) => {
                let Some((head, content)) = open.take() else {
                    panic!("an end without a beginning: {ended:?}");
                };
                whole.push(Whole {
                    head,
                    content,
                    ended: *ended,
                    end: ended.end,
                });
            }
            Told::Amended(end) => {
                assert!(open.is_none(), "a message is amended within another");
                let Some(last) = whole.last_mut() else {
                    panic!("no message that could be amended");
                };
                assert_eq!(last.ended.end, End::End);
                last.end = *end;
            }
            Told::Diagnostic(_) => {}
        }
    }
    assert!(open.is_none(), "a message is left open");
    whole
}
