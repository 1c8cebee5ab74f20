//! Decoding of a Harmony completion.
//!
//! The reported events and the final message come from the same parser events, so they cannot
//! contradict each other. A delta is reported once the channel of its message is certain. Text on an
//! uncertain channel is reasoning, which is kept and never shown.

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, ToolCall};
use openchatml::harmony::{
    End, Event as Read, HarmonyReadOptions, IdStream, MessageHeader, control_id,
};
use openchatml::{ControlToken, FrameRole, recipient_of, tool_of};
use serde_json::Value;

use super::completion::CompletionPiece;
use super::logprobs::TokenQueue;
use super::scan::{ControlScanner, TextPiece, control_text, is_control_text, split_controls};
use super::stops::{StopStrings, VisibleText};
use crate::stream::{Decoder, incomplete, interrupted};
use crate::{
    Category, EventHandler, FinishReason, ModelEvent, ModelRequest, ModelResponse, ProviderError,
    TokenLogprob, Usage,
};

/// The first id of the control tokens of `o200k_harmony`.
const FIRST_CONTROL: u32 = 199_998;

/// The decoder of one completion.
#[derive(Debug)]
pub(super) struct HarmonyDecoder {
    stream: IdStream,
    scanner: ControlScanner,
    form: Option<OutputForm>,
    response: HarmonyResponse,
    finish: Option<FinishReason>,
    stopped_at: Option<ControlToken>,
    /// Whether the server reports to have stopped at a stop string of the request.
    is_cut: bool,
    usage: Option<Usage>,
}

/// The form of the model output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputForm {
    Ids,
    Text,
}

impl HarmonyDecoder {
    /// Creates a decoder for the response to a prompt that ends in `opening`.
    ///
    /// With `accepts_incomplete` a truncated or empty response is not an error.
    pub(super) fn new(request: &ModelRequest<'_>, opening: &str, accepts_incomplete: bool) -> Self {
        let options = HarmonyReadOptions::default()
            .with_start_role(FrameRole::Assistant)
            .with_tools(
                request
                    .tools
                    .iter()
                    .map(|tool| recipient_of(&tool.name))
                    .collect(),
            );
        let mut decoder = Self {
            stream: IdStream::new(options),
            scanner: ControlScanner::default(),
            form: None,
            response: HarmonyResponse {
                incomplete: if accepts_incomplete {
                    Incomplete::Accepted
                } else {
                    Incomplete::Refused
                },
                stops: StopStrings::new(&request.settings.stop),
                ..HarmonyResponse::default()
            },
            finish: None,
            stopped_at: None,
            is_cut: false,
            usage: None,
        };
        // The opening of the prompt belongs to the first message of the response.
        decoder.text(opening, &mut |_| {});
        decoder.flush(&mut |_| {});
        decoder.response.markers = Markers::default();
        decoder
    }
}

impl Decoder for HarmonyDecoder {
    fn is_finished(&self) -> bool {
        self.finish.is_some() || self.response.is_over
    }

    fn decode(
        &mut self,
        chunk: &Value,
        events: &mut EventHandler<'_>,
    ) -> Result<(), ProviderError> {
        let piece = CompletionPiece::read(chunk)?;
        self.usage = piece.usage.or(self.usage);
        if self.form.is_none() {
            self.form = if !piece.ids.is_empty() {
                Some(OutputForm::Ids)
            } else if !piece.text.is_empty() {
                Some(OutputForm::Text)
            } else {
                None
            };
        }
        match self.form {
            Some(OutputForm::Ids) => {
                let mut logprobs = piece.logprobs.into_iter();
                for id in piece.ids {
                    self.response.expect(logprobs.next());
                    self.id(id, &mut **events);
                }
            }
            Some(OutputForm::Text) => self.tokens(&piece.text, piece.logprobs, &mut **events),
            None => {}
        }
        self.finish = self.finish.or(piece.finish);
        self.stopped_at = self.stopped_at.or(piece.stopped_at);
        let stop = piece.stopped_by.as_deref();
        self.is_cut |= stop.is_some_and(|stop| self.response.stops.contains(stop));
        Ok(())
    }

