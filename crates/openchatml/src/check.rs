//! Mistakes that need more than reading: bodies against their type, replies against their calls,
//! frames against what their channel is for, text against UTF-8.

mod arguments;
mod capabilities;
mod channels;
mod profile;
pub(crate) mod settings;
pub(crate) mod transcript_calls;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use logue_source::{Diagnostic, DiagnosticCode, Severity, Span, excerpt};

use crate::declare::CallSchemas;
use crate::document::Document;
use crate::document::frame::Frame;
use crate::document::header::Header;
use crate::limits::MAX_QUOTED_CHARS;
use crate::read::attributes::CONTINUES;
use crate::syntax::json::{self, JsonError};
use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole};
use crate::visibility::Recipient;

pub(crate) use arguments::{IN_MESSAGE, mismatched, undeclared};
use transcript_calls::check_replies_by_name;

/// All findings about a document: the reader's own ([`Document::diagnostics`]) and those of the
/// checks, in the order of their places.
///
/// | check | code |
/// |---|---|
/// | a body does not parse as its `<\|constrain\|>json` | `E-BODY-CONSTRAINT-VIOLATION` |
/// | the arguments of a call do not fit what its tool declares; its tool is not declared | `E-CALL-SCHEMA` |
/// | a generation setting has a value of another type | `E-PARSE-HEADER` |
/// | the declaration of a tool cannot be read (warning) | `invalid-tool-declaration` |
/// | two calls with one `call_id`; a reply to no call; a second reply (warning) | `E-CALL-SCHEMA` |
/// | a reply of another tool than its call (warning) | `E-CALL-SCHEMA` |
/// | the conversation continued although a call has no reply (note) | `call-without-response` |
/// | an assistant or tool frame names no channel, and `profiles.harmony.require_channels` is set | `E-PARSE-CHANNEL-MISSING` |
/// | a tool is called on a channel where the profile, or else §8.3, does not have it (warning) | `call-outside-commentary` |
/// | private reasoning is addressed to a tool (warning) | `analysis-to-tool` |
/// | a frame uses what `capabilities` does not list (warning) | `outside-capabilities` |
/// | the assistant uses a marker of reasoning outside `analysis` (warning) | `reasoning-outside-analysis` |
/// | a frame is not valid UTF-8 | `E-SOURCE-NOT-UTF8` |
///
/// Implements OpenChatML 2.2 §6, §7, §8.2 and §8.3. Bodies are parsed, so this costs several times what
/// reading does; linear in the source, with a logarithm for the ids.
///
/// ```
/// let text = b"version: 2.2
/// <|start|>assistant to=functions.f call_id=a<|channel|>commentary<|constrain|>json<|message|>{\"x\":}<|call|>";
/// let found = openchatml::check(&openchatml::parse(text));
/// assert_eq!(found[0].code.as_str(), "E-BODY-CONSTRAINT-VIOLATION");
/// assert_eq!(found[0].primary.bytes(text), b"}");
/// ```
pub fn check(document: &Document<'_>) -> Vec<Diagnostic> {
    check_with(document, &CallSchemas::new())
}

/// Checks a document like [`check`], with the schemas of built-in tools.
///
/// Calls of the tools that the setting `builtin_tools` lists are compared with them.
pub fn check_with(document: &Document<'_>, schemas: &CallSchemas) -> Vec<Diagnostic> {
    run(document, Some(schemas))
}

/// The findings of [`check`] that need no body to be parsed: all but those about JSON, and about
/// the arguments of calls.
pub fn check_structure(document: &Document<'_>) -> Vec<Diagnostic> {
    run(document, None)
}

/// Checks a document; bodies are parsed if the schemas of built-in tools are given.
fn run(document: &Document<'_>, schemas: Option<&CallSchemas>) -> Vec<Diagnostic> {
    let mut found = document.diagnostics().to_vec();
    let mut calls = Calls::default();
    let mut tools = arguments::Tools::default();
    if let Some(header) = document.header() {
        found.extend(check_settings(document, header));
        let listed = header.generation_settings().get("builtin_tools");
        if let Some(schemas) = schemas {
            tools.list_builtins(listed, schemas);
        }
    }
    let profile = profile::Profile::of(document);
    let capabilities = capabilities::Capabilities::of(document);
    for frame in document.frames() {
        found.extend(channels::check_channel(document, frame, &profile));
        found.extend(capabilities.check(document, frame));
        found.extend(channels::check_markers(document, frame));
        found.extend(check_utf8(document, frame));
        if schemas.is_some() {
            tools.learn(document, frame, &mut found);
            found.extend(check_body(document, frame, &tools));
        }
        found.extend(calls.check(document, frame));
    }
    found.extend(calls.unanswered());
    found.extend(check_replies_without_ids(document));
    found.sort_by_key(|diagnostic| diagnostic.primary.start);
    found
}

