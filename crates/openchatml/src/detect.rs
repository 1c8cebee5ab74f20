//! Detection of the dialect of a text.
//!
//! The rules, in their order; the first that applies decides:
//!
//! 1. A text that begins with `<|im_start|>` or `[BOS]`: the 1.x line. It is 0.1 if it has a token
//!    that only 0.1 has (thoughts, functions, gaps, files), else `ChatML`.
//! 2. A document header: its `version`. 2.0 is 2.0, any other is read as 2.2; a header without a
//!    readable version is taken for 2.2, and that is not certain.
//! 3. Frames without a header that have what only 2.2 has: `call_id=`, `intent=`,
//!    `content_type=`, `tool name=…`, a literal block or an escape.
//! 4. A `<|call|>` followed by its own `<|end|>`: 2.0, the only dialect that allows it.
//! 5. What only Harmony has: a text that begins inside a header (`<|channel|>` or `<|message|>`),
//!    a role with a name (`user:ann`), a recipient after the channel, or white space before
//!    `<|constrain|>`.
//! 6. Frames without a header, of which a complete one of the assistant names no channel: 2.2, where
//!    that means `final`. Harmony requires a channel. That is not certain.
//! 7. Other frames without a header: Harmony, which needs none; that is not certain, because a
//!    fragment of OpenChatML may look the same.
//! 8. `<|im_start|>` somewhere: as in 1, but not certain.
//! 9. A gap to fill or files, with the tokens of 0.1 for them: 0.1.
//!
//! A text without any token is in none of them.

use memchr::memmem;

use crate::dialect::Dialect;
use crate::document::Document;
use crate::document::frame::Frame;
use crate::read::batch::parse;
use crate::syntax::rules::Rules;
use crate::syntax::scanner::Scanner;
use crate::syntax::token::ControlToken;
use crate::syntax::vocabulary::{Channel, FrameRole, RoleForm};
use crate::v0_1::Task;

/// The result of [`detect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detected {
    /// The dialect.
    pub dialect: Dialect,
    /// Whether the text says it, rather than only allowing it.
    pub certain: bool,
}

/// The opener of a message of the 1.x line.
const OLD_START: &[u8] = b"<|im_start|>";

/// The tokens that only 0.1 has.
const ONLY_0_1: [&[u8]; 13] = [
    b"<|fim_prefix|>",
    b"<|fim_suffix|>",
    b"<|fim_middle|>",
    b"<|file_separator|>",
    b"<|reflect|>",
    b"<|introspect|>",
    b"<|reason|>",
    b"<|start_reflect|>",
    b"<|start_introspect|>",
    b"<|start_reason|>",
    b"<|function_list|>",
    b"<|function_call|>",
    b"<|function_output|>",
];

/// The dialect of `text`; `None` if it contains no token of any dialect.
///
/// The rules are in this order: the 1.x line by its first token, a version in the header, signs of
/// 2.2, of 2.0 and of Harmony, and Harmony for other frames without a header. Linear in the text.
///
/// ```
/// use openchatml::{Dialect, detect};
///
/// let found = detect(b"version: 2.0\n<|start|>user<|message|>Hi<|end|>").unwrap();
/// assert_eq!((found.dialect, found.certain), (Dialect::V2_0, true));
///
/// let found = detect(b"<|start|>user<|message|>Hi<|end|>").unwrap();
/// assert_eq!((found.dialect, found.certain), (Dialect::Harmony, false));
/// ```
pub fn detect(text: &[u8]) -> Option<Detected> {
    let content = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let content = content.trim_ascii_start();
    if content.starts_with(OLD_START) || content.starts_with(b"[BOS]") {
        return Some(old(content, true));
    }
    let document = parse(text);
    if let Some(header) = document.header() {
        let version = header.version();
        if !version.is_empty() {
            let dialect = match version {
                "2.0" => Dialect::V2_0,
                _ => Dialect::V2_2,
            };
            return Some(found(dialect, true));
        }
    }
    if let Some(detected) = frames_without_version(content, &document) {
        return Some(detected);
    }
    if memmem::find(content, OLD_START).is_some() {
        return Some(old(content, false));
    }
    if let Some(task) = Task::read(content) {
        return Some(found(Dialect::V0_1, matches!(task, Task::Fim(_))));
    }
    // Keys in YAML say nothing of dialects; they may be anything.
    None
}