    fn finish(
        mut self: Box<Self>,
        events: &mut EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        if !self.is_finished() {
            return Err(interrupted(
                "the stream ended before the model had finished",
            ));
        }
        self.flush(&mut **events);
        if !self.response.is_over
            && matches!(self.finish, None | Some(FinishReason::Stop))
            && (self.response.current.is_some() || self.stopped_at.is_some())
            && !self.has_cut_call()
        {
            // Most servers omit the token at which they stop.
            let stop = self.stopped_at.unwrap_or(match self.response.current {
                Some(CurrentMessage {
                    kind: MessageKind::Call,
                    ..
                }) => ControlToken::Call,
                _ => ControlToken::Return,
            });
            if let Some(id) = control_id(stop) {
                self.id(id, &mut **events);
            }
        }
        let mut response = self.response;
        self.stream
            .finish(&mut |event: Read<'_>| response.receive(&event, &mut **events));
        let usage = self.usage.map(|usage| Usage {
            reasoning_tokens: response.reasoning_tokens,
            ..usage
        });
        let reason = if response.is_stopped {
            Some(FinishReason::Stop)
        } else {
            self.finish
        };
        response.finish(self.form, reason, usage, &mut **events)
    }
}

impl HarmonyDecoder {
    /// Returns whether a stop string of the request cuts a call.
    fn has_cut_call(&self) -> bool {
        let call = self.response.current.as_ref();
        let Some(call) = call.filter(|current| current.kind == MessageKind::Call) else {
            return false;
        };
        // A server that reports no stop string may have omitted the control token of a whole call.
        let may_be_cut = !self.response.stops.is_empty() && self.stopped_at.is_none();
        self.is_cut || may_be_cut && serde_json::from_str::<Value>(&call.body.text).is_err()
    }

    fn id(&mut self, id: u32, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        if self.response.is_over {
            return;
        }
        let hidden = self.response.is_hidden();
        let response = &mut self.response;
        self.stream
            .push_harmony(id, &mut |event: Read<'_>| response.receive(&event, events));
        if is_control(id) {
            self.response.tokens.clear();
        }
        if hidden && self.response.is_hidden() {
            self.response.reasoning_tokens += 1;
        }
    }

    /// Reads text by its tokens, if they are the whole text.
    fn tokens(
        &mut self,
        text: &str,
        logprobs: Vec<TokenLogprob>,
        events: &mut (dyn FnMut(ModelEvent) + Send),
    ) {
        let pieces: String = logprobs.iter().map(|own| own.token.text.as_str()).collect();
        // The text of a server may end before its last token, in which it stops.
        if !pieces.starts_with(text) {
            self.response.tokens.clear();
            return self.text(text, events);
        }
        let mut left = text;
        for logprob in logprobs {
            let length = logprob.token.text.len().min(left.len());
            let Some((own, next)) = left.split_at_checked(length) else {
                break;
            };
            left = next;
            let is_whole = own == logprob.token.text && !own.contains('<');
            for part in split_controls(own) {
                if is_whole {
                    self.response.expect(Some(logprob.clone()));
                } else if !is_control_text(part) {
                    let token = logprob.with_bytes(part.as_bytes());
                    self.response.expect(Some(token));
                }
                self.text(part, events);
            }
        }
        // A malformed boundary leaves text without tokens.
        self.text(left, events);
    }

    fn text(&mut self, text: &str, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        let (stream, response) = (&mut self.stream, &mut self.response);
        self.scanner
            .push(text, &mut |piece| feed(stream, response, piece, events));
    }

    fn flush(&mut self, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        let (stream, response) = (&mut self.stream, &mut self.response);
        self.scanner
            .finish(&mut |piece| feed(stream, response, piece, events));
    }
}

/// Feeds a piece of text or a control token to the parser.
fn feed(
    stream: &mut IdStream,
    response: &mut HarmonyResponse,
    piece: TextPiece<'_>,
    events: &mut (dyn FnMut(ModelEvent) + Send),
) {
    if response.is_over {
        return;
    }
    let mut sink = |event: Read<'_>| response.receive(&event, &mut *events);
    match piece {
        TextPiece::Text(text) => stream.push(0, |_| Some(text.as_bytes()), &mut sink),
        TextPiece::Control(id) => {
            stream.push(id, |_| None, &mut sink);
            response.markers.has_control = true;
            match control_text(id) {
                Some(control) => response.tokens.pass(control),
                None => response.tokens.clear(),
            }
        }
    }
}

/// Returns whether an id is that of a control token, and not of text.
const fn is_control(id: u32) -> bool {
    id >= FIRST_CONTROL
}

/// The received content.
#[derive(Debug, Default)]
struct HarmonyResponse {
    blocks: Vec<ContentBlock>,
    calls: Vec<ToolCall>,
    /// The number of calls that have begun.
    call_count: usize,
    current: Option<CurrentMessage>,
    markers: Markers,
    /// Whether a call was truncated.
    has_truncated_call: bool,
    /// Whether the model stopped or began a message of another role.
    is_over: bool,
    stops: StopStrings,
    /// Whether a stop string has ended the visible text.
    is_stopped: bool,
    reasoning_tokens: u64,
    incomplete: Incomplete,
    /// The tokens with log probabilities whose text is not reported yet.
    tokens: TokenQueue,
    /// Text before the first channel, which may be that of a server that omits channels.
    unreported: String,
}

/// The marks of the Harmony format that the output contains.
#[derive(Clone, Copy, Debug, Default)]
struct Markers {
    /// Whether a channel has occurred.
    has_channel: bool,
    /// Whether the text contains a control token.
    has_control: bool,
}

/// The treatment of truncated and empty responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Incomplete {
    #[default]
    Refused,
    Accepted,
}

/// The message in progress.
#[derive(Debug)]
struct CurrentMessage {
    kind: MessageKind,
    body: VisibleText,
    name: String,
    content_type: Option<String>,
    /// The index among the calls that have begun.
    index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    Text,
    /// Commentary for the user, which is hidden until it is complete.
    Preamble,
    Reasoning,
    Call,
}

impl HarmonyResponse {
    /// Adds the log probability of the next token.
    fn expect(&mut self, token: Option<TokenLogprob>) {
        if let Some(token) = token {
            self.tokens.push(token);
        }
    }