/// Returns whether a frame is a later part of its message.
fn continues(document: &Document<'_>, frame: &Frame) -> bool {
    let mut attributes = frame.attributes().iter();
    attributes.any(|attribute| document.text(attribute.key) == CONTINUES)
}

/// Checks the replies of 2.0, which has no ids.
fn check_replies_without_ids(document: &Document<'_>) -> Vec<Diagnostic> {
    let frames = document.frames().iter();
    let frames = frames.filter(|frame| frame.call_id_span().is_none());
    let steps: Vec<_> = frames
        .filter_map(|frame| {
            let is_reply = frame.role() == FrameRole::Tool;
            let place = match (is_reply, frame.is_call()) {
                (true, _) => frame.name_span(),
                (_, true) if frame.recipient == Recipient::Tool => frame.to_span(),
                _ => None,
            }?;
            Some((document.text(place), is_reply, place))
        })
        .collect();
    let steps = steps.iter();
    check_replies_by_name(steps.map(|(tool, is_reply, place)| (&**tool, *is_reply, *place)))
}

/// Checks the generation settings against their types.
fn check_settings(document: &Document<'_>, header: &Header) -> Vec<Diagnostic> {
    let text = header.span().bytes(document.source());
    let settings = header.generation_settings().iter();
    let wrong = settings.filter_map(|(key, value)| {
        let expectation = settings::expected(key, value)?;
        let at = memchr::memmem::find(text, key.as_bytes()).unwrap_or_default();
        let start = header.span().start + at;
        let message = format!("the setting `{key}` has a value of another type");
        Some(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                message,
                Span::new(start, start + key.len()),
            )
            .with_expected(expectation)
            .with_help("correct the value, or remove the setting"),
        )
    });
    wrong.collect()
}

fn check_utf8(document: &Document<'_>, frame: &Frame) -> Option<Diagnostic> {
    if document.is_text() {
        return None;
    }
    let error = std::str::from_utf8(frame.span().bytes(document.source())).err()?;
    let start = frame.span().start + error.valid_up_to();
    let span = Span::new(start, start + error.error_len().unwrap_or(1));
    Some(
        Diagnostic::error(
            DiagnosticCode::SourceNotUtf8,
            "the frame is not valid UTF-8",
            span,
        )
        .with_expected("UTF-8 text")
        .with_help("the bytes are kept as they are and shown as U+FFFD"),
    )
}

/// Checks a body against its type, and a call against the declaration of its tool.
///
/// A body of the right shape is JSON, so most bodies are parsed only once.
fn check_body(
    document: &Document<'_>,
    frame: &Frame,
    tools: &arguments::Tools,
) -> Option<Diagnostic> {
    match tools.check(document, frame) {
        Ok(true) => None,
        Ok(false) => check_constraint(document, frame),
        Err(fault) => check_constraint(document, frame).or(Some(fault)),
    }
}

/// A body against its type. Types other than `json` are hints.
fn check_constraint(document: &Document<'_>, frame: &Frame) -> Option<Diagnostic> {
    let constrain = frame.constrain_span()?;
    if constrain.bytes(document.source()) != b"json" || !frame.is_complete() {
        return None;
    }
    let body = document.body(frame);
    let JsonError { what, offset } = json::find_error(&body)?;
    let (line, column) = json::line_column(&body, offset);
    let start = document.body_place(frame, offset);
    let end = if offset < body.len() {
        document.body_place(frame, offset + 1).max(start)
    } else {
        start
    };
    // One byte may precede an escape or a marker and does not belong to it.
    let span = Span::new(start, end.min(start + 1));
    Some(
        Diagnostic::error(
            DiagnosticCode::BodyConstraintViolation,
            format!("the body is not JSON: {what} at line {line} column {column}"),
            span,
        )
        .with_label(constrain, "the body's type")
        .with_expected("valid JSON")
        .with_help("correct the body, or remove `<|constrain|>` if it is plain text"),
    )
}

/// The finding that a call has the id of an earlier one.
pub(crate) fn repeated_id(id: &[u8], place: Span, earlier: Span) -> Diagnostic {
    let id = excerpt(id, MAX_QUOTED_CHARS);
    let message = format!("two calls have the id `{id}`");
    Diagnostic::error(DiagnosticCode::CallSchema, message, place)
        .with_label(earlier, "the earlier call")
        .with_expected("an id of its own")
        .with_help("give each call of the conversation another id")
}

/// Checks that a reply is of the tool that was called.
fn check_reply_name(document: &Document<'_>, called: Span, replied: Span) -> Option<Diagnostic> {
    let (tool, name) = (document.text(called), document.text(replied));
    let found = reply_name(&tool, &name, replied)?;
    Some(found.with_label(called, "the call"))
}

