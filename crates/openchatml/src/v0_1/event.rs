//! Options and events of the reader of 0.1.

use logue_source::{Diagnostic, Span};

use super::marker::Thought;
use crate::syntax::vocabulary::FrameRole;

/// Options of the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LegacyReadOptions {
    /// Plain `ChatML`: only `<|im_start|>` and `<|im_end|>` are tokens.
    pub plain: bool,
    /// The tokens of a base model around a text (OpenChatML 0.1 §2). They may be
    /// between messages.
    pub edges: Vec<String>,
}

impl Default for LegacyReadOptions {
    /// 0.1 with the edges `[BOS]`, `[EOS]`, `<s>`, `</s>`, `<|begin_of_text|>` and `<|endoftext|>`.
    fn default() -> Self {
        let edges = [
            "[BOS]",
            "[EOS]",
            "<s>",
            "</s>",
            "<|begin_of_text|>",
            "<|endoftext|>",
        ];
        Self {
            plain: false,
            edges: edges.map(str::to_owned).to_vec(),
        }
    }
}

impl LegacyReadOptions {
    /// Plain `ChatML`.
    pub fn plain() -> Self {
        Self {
            plain: true,
            ..Self::default()
        }
    }

    /// Sets the tokens of a base model around a text.
    #[must_use]
    pub fn with_edges(mut self, edges: Vec<String>) -> Self {
        self.edges = edges;
        self
    }
}

/// The events of the reader, in order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A message begins.
    Start(&'e MessageHeader),
    /// More of its text, or of a thought in it; never empty.
    Delta {
        /// The kind of the text.
        kind: TextKind,
        /// The text.
        text: &'e str,
    },
    /// A block of thought begins.
    ThoughtStart(Thought),
    /// A thought is whole, or cut by the message's end. Text needs no such event.
    ThoughtEnd(Thought),
    /// The system asks for thoughts of this kind.
    Flag(Thought),
    /// A function value: JSON.
    Function(Function, &'e str),
    /// The beginning of a function value that the message's end cut; hidden.
    Unfinished(Function, &'e str),
    /// The message ends.
    End(MessageEnd),
    /// Something is wrong.
    Diagnostic(Diagnostic),
}

/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// Visible text.
    Text,
    /// A block of thought; hidden.
    Thought(Thought),
}

/// The function values of OpenChatML 0.1 §8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// A declared function, in a system message.
    List,
    /// A call, of an assistant.
    Call,
    /// The result of a call, in a tool message.
    Output,
}

/// The first line of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageHeader {
    /// The speaker; [`FrameRole::Other`] for a role that 0.1 does not have, and for stray text.
    pub role: FrameRole,
    /// The speaker's name.
    pub name: Option<String>,
    /// Whether this is text outside every message.
    pub stray: bool,
    /// Whether the line holds nothing but a role and a name.
    pub sound: bool,
}

impl MessageHeader {
    pub(super) const fn stray() -> Self {
        Self {
            role: FrameRole::Other,
            name: None,
            stray: true,
            sound: false,
        }
    }

    /// Returns whether a person may see the message's text. Its thoughts and functions are hidden
    /// always.
    pub const fn is_visible(&self) -> bool {
        matches!(self.role, FrameRole::User | FrameRole::Assistant) && self.sound
    }
}

/// The end of a message. Offsets count the bytes that were pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageEnd {
    /// Whether it has its `<|im_end|>`.
    pub complete: bool,
    /// The whole message, with its tokens.
    pub span: Span,
    /// Its content as it is written, layout newlines included.
    pub content: Span,
}
