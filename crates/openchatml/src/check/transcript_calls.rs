//! Calls and replies of a transcript, for forms whose documents have no frames.
//!
//! Rows declare tools beside their messages, 0.1 in its system message. The places of calls and
//! replies come from the form; the n-th call of the transcript has the n-th place.

use std::collections::BTreeMap;

use logue_source::{Diagnostic, DiagnosticCode, Span, excerpt};
use serde_json::Value;

use super::{mismatched, repeated_id, reply_name, undeclared};
use crate::declare::{self, CallError, CallSchemas, ToolIndex};
use crate::document::owned::{FrameBuf, Transcript};
use crate::limits::MAX_QUOTED_CHARS;
use crate::messages::continues;
use crate::syntax::vocabulary::{FrameRole, is_tool_recipient};

/// The place of a call in its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPlace {
    pub(crate) name: Span,
    pub(crate) arguments: Span,
    pub(crate) spelling: Spelling,
}

/// The spelling of arguments in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    Verbatim,
    /// A JSON string.
    Escaped,
    /// A part of some text.
    Inside,
}

impl CallPlace {
    /// The place of a part of the arguments.
    fn part(&self, source: &[u8], part: Span) -> Span {
        match self.spelling {
            Spelling::Verbatim => part.shifted(self.arguments.start),
            Spelling::Inside => self.arguments,
            Spelling::Escaped => {
                let text = self.arguments.bytes(source);
                let at = |decoded| self.arguments.start + escaped_offset(text, decoded);
                Span::new(at(part.start), at(part.end))
            }
        }
    }
}

/// The places of a form.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) calls: Vec<CallPlace>,
    pub(crate) replies: Vec<Span>,
    /// The place of a call or reply whose own one is not known.
    pub(crate) fallback: Span,
    /// The advice to declare a tool.
    pub(crate) remedy: &'static str,
}

/// Checks every call against the declarations before it, and every reply against its call.
///
/// Linear in the transcript, with a logarithm for the ids.
///
/// `schemas` are those of built-in tools.
pub(crate) fn check(
    transcript: &Transcript,
    source: &[u8],
    places: &Places,
    schemas: &CallSchemas,
) -> Vec<Diagnostic> {
    let mut tools = ToolIndex::default();
    if !transcript.tools.is_empty() {
        let declared = Value::from(transcript.tools.clone()).to_string();
        tools.add(declare::read(&declared));
    }
    let header = transcript.header.as_ref();
    let listed = header.and_then(|header| header.generation_settings.get("builtin_tools"));
    tools.list_builtins(listed, schemas);
    let is_reply = |frame: &&FrameBuf| frame.role == FrameRole::Tool && !continues(frame);
    let calls = transcript
        .frames
        .iter()
        .filter(|frame| is_call(frame))
        .count();
    let replies = transcript.frames.iter().filter(is_reply).count();
    let mut checker = Checker {
        source,
        places,
        calls: (calls == places.calls.len()).then_some(0),
        replies: (replies == places.replies.len()).then_some(0),
        by_id: BTreeMap::new(),
        found: Vec::new(),
    };
    for frame in &transcript.frames {
        match frame.role {
            FrameRole::System | FrameRole::Developer => tools.add(declare::read(&frame.body)),
            FrameRole::Assistant if is_call(frame) => checker.call(frame, &tools),
            FrameRole::Tool if !continues(frame) => checker.reply(frame),
            _ => {}
        }
    }
    checker.found
}

fn is_call(frame: &FrameBuf) -> bool {
    frame.is_call()
        && frame
            .to
            .as_deref()
            .is_some_and(|to| is_tool_recipient(to.as_bytes()))
}

struct Checker<'c> {
    source: &'c [u8],
    places: &'c Places,
    /// The number of calls so far, if each has a place.
    calls: Option<usize>,
    replies: Option<usize>,
    /// The calls by id, each with its tool and the place of its name.
    by_id: BTreeMap<&'c str, (&'c str, Span)>,
    found: Vec<Diagnostic>,
}

