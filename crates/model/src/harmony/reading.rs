//! One answer, read as it arrives.
//!
//! What is told and what is given in the end come from the same events, so finishing cannot
//! contradict what was streamed. A delta is told once the channel of its message is certain; what
//! nobody can tell the channel of counts as reasoning, so it is kept and never shown.

use std::collections::BTreeSet;

use logue_message::{Arguments, CallKind, ChatMessage, Content, ContentBlock, ToolCall};
use openchatml::harmony::{
    End, Event as Read, HarmonyReadOptions, IdStream, MessageHeader, control_id,
};
use openchatml::{ControlToken, FrameRole, recipient_of, tool_of};
use serde_json::Value;

use super::scan::{Found, Scan};
use super::server::Piece;
use crate::draft::incomplete;
use crate::{Category, Event, EventSink, FinishReason, ProviderError, Request, Response, Usage};

/// Reads one answer.
#[derive(Debug)]
pub(super) struct Reading {
    stream: IdStream,
    scan: Scan,
    form: Option<Form>,
    answer: Answer,
    finish: Option<FinishReason>,
    stopped_at: Option<ControlToken>,
    usage: Option<Usage>,
}

/// In which form the server gives what the model emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Ids,
    Text,
}

impl Reading {
    /// A reading of the answer to `request` whose prompt ends in `opening`.
    pub(super) fn new(request: &Request<'_>, opening: &str) -> Self {
        let options = HarmonyReadOptions {
            start_role: Some(FrameRole::Assistant),
            strict: false,
            tools: request
                .tools
                .iter()
                .map(|tool| recipient_of(&tool.name))
                .collect(),
        };
        let calls = request
            .messages
            .iter()
            .flat_map(|message| &message.tool_calls);
        let mut reading = Self {
            stream: IdStream::new(options),
            scan: Scan::default(),
            form: None,
            answer: Answer {
                taken: calls.map(|call| call.id.clone()).collect(),
                salt: request.messages.len(),
                ..Answer::default()
            },
            finish: None,
            stopped_at: None,
            usage: None,
        };
        // What the prompt began is part of the answer's first message.
        reading.text(opening, &mut |_| {});
        reading.flush(&mut |_| {});
        reading.answer.channel_seen = false;
        reading
    }