/// The finding that a reply names another tool than its call.
pub(crate) fn reply_name(tool: &str, name: &str, place: Span) -> Option<Diagnostic> {
    let without = |name: &str| name.strip_prefix(FUNCTIONS).map(str::to_owned);
    let is_same = tool == name
        || without(tool).is_some_and(|tool| tool == name)
        || without(name).is_some_and(|name| name == tool);
    if is_same {
        return None;
    }
    let shown = |name: &str| excerpt(name.as_bytes(), MAX_QUOTED_CHARS);
    let message = format!(
        "the reply is of `{}`, its call of `{}`",
        shown(name),
        shown(tool)
    );
    Some(
        Diagnostic::warning(DiagnosticCode::CallSchema, message, place)
            .with_expected("the name of the tool that was called")
            .with_help("correct the name or the `call_id` of the reply"),
    )
}

/// Calls that a reply is looked for among before all of them.
const RECENT: usize = 4;

/// The calls seen so far.
#[derive(Default)]
struct Calls<'s> {
    all: Vec<Call<'s>>,
    /// The positions of an id in `all`.
    by_id: BTreeMap<Id<'s>, usize>,
    /// The last frame that a conversation only has when its calls are done: something that a
    /// person says, or an answer.
    went_on: Option<Span>,
}

/// An id by its end, and then by all of it. Ids mostly differ in their ends, which are compared
/// without a look at the source; others cost what comparing them costs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Id<'s> {
    end: [u8; 8],
    whole: &'s [u8],
}

impl<'s> Id<'s> {
    fn new(whole: &'s [u8]) -> Self {
        let mut end = [0; 8];
        for (to, from) in end.iter_mut().rev().zip(whole.iter().rev()) {
            *to = *from;
        }
        Self { end, whole }
    }
}

struct Call<'s> {
    id: Id<'s>,
    place: Span,
    recipient: Option<Span>,
    answer: Option<Span>,
}

impl<'s> Calls<'s> {
    fn check(&mut self, document: &Document<'s>, frame: &Frame) -> Option<Diagnostic> {
        let is_answer = frame.role() == FrameRole::Assistant
            && frame.channel() == Channel::Final
            && frame.recipient != Recipient::Tool;
        if is_answer || frame.role() == FrameRole::User {
            self.went_on = Some(frame.span());
        }
        let place = frame.call_id_span()?;
        let id = Id::new(place.bytes(document.source()));
        let shown = || excerpt(id.whole, MAX_QUOTED_CHARS);
        let is_call = frame.role() == FrameRole::Assistant
            && (frame.recipient == Recipient::Tool || frame.is_call());
        if is_call {
            let earlier = match self.by_id.entry(id) {
                Entry::Vacant(free) => {
                    free.insert(self.all.len());
                    self.all.push(Call {
                        id,
                        place,
                        recipient: frame.to_span(),
                        answer: None,
                    });
                    return None;
                }
                Entry::Occupied(taken) => self.all.get(*taken.get())?,
            };
            return Some(repeated_id(id.whole, place, earlier.place));
        }
        // A later part of a reply has the id of the reply.
        if frame.role() != FrameRole::Tool || continues(document, frame) {
            return None;
        }
        let Some(call) = self.find(id) else {
            return Some(
                Diagnostic::error(
                    DiagnosticCode::CallSchema,
                    format!("no call before this reply has the id `{}`", shown()),
                    place,
                )
                .with_expected("the `call_id` of an earlier call")
                .with_help("a reply repeats the id of the call that it answers"),
            );
        };
        if let Some(earlier) = call.answer {
            return Some(
                Diagnostic::warning(
                    DiagnosticCode::CallSchema,
                    format!("the call `{}` is answered twice", shown()),
                    place,
                )
                .with_label(earlier, "the earlier reply")
                .with_label(call.place, "the call")
                .with_expected("one reply for each call")
                .with_help("remove one of the replies"),
            );
        }
        call.answer = Some(place);
        check_reply_name(document, call.recipient?, frame.name_span()?)
    }

    fn find(&mut self, id: Id<'s>) -> Option<&mut Call<'s>> {
        // Most replies directly follow their calls.
        let recent = self.all.len().saturating_sub(RECENT);
        let near = self.all.iter().skip(recent);
        let near = near.rev().position(|call| call.id == id);
        let at = match near {
            Some(back) => self.all.len() - 1 - back,
            None => *self.by_id.get(&id)?,
        };
        self.all.get_mut(at)
    }

    /// Reports calls without a reply before the conversation continued. A call at its end only
    /// waits for its reply.
    fn unanswered(&self) -> impl Iterator<Item = Diagnostic> {
        let calls = self.all.iter();
        calls.filter_map(|call| {
            let later = self
                .went_on
                .filter(|later| call.answer.is_none() && later.start > call.place.start)?;
            let id = excerpt(call.id.whole, MAX_QUOTED_CHARS);
            Some(
                Diagnostic::new(
                    Severity::Note,
                    DiagnosticCode::CallWithoutResponse,
                    format!("the call `{id}` has no reply"),
                    call.place,
                )
                .with_label(
                    Span::new(later.start, later.start),
                    "the conversation continued",
                )
                .with_expected("a reply with this `call_id`")
                .with_help("add a `tool` frame with its id, or remove the call"),
            )
        })
    }
}