impl<'c> Checker<'c> {
    fn call(&mut self, frame: &'c FrameBuf, tools: &ToolIndex) {
        let fallback = CallPlace {
            name: self.places.fallback,
            arguments: self.places.fallback,
            spelling: Spelling::Inside,
        };
        let place = next(&mut self.calls, &self.places.calls).unwrap_or(fallback);
        let name = frame.to.as_deref().unwrap_or_default();
        if let Some(id) = frame.call_id.as_deref() {
            let earlier = self.by_id.insert(id, (name, place.name));
            let repeated =
                earlier.map(|(_, earlier)| repeated_id(id.as_bytes(), place.name, earlier));
            self.found.extend(repeated);
        }
        let word = frame.constrain.as_deref().or(frame.content_type.as_deref());
        if word.is_some_and(|word| word != "json") {
            return;
        }
        let found = match tools.judge(name, frame.body.as_bytes()) {
            Ok(_) => return,
            Err(CallError::Undeclared { namespace }) => {
                undeclared(name, namespace, self.places.remedy, place.name)
            }
            Err(CallError::Arguments { mismatch, .. } | CallError::Builtin { mismatch }) => {
                let span = place.part(self.source, mismatch.span);
                mismatched(name, &mismatch, span)
            }
        };
        self.found.push(found);
    }

    fn reply(&mut self, frame: &'c FrameBuf) {
        let place = next(&mut self.replies, &self.places.replies);
        let place = place.unwrap_or(self.places.fallback);
        let Some(id) = frame.call_id.as_deref() else {
            return;
        };
        let Some((called, _)) = self.by_id.get(id) else {
            let shown = excerpt(id.as_bytes(), MAX_QUOTED_CHARS);
            let message = format!("no call before this reply has the id `{shown}`");
            self.found.push(
                Diagnostic::error(DiagnosticCode::CallSchema, message, place)
                    .with_expected("the id of an earlier call")
                    .with_help("a reply repeats the id of the call that it answers"),
            );
            return;
        };
        let name = frame.name.as_deref();
        self.found
            .extend(name.and_then(|name| reply_name(called, name, place)));
    }
}

fn next<T: Copy>(number: &mut Option<usize>, places: &[T]) -> Option<T> {
    let index = (*number)?;
    *number = Some(index + 1);
    places.get(index).copied()
}

/// Checks the replies of a form without ids: each answers an open call of its tool.
///
/// `steps` are the calls and replies in order: the tool, whether it is a reply, and the place.
pub(crate) fn check_replies_by_name<'n>(
    steps: impl IntoIterator<Item = (&'n str, bool, Span)>,
) -> Vec<Diagnostic> {
    let mut open: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for (tool, is_reply, place) in steps {
        if !is_reply {
            open.push(tool);
            continue;
        }
        let matching = open
            .iter()
            .position(|called| reply_name(called, tool, place).is_none());
        match (matching, open.first()) {
            (Some(index), _) => {
                open.remove(index);
            }
            (None, Some(called)) => {
                found.extend(reply_name(called, tool, place));
                open.remove(0);
            }
            (None, None) => {}
        }
    }
    found
}

/// The offset in a JSON string of an offset in its text.
fn escaped_offset(string: &[u8], decoded: usize) -> usize {
    let (mut at, mut count) = (1, 0);
    while count < decoded && at < string.len() {
        let (length, bytes) = match string.get(at..) {
            Some([b'\\', b'u', digits @ ..]) => unicode_escape(digits),
            Some([b'\\', ..]) => (2, 1),
            _ => (1, 1),
        };
        at += length;
        count += bytes;
    }
    at.min(string.len())
}

/// The length of an escape `\uXXXX`, and of its character in UTF-8.
fn unicode_escape(digits: &[u8]) -> (usize, usize) {
    let digits = digits
        .get(..4)
        .and_then(|digits| std::str::from_utf8(digits).ok());
    let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match code {
        // The other half of a pair counts nothing.
        Some(0xDC00..=0xDFFF) => (6, 0),
        Some(0xD800..=0xDBFF) => (6, 4),
        Some(code) => (6, char::from_u32(code).map_or(3, char::len_utf8)),
        None => (2, 1),
    }
}
