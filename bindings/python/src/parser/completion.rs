//! The state of a completion that is read id by id.

use logue_o200k::special;
use logue_source::Diagnostic;
use openchatml::FrameRole;
use openchatml::harmony::{End, Event, HarmonyReadOptions, MessageHeader};
use openchatml::limits::MAX_DIAGNOSTICS;

use crate::deferred::DeferredStream;

/// A message as the compatibility module builds it: role, name, recipient, channel, content type,
/// text.
pub(super) type Fields = (
    &'static str,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    String,
);

/// The header of the current message.
#[derive(Default)]
pub(super) struct Header {
    pub(super) role: &'static str,
    name: Option<String>,
    pub(super) recipient: Option<String>,
    pub(super) channel: Option<String>,
    pub(super) content_type: Option<String>,
}

/// The token that is expected next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    ExpectStart,
    Header,
    Content,
}

/// The change of the content by the last id.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// The content is unchanged, or its message has ended.
    Nothing,
    /// The text of exactly this id was added.
    Id(u32),
    /// The content after [`Completion::before`] was added.
    Text,
}

/// The part of the state that events change.
pub(super) struct Completion {
    strict: bool,
    /// The implied role, until the first header is read.
    pub(super) next_role: Option<FrameRole>,
    pub(super) state: State,
    pub(super) header: Header,
    /// Whether [`Self::header`] is another one than Python has.
    pub(super) is_header_new: bool,
    /// Whether the current header has a `<|constrain|>`.
    constrained: bool,
    pub(super) content: String,
    /// The length of the content before the last id.
    pub(super) before: usize,
    pub(super) messages: Vec<Fields>,
    pub(super) ends: Vec<(&'static str, bool)>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) failure: Option<Box<Diagnostic>>,
}

impl Completion {
    fn new(options: &HarmonyReadOptions) -> Self {
        let next_role = options.start_role;
        Self {
            strict: options.strict,
            next_role,
            state: if next_role.is_some() {
                State::Header
            } else {
                State::ExpectStart
            },
            header: Header::default(),
            is_header_new: false,
            constrained: false,
            content: String::new(),
            before: 0,
            messages: Vec::new(),
            ends: Vec::new(),
            diagnostics: Vec::new(),
            failure: None,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        if self.failure.is_some() {
            return;
        }
        match event {
            Event::Start(head) => self.start(head),
            Event::Delta(text) => self.content.push_str(text),
            Event::End(ended) => {
                let header = std::mem::take(&mut self.header);
                let text = std::mem::take(&mut self.content);
                self.messages.push((
                    header.role,
                    header.name,
                    header.recipient,
                    header.channel,
                    header.content_type,
                    text,
                ));
                self.ends.push((ended.end.as_str(), ended.complete));
                self.before = 0;
                self.is_header_new = true;
                self.state = match ended.end {
                    End::Implicit => State::Header,
                    _ => State::ExpectStart,
                };
            }
            Event::Amended(end) => {
                if let Some(last) = self.ends.last_mut() {
                    *last = (end.as_str(), true);
                }
            }
            Event::Diagnostic(found) => {
                if self.strict && found.is_error() {
                    self.failure = Some(Box::new(found.clone()));
                }
                if self.diagnostics.len() < MAX_DIAGNOSTICS {
                    self.diagnostics.push(found);
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, head: &MessageHeader) {
        let constrained = std::mem::take(&mut self.constrained);
        let content_type = head.content_type.as_ref().map(|name| {
            if constrained {
                format!("<|constrain|>{name}")
            } else {
                name.clone()
            }
        });
        self.header = Header {
            // Text outside of messages is the model's, too.
            role: head.role.as_str().unwrap_or("assistant"),
            name: head.name.clone(),
            recipient: head.recipient.clone(),
            channel: head.channel.clone(),
            content_type,
        };
        self.is_header_new = true;
        self.content.clear();
        self.before = 0;
        self.next_role = None;
        self.state = State::Content;
    }
}

/// A reader and its state.
pub(super) struct Reading {
    stream: DeferredStream,
    completion: Completion,
    tokens: Vec<u32>,
}

impl Reading {
    pub(super) fn new(options: &HarmonyReadOptions) -> Self {
        Self {
            stream: DeferredStream::new(options.clone()),
            completion: Completion::new(options),
            tokens: Vec::new(),
        }
    }

    /// Returns the state that includes every id.
    pub(super) fn completion(&mut self) -> &mut Completion {
        let content = &mut self.completion.content;
        self.stream.catch_up(|text| content.push_str(text));
        &mut self.completion
    }

    /// Every id.
    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Takes an ordinary id that is whole characters, if it is in a message. Returns whether it
    /// was taken.
    #[inline]
    pub(super) fn push_text(&mut self, id: u32) -> bool {
        let is_taken = self.stream.defer(id);
        if is_taken {
            self.tokens.push(id);
        }
        is_taken
    }

    /// Reads an id, unless an error stopped the parser.
    pub(super) fn push(&mut self, id: u32) -> Change {
        if self.completion().failure.is_some() {
            return Change::Nothing;
        }
        let completion = &mut self.completion;
        self.tokens.push(id);
        completion.before = completion.content.len();
        if let Some(text) = self.stream.push_text(id) {
            completion.content.push_str(text);
            return Change::Id(id);
        }
        match id {
            special::START if completion.state != State::Content => {
                completion.state = State::Header;
            }
            special::CONSTRAIN if completion.state == State::Header => {
                completion.constrained = true;
            }
            _ => {}
        }
        self.stream
            .push(id, &mut |event: Event<'_>| completion.take(event));
        if completion.state == State::Content && completion.content.len() > completion.before {
            Change::Text
        } else {
            Change::Nothing
        }
    }

    /// Ends the completion, unless an error stopped the parser.
    pub(super) fn finish(&mut self, options: &HarmonyReadOptions) {
        if self.completion().failure.is_some() {
            return;
        }
        let completion = &mut self.completion;
        let fresh = DeferredStream::new(options.clone().with_start_role(None));
        let stream = std::mem::replace(&mut self.stream, fresh);
        // A message that the limit of tokens cut is not an error of the model.
        let strict = completion.strict;
        completion.strict = strict && completion.state == State::Header;
        stream.finish(&mut |event: Event<'_>| completion.take(event));
        completion.strict = strict;
        completion.next_role = None;
        completion.state = State::ExpectStart;
        completion.before = 0;
    }
}