    /// Whether the model has stopped: what follows is only accounting.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some() || self.answer.over
    }

    /// Takes a chunk of the stream, or a whole answer.
    ///
    /// # Errors
    /// The chunk carries an error of the server, or is none.
    pub(super) fn chunk(
        &mut self,
        chunk: &Value,
        events: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let piece = Piece::read(chunk)?;
        self.usage = piece.usage.or(self.usage);
        if self.form.is_none() {
            self.form = if !piece.ids.is_empty() {
                Some(Form::Ids)
            } else if !piece.text.is_empty() {
                Some(Form::Text)
            } else {
                None
            };
        }
        match self.form {
            Some(Form::Ids) => {
                for id in piece.ids {
                    self.id(id, &mut **events);
                }
            }
            Some(Form::Text) => self.text(&piece.text, &mut **events),
            None => {}
        }
        self.finish = self.finish.or(piece.finish);
        self.stopped_at = self.stopped_at.or(piece.stopped_at);
        Ok(())
    }

    /// The complete answer.
    ///
    /// # Errors
    /// The server never said that the model stopped, what it gave has no structure, or the answer
    /// says nothing or is cut in a call. What there is of it goes along with the error.
    pub(super) fn finish(mut self, events: &mut EventSink<'_>) -> Result<Response, ProviderError> {
        if !self.is_finished() {
            return Err(crate::http::broken_off(
                "the stream ended before the model had finished",
            ));
        }
        self.flush(&mut **events);
        if !self.answer.over
            && matches!(self.finish, None | Some(FinishReason::Stop))
            && (self.answer.current.is_some() || self.stopped_at.is_some())
        {
            // Most servers keep the token at which they stop for themselves.
            let stop = self.stopped_at.unwrap_or(match self.answer.current {
                Some(Current {
                    kind: Kind::Call, ..
                }) => ControlToken::Call,
                _ => ControlToken::Return,
            });
            if let Some(id) = control_id(stop) {
                self.id(id, &mut **events);
            }
        }
        let mut answer = self.answer;
        self.stream
            .finish(&mut |event: Read<'_>| answer.take(&event, &mut **events));
        let length = self.finish == Some(FinishReason::Length) && !answer.over;
        let usage = self.usage.map(|usage| Usage {
            reasoning_tokens: answer.reasoning_tokens,
            ..usage
        });
        answer.finish(
            self.form,
            if length {
                Some(FinishReason::Length)
            } else {
                self.finish
            },
            usage,
        )
    }

    fn id(&mut self, id: u32, events: &mut (dyn FnMut(Event) + Send)) {
        if self.answer.over {
            return;
        }
        let hidden = self.answer.is_hidden();
        let answer = &mut self.answer;
        self.stream
            .push_harmony(id, &mut |event: Read<'_>| answer.take(&event, events));
        if hidden && self.answer.is_hidden() {
            self.answer.reasoning_tokens += 1;
        }
    }

    fn text(&mut self, text: &str, events: &mut (dyn FnMut(Event) + Send)) {
        let (stream, answer) = (&mut self.stream, &mut self.answer);
        self.scan
            .push(text, &mut |found| read(stream, answer, found, events));
    }

    fn flush(&mut self, events: &mut (dyn FnMut(Event) + Send)) {
        let (stream, answer) = (&mut self.stream, &mut self.answer);
        self.scan
            .finish(&mut |found| read(stream, answer, found, events));
    }
}

/// Reads a piece of text as if it was an id of its own.
fn read(
    stream: &mut IdStream,
    answer: &mut Answer,
    found: Found<'_>,
    events: &mut (dyn FnMut(Event) + Send),
) {
    if answer.over {
        return;
    }
    let mut sink = |event: Read<'_>| answer.take(&event, &mut *events);
    match found {
        Found::Text(text) => stream.push(0, |_| Some(text.as_bytes()), &mut sink),
        Found::Control(id) => stream.push(id, |_| None, &mut sink),
    }
}

/// What was read.
#[derive(Debug, Default)]
struct Answer {
    blocks: Vec<ContentBlock>,
    calls: Vec<ToolCall>,
    /// Calls that began.
    begun: usize,
    current: Option<Current>,
    /// Whether the model named a channel anywhere.
    channel_seen: bool,
    /// Whether a call was cut.
    cut_call: bool,
    /// Whether the model stopped, or spoke as somebody else.
    over: bool,
    reasoning_tokens: u64,
    /// Ids of calls that the conversation holds already.
    taken: BTreeSet<String>,
    /// Distinguishes made-up ids of this answer from those of earlier ones.
    salt: usize,
}

/// The message that is being read.
#[derive(Debug)]
struct Current {
    kind: Kind,
    text: String,
    name: String,
    content_type: Option<String>,
    /// Its position among the calls that began.
    index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Call,
}

impl Answer {
    fn is_hidden(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.kind == Kind::Reasoning)
    }

    fn take(&mut self, event: &Read<'_>, events: &mut (dyn FnMut(Event) + Send)) {
        if self.over {
            return;
        }
        match event {
            Read::Start(head) => self.start(head, events),
            Read::Delta(text) => self.delta(text, events),
            Read::End(ended) => self.end(ended.end),
            Read::Amended(End::Return | End::Call) => self.over = true,
            _ => {}
        }
    }

    fn start(&mut self, head: &MessageHeader, events: &mut (dyn FnMut(Event) + Send)) {
        self.channel_seen |= head.channel.is_some();
        if head.role != FrameRole::Assistant && !head.stray {
            // The answer is over where the model begins to speak for others.
            self.over = true;
            return;
        }
        let to = head.recipient.as_deref();
        let tool = to.filter(|to| !head.stray && !matches!(*to, "user" | "assistant" | "all"));
        let kind = match tool {
            Some(_) => Kind::Call,
            None if head.is_visible() => Kind::Text,
            None => Kind::Reasoning,
        };
        let name = tool_of(tool.unwrap_or_default()).to_owned();
        if kind == Kind::Call {
            events(Event::ToolCall {
                index: self.begun,
                name: name.clone(),
            });
        }
        self.current = Some(Current {
            kind,
            text: String::new(),
            name,
            content_type: head.content_type.clone(),
            index: self.begun,
        });
        self.begun += usize::from(kind == Kind::Call);
    }

    fn delta(&mut self, text: &str, events: &mut (dyn FnMut(Event) + Send)) {
        let Some(current) = &mut self.current else {
            return;
        };
        current.text.push_str(text);
        let text = text.to_owned();
        events(match current.kind {
            Kind::Text => Event::Text(text),
            Kind::Reasoning => Event::Reasoning(text),
            Kind::Call => Event::Arguments {
                index: current.index,
                text,
            },
        });
    }

    fn end(&mut self, end: End) {
        self.over |= matches!(end, End::Return | End::Call);
        let Some(current) = self.current.take() else {
            return;
        };
        match current.kind {
            // A call that is not complete never runs; what the model wrote of it is kept.
            Kind::Call if end.is_stop() => self.call(current),
            Kind::Call => {
                self.cut_call = true;
                self.think(current.text);
            }
            Kind::Reasoning => self.think(current.text),
            Kind::Text => match self.blocks.last_mut() {
                Some(ContentBlock::Text { text, .. }) => text.push_str(&current.text),
                _ if current.text.is_empty() => {}
                _ => self.blocks.push(ContentBlock::text(current.text)),
            },
        }
    }

    fn think(&mut self, text: String) {
        if !text.is_empty() {
            self.blocks.push(ContentBlock::thinking(text));
        }
    }

    fn call(&mut self, current: Current) {
        let mut attempt = self.calls.len();
        let mut id = format!("call_{}_{attempt}", self.salt);
        while self.taken.contains(&id) {
            attempt += 1;
            id = format!("call_{}_{attempt}", self.salt);
        }
        self.taken.insert(id.clone());
        let json = current
            .content_type
            .as_deref()
            .is_none_or(|kind| kind == "json")
            || serde_json::from_str::<Value>(&current.text).is_ok();
        self.calls.push(ToolCall {
            id,
            name: current.name,
            arguments: Arguments::from_text(current.text),
            kind: if json {
                CallKind::Function
            } else {
                CallKind::Custom
            },
            signature: None,
        });
    }

    fn finish(
        mut self,
        form: Option<Form>,
        reason: Option<FinishReason>,
        usage: Option<Usage>,
    ) -> Result<Response, ProviderError> {
        let calls = std::mem::take(&mut self.calls);
        let mut blocks = std::mem::take(&mut self.blocks);
        if !calls.is_empty() {
            for block in &mut blocks {
                if let ContentBlock::Text { preamble, .. } = block {
                    *preamble = true;
                }
            }
        }
        let said = |block: &ContentBlock| matches!(block, ContentBlock::Text { text, .. } if !text.trim().is_empty());
        let says_nothing = calls.is_empty() && !blocks.iter().any(said);
        let content = match blocks.as_slice() {
            [] if calls.is_empty() => Content::Text(String::new()),
            [] => Content::Absent,
            [ContentBlock::Text { text, .. }] if calls.is_empty() => Content::Text(text.clone()),
            _ => Content::Blocks(blocks),
        };
        let message = ChatMessage::assistant(content);
        if !self.channel_seen && calls.is_empty() {
            return Err(without_channel(form, message));
        }
        if reason == Some(FinishReason::Length) && (self.cut_call || !calls.is_empty()) {
            let what = "the answer reached its length limit in the middle of its tool calls";
            return Err(incomplete(what, message));
        }
        let message = message.with_tool_calls(calls);
        if says_nothing {
            return Err(incomplete(
                if self.cut_call {
                    "the model began a tool call and did not end it"
                } else {
                    "the model answered with nothing: no text and no tool call"
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
        Ok(Response::new(message, reason).with_usage(usage))
    }
}

/// The error of an answer without any structure.
fn without_channel(form: Option<Form>, message: ChatMessage) -> ProviderError {
    let (what, help) = match form {
        Some(Form::Text) => (
            "the server sent text without any channel marker: it leaves special tokens out",
            "let the server give them: vLLM takes `skip_special_tokens: false` (sent with \
             `server = \"vllm\"` under [model.harmony] in logue.toml), llama.cpp is started with \
             `--special` or asked with `server = \"llama.cpp\"`; else check that the model is of \
             the gpt-oss family",
        ),
        Some(Form::Ids) => (
            "the model emitted no channel marker: it does not speak Harmony",
            "`harmony:` is for models of the gpt-oss family; use openai:NAME for others",
        ),
        None => (
            "the server sent a completion of nothing",
            "check that the model is of the gpt-oss family, and try again",
        ),
    };
    let mut error = ProviderError::new(Category::InvalidResponse, what).with_help(help);
    error.answer = Some(Box::new(message));
    error
}
