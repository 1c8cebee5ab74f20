//! A whole text of 0.1: messages with their items as spans.

use std::borrow::Cow;

use logue_source::{Diagnostic, Span};

use super::event::{Function, LegacyReadOptions, MessageEnd, MessageHeader, TextKind};
use super::machine::Handler;
use super::marker::Thought;
use super::stream::Stream;
use super::task::Task;
use crate::limits::MAX_DIAGNOSTICS;
use crate::syntax::token_stream::TokenStream;

/// The result of [`parse`]: the messages and the findings of one source.
#[derive(Debug)]
pub struct LegacyDocument<'s> {
    source: &'s [u8],
    messages: Vec<Message>,
    diagnostics: Vec<Diagnostic>,
}

/// A message (OpenChatML 0.1 §3), or a stretch of stray text between messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The first line.
    pub head: MessageHeader,
    /// Its items, in order. Layout newlines are not in any item.
    pub items: Vec<Item>,
    /// Whether it has its `<|im_end|>`.
    pub complete: bool,
    /// The whole message, with its tokens.
    pub span: Span,
    /// Its content as it is written, layout newlines included.
    pub content: Span,
}

/// An item of a message. OpenChatML 0.1 closes the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Visible text.
    Text(Span),
    /// A block of thought, without its tokens (OpenChatML 0.1 §4).
    Thought(Thought, Span),
    /// The system asks for thoughts of this kind.
    Flag(Thought, Span),
    /// A function value: the place of its JSON (OpenChatML 0.1 §8).
    Function(Function, Span),
    /// The beginning of a function value that the message's end cut; hidden.
    Unfinished(Function, Span),
}

/// Reads OpenChatML 0.1 or plain `ChatML`. Never fails: what is wrong is a diagnostic, and every
/// byte is in a message or is white space or an edge between messages. Linear in the source.
///
/// ```
/// use openchatml::v0_1::{Item, LegacyReadOptions, parse};
///
/// let text = b"[BOS]<|im_start|>user name=Eric\nHello there.\n<|im_end|>[EOS]";
/// let document = parse(text, &LegacyReadOptions::default());
/// let message = &document.messages()[0];
/// assert_eq!(message.head.name.as_deref(), Some("Eric"));
/// let [Item::Text(said)] = message.items[..] else { panic!() };
/// assert_eq!(document.text(said), "Hello there.");
/// ```
pub fn parse<'s>(source: &'s [u8], options: &LegacyReadOptions) -> LegacyDocument<'s> {
    let mut document = LegacyDocument {
        source,
        messages: Vec::new(),
        diagnostics: Vec::new(),
    };
    let mut collector = Collector {
        document: &mut document,
        open: None,
    };
    let mut stream = Stream::new(options.clone());
    stream.feed(source, &mut collector);
    stream.end(&mut collector);
    if !options.plain && document.task().is_some() {
        // A text without messages has no text outside of one.
        document.messages.clear();
        document.diagnostics.clear();
    }
    document
}

/// One stretch of a source. The pieces of a document tile its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyPiece {
    /// The message with this index; stray text counts as a message.
    Message(usize, Span),
    /// White space and edges between messages, or a whole text that is a [`Task`].
    Between(Span),
}

impl LegacyPiece {
    /// The place of the piece.
    pub const fn span(self) -> Span {
        match self {
            Self::Message(_, span) | Self::Between(span) => span,
        }
    }
}

impl<'s> LegacyDocument<'s> {
    /// The text that was read.
    pub const fn source(&self) -> &'s [u8] {
        self.source
    }

    /// The messages in order, stray text included.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Findings, in order; at most [`MAX_DIAGNOSTICS`].
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The task, if the text is not a conversation: a gap to fill, or several files
    /// (OpenChatML 0.1 §6, §7).
    pub fn task(&self) -> Option<Task<'s>> {
        if self.messages.iter().any(|message| !message.head.stray) {
            return None;
        }
        Task::read(self.source)
    }

    /// The text at `span`, with invalid UTF-8 replaced.
    pub fn text(&self, span: Span) -> Cow<'s, str> {
        String::from_utf8_lossy(span.bytes(self.source))
    }

    /// The pieces that tile the source.
    pub fn pieces(&self) -> impl Iterator<Item = LegacyPiece> {
        let end = Span::empty(self.source.len());
        let messages = self.messages.iter().enumerate();
        let messages = messages.map(|(index, message)| LegacyPiece::Message(index, message.span));
        let mut at = 0;
        messages
            .chain(std::iter::once(LegacyPiece::Between(end)))
            .flat_map(move |piece| {
                let gap = Span::new(at, piece.span().start);
                at = piece.span().end;
                [LegacyPiece::Between(gap), piece]
            })
            .filter(|piece| !piece.span().is_empty())
    }
}

struct Collector<'d, 's> {
    document: &'d mut LegacyDocument<'s>,
    /// The item that more text may belong to.
    open: Option<TextKind>,
}

impl Collector<'_, '_> {
    fn items(&mut self) -> Option<&mut Vec<Item>> {
        let message = self.document.messages.last_mut()?;
        Some(&mut message.items)
    }

    fn add(&mut self, item: Item) {
        if let Some(items) = self.items() {
            items.push(item);
        }
    }
}

impl Handler for Collector<'_, '_> {
    fn start(&mut self, head: &MessageHeader) {
        self.open = None;
        self.document.messages.push(Message {
            head: head.clone(),
            items: Vec::new(),
            complete: false,
            span: Span::default(),
            content: Span::default(),
        });
    }

    fn text(&mut self, kind: TextKind, text: &[u8], at: usize) {
        if text.is_empty() {
            return;
        }
        let more = Span::new(at, at + text.len());
        if self.open.replace(kind) == Some(kind) {
            if let Some(Item::Text(span) | Item::Thought(_, span)) =
                self.items().and_then(|items| items.last_mut())
            {
                span.end = more.end;
            }
            return;
        }
        self.add(match kind {
            TextKind::Text => Item::Text(more),
            TextKind::Thought(thought) => Item::Thought(thought, more),
        });
    }

    fn close(&mut self) {
        self.open = None;
    }

    fn thought(&mut self, thought: Thought, at: usize) {
        self.add(Item::Thought(thought, Span::empty(at)));
        self.open = Some(TextKind::Thought(thought));
    }

    fn thought_end(&mut self, _thought: Thought) {}

    fn flag(&mut self, thought: Thought, at: Span) {
        self.add(Item::Flag(thought, at));
    }

    fn function(&mut self, function: Function, _json: &[u8], at: Span) {
        self.add(Item::Function(function, at));
    }

    fn unfinished(&mut self, function: Function, text: &[u8], at: usize) {
        self.add(Item::Unfinished(function, Span::new(at, at + text.len())));
    }

    fn end(&mut self, ended: MessageEnd) {
        self.open = None;
        if let Some(message) = self.document.messages.last_mut() {
            message.complete = ended.complete;
            message.span = ended.span;
            message.content = ended.content;
        }
    }

    fn found(&mut self, finding: Diagnostic) {
        if self.document.diagnostics.len() < MAX_DIAGNOSTICS {
            self.document.diagnostics.push(finding);
        }
    }
}