    fn is_hidden(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.kind == MessageKind::Reasoning)
    }

    fn receive(&mut self, event: &Read<'_>, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        if self.is_over {
            return;
        }
        match event {
            Read::Start(head) => self.start(head, events),
            Read::Delta(text) => self.delta(text, events),
            Read::End(ended) => self.end(ended.end, events),
            Read::Amended(End::Return | End::Call) => self.is_over = true,
            Read::Diagnostic(found) => events(ModelEvent::Repair {
                code: found.code.as_str(),
            }),
            _ => {}
        }
    }

    fn start(&mut self, head: &MessageHeader, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        self.markers.has_channel |= head.channel.is_some();
        if self.markers.has_channel {
            self.report_hidden(events);
        }
        if head.role != FrameRole::Assistant && !head.stray {
            // A message of another role ends the response.
            self.is_over = true;
            return;
        }
        let to = head.recipient.as_deref();
        let tool = to.filter(|to| !head.stray && !matches!(*to, "user" | "assistant" | "all"));
        let kind = match tool {
            Some(_) => MessageKind::Call,
            None if head.is_visible() => MessageKind::Text,
            None if head.is_preamble() => MessageKind::Preamble,
            None => MessageKind::Reasoning,
        };
        let name = tool_of(tool.unwrap_or_default()).to_owned();
        if kind == MessageKind::Call {
            events(ModelEvent::ToolCall {
                index: self.call_count,
                name: name.clone(),
            });
        }
        self.current = Some(CurrentMessage {
            kind,
            body: VisibleText::default(),
            name,
            content_type: head.content_type.clone(),
            index: self.call_count,
        });
        self.call_count += usize::from(kind == MessageKind::Call);
    }

    fn delta(&mut self, text: &str, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        let Some(current) = &mut self.current else {
            return;
        };
        let tokens = self.tokens.assign(text);
        if matches!(current.kind, MessageKind::Text | MessageKind::Preamble) {
            self.is_stopped = current.body.push(text, tokens, &self.stops);
            if self.is_stopped {
                self.end(End::Return, events);
            } else if current.kind == MessageKind::Text {
                current.body.report(events);
            }
            return;
        }
        current.body.text.push_str(text);
        let text = text.to_owned();
        events(match current.kind {
            MessageKind::Reasoning if !self.markers.has_channel => {
                return self.unreported.push_str(&text);
            }
            MessageKind::Call => ModelEvent::Arguments {
                index: current.index,
                text,
            },
            _ => ModelEvent::Reasoning(text),
        });
    }

    /// Reports the text before the first channel as reasoning.
    fn report_hidden(&mut self, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        let text = std::mem::take(&mut self.unreported);
        if !text.is_empty() {
            events(ModelEvent::Reasoning(text));
        }
    }

    fn end(&mut self, end: End, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        self.is_over |= matches!(end, End::Return | End::Call);
        let partial = self.tokens.take_partial();
        let Some(mut current) = self.current.take() else {
            return;
        };
        match current.kind {
            // A truncated call never runs; its text is kept.
            MessageKind::Call if end.is_stop() => self.call(current),
            MessageKind::Call => {
                self.has_truncated_call = true;
                self.think_late(current.body.text, events);
            }
            MessageKind::Text => {
                current.body.finish(partial, events);
                events(ModelEvent::TextEnd);
                self.say(current.body.text, false);
            }
            MessageKind::Preamble if matches!(end, End::End | End::Return) => {
                if !current.body.text.is_empty() {
                    current.body.finish(partial, events);
                    events(ModelEvent::TextEnd);
                }
                self.say(current.body.text, true);
            }
            MessageKind::Preamble => self.think_late(current.body.text, events),
            MessageKind::Reasoning => self.think(current.body.text),
        }
    }

    fn say(&mut self, said: String, is_preamble: bool) {
        match self.blocks.last_mut() {
            Some(ContentBlock::Text { text, preamble, .. }) if *preamble == is_preamble => {
                text.push_str(&said);
            }
            _ if said.is_empty() => {}
            _ => self.blocks.push(ContentBlock::Text {
                text: said,
                signature: None,
                preamble: is_preamble,
            }),
        }
    }

    fn think(&mut self, text: String) {
        if !text.is_empty() {
            self.blocks.push(ContentBlock::thinking(text));
        }
    }

    /// Keeps text as reasoning that was not reported as such.
    fn think_late(&mut self, text: String, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        if !self.markers.has_channel {
            self.unreported.push_str(&text);
        } else if !text.is_empty() {
            events(ModelEvent::Reasoning(text.clone()));
        }
        self.think(text);
    }

    fn call(&mut self, current: CurrentMessage) {
        let is_json = current
            .content_type
            .as_deref()
            .is_none_or(|kind| kind == "json")
            || serde_json::from_str::<Value>(&current.body.text).is_ok();
        let kind = if is_json {
            CallKind::Function
        } else {
            CallKind::Custom
        };
        // The exchange assigns a unique id; the format has none.
        let call = ToolCall::new(String::new(), current.name, current.body.text);
        self.calls.push(call.with_kind(kind));
    }

    fn finish(
        mut self,
        form: Option<OutputForm>,
        reason: Option<FinishReason>,
        usage: Option<Usage>,
        events: &mut (dyn FnMut(ModelEvent) + Send),
    ) -> Result<ModelResponse, ProviderError> {
        let unreported = std::mem::take(&mut self.unreported);
        let calls = std::mem::take(&mut self.calls);
        let mut blocks = std::mem::take(&mut self.blocks);
        if !calls.is_empty() {
            for block in &mut blocks {
                if let ContentBlock::Text { preamble, .. } = block {
                    *preamble = true;
                }
            }
        }
        let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Text { text, .. } if !text.trim().is_empty());
        let is_empty = calls.is_empty() && !blocks.iter().any(is_text);
        let content = match blocks.as_slice() {
            [] if calls.is_empty() => Content::Text(String::new()),
            [] => Content::Absent,
            [ContentBlock::Text { text, .. }] if calls.is_empty() => Content::Text(text.clone()),
            _ => Content::Blocks(blocks),
        };
        let message = ChatMessage::assistant(content);
        // Ids and control tokens prove that the server omits no special token.
        let is_whole = form == Some(OutputForm::Ids) || self.markers.has_control;
        let is_stripped = !is_whole && reason != Some(FinishReason::Length);
        let is_refused = self.incomplete == Incomplete::Refused && !self.markers.has_control;
        if !self.markers.has_channel && calls.is_empty() && (is_stripped || is_refused) {
            return Err(without_channel(form, message));
        }
        if !unreported.is_empty() {
            events(ModelEvent::Reasoning(unreported));
        }
        if reason == Some(FinishReason::Length)
            && (self.has_truncated_call || !calls.is_empty())
            && self.incomplete == Incomplete::Refused
        {
            let cause = "the response reached its length limit within its tool calls";
            return Err(incomplete(cause, message));
        }
        let message = message.with_tool_calls(calls);
        if is_empty && self.incomplete == Incomplete::Refused {
            return Err(incomplete(
                if self.has_truncated_call {
                    "the model began a tool call and did not complete it"
                } else {
                    "the response is empty: no text and no tool call"
                },
                message,
            ));
        }
        let reason = match reason {
            Some(FinishReason::Stop) | None if !message.tool_calls.is_empty() => {
                FinishReason::ToolCalls
            }
            Some(reason) => reason,
            None => FinishReason::Stop,
        };
        Ok(ModelResponse::new(message, reason).with_usage(usage))
    }
}

/// Returns the error of a response without any structure.
fn without_channel(form: Option<OutputForm>, message: ChatMessage) -> ProviderError {
    let (cause, help) = match form {
        Some(OutputForm::Text) => (
            "the server sent text without channel markers; it omits special tokens",
            "set `server` under [model.harmony] in logue.toml to \"vllm\" (which sends \
             `skip_special_tokens: false`) or to \"llama.cpp\" (or start llama.cpp with \
             `--special`), and check that the model belongs to the gpt-oss family",
        ),
        Some(OutputForm::Ids) => (
            "the model emitted no channel marker; it does not support Harmony",
            "use `openai:NAME`; `harmony:` is for models of the gpt-oss family",
        ),
        None => (
            "the server sent an empty completion",
            "check that the model belongs to the gpt-oss family, and try again",
        ),
    };
    let mut error = ProviderError::new(Category::InvalidResponse, cause)
        .with_help(help)
        .without_quotes();
    error.answer = Some(Box::new(message));
    error
}