const fn found(dialect: Dialect, certain: bool) -> Detected {
    Detected { dialect, certain }
}

fn old(content: &[u8], certain: bool) -> Detected {
    let only_0_1 = memmem::find_iter(content, b"<|").any(|at| {
        let rest = content.get(at..).unwrap_or_default();
        ONLY_0_1.iter().any(|token| rest.starts_with(token))
    });
    let wrapped = content.starts_with(b"[BOS]");
    let dialect = if only_0_1 || wrapped {
        Dialect::V0_1
    } else {
        Dialect::ChatMl
    };
    found(dialect, certain)
}

fn frames_without_version(content: &[u8], document: &Document<'_>) -> Option<Detected> {
    let begins_inside = [ControlToken::Channel, ControlToken::Message]
        .iter()
        .any(|token| content.starts_with(token.as_str().as_bytes()));
    let has_frames = document.frames().iter().any(|frame| !frame.is_stray());
    if !has_frames && !begins_inside {
        return None;
    }
    if document.header_span().is_some() {
        return Some(found(Dialect::V2_2, false));
    }
    if document.frames().iter().any(only_in_2_2) || has_escapes(document) {
        return Some(found(Dialect::V2_2, true));
    }
    if ends_calls_twice(document) {
        return Some(found(Dialect::V2_0, true));
    }
    let frames = document.frames().iter();
    let harmony = begins_inside
        || frames
            .into_iter()
            .any(|frame| only_in_harmony(document, frame));
    if !harmony && document.frames().iter().any(is_final_without_channel) {
        return Some(found(Dialect::V2_2, false));
    }
    Some(found(Dialect::Harmony, harmony))
}

fn is_final_without_channel(frame: &Frame) -> bool {
    frame.role() == FrameRole::Assistant
        && !frame.is_stray()
        && frame.is_complete()
        && !frame.has_channel()
        && frame.channel() == Channel::Final
}

fn only_in_2_2(frame: &Frame) -> bool {
    let named_reply = frame.role() == FrameRole::Tool && frame.role_form() == RoleForm::Word;
    frame.call_id_span().is_some()
        || frame.intent_span().is_some()
        || frame.content_type_span().is_some()
        || (named_reply && frame.name_span().is_some())
}

/// Returns whether a body has an escape or a literal block that is closed.
fn has_escapes(document: &Document<'_>) -> bool {
    let source = document.source();
    let frames = document.frames().iter().filter(|frame| !frame.is_stray());
    let mut bodies = frames.map(Frame::body_span);
    bodies.any(|body| {
        Scanner::new(source, body, Rules::V2_2)
            .any(|hit| hit.escaped || hit.token == ControlToken::EndLiteral)
    })
}

/// Returns whether `<|end|>` follows a call.
fn ends_calls_twice(document: &Document<'_>) -> bool {
    let source = document.source();
    let mut calls = document.frames().iter().filter(|frame| frame.is_call());
    calls.any(|frame| {
        let rest = source.get(frame.span().end..).unwrap_or_default();
        rest.trim_ascii_start()
            .starts_with(ControlToken::End.as_str().as_bytes())
    })
}

fn only_in_harmony(document: &Document<'_>, frame: &Frame) -> bool {
    let source = document.source();
    let header = frame.header_span().bytes(source);
    let constrain = memmem::find(header, ControlToken::Constrain.as_str().as_bytes());
    let spaced = constrain
        .and_then(|at| header.get(..at)?.last())
        .is_some_and(u8::is_ascii_whitespace);
    let late = match (frame.to_span(), frame.channel_span()) {
        (Some(to), Some(channel)) => to.start > channel.start,
        _ => false,
    };
    let role = frame.role_span().bytes(source);
    let named = memchr::memchr(b':', role).is_some_and(|at| {
        let word = role.get(..at).unwrap_or_default();
        FrameRole::parse(word) != FrameRole::Other
    });
    spaced || late || named
}
