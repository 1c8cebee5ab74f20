//! Harmony: the envelope as gpt-oss models emit it, read with recovery.
//!
//! ```text
//! bytes ─▶ Stream    ─┐
//!                     ├─▶ one state machine ─▶ Event ─▶ read ─▶ HarmonyDocument
//! ids   ─▶ IdStream  ─┘
//! ```
//!
//! [`Stream`] takes text in any pieces, [`IdStream`] takes token ids; both find the control tokens
//! and leave their meaning to the same machine. [`read`] collects the machine's events, so a whole
//! text and a stream of it give the same messages.
//!
//! The way back is [`Conversation`]: [to text](Conversation::to_text), and with the feature `o200k`
//! to ids, by a `Renderer`. [`Conversation::from_transcript`] and [`HarmonyDocument::to_transcript`] lead
//! from and to the form that every dialect shares.
//!
//! What a model emits is often malformed. Nothing of it is thrown away: each byte is in a message,
//! is white space between messages, or is underlined by a diagnostic; each repair has a
//! diagnostic. A delta leaves only once the channel of its message is certain, and a message whose
//! channel is not known is hidden ([`MessageHeader::is_visible`]).
//!
//! ```
//! use openchatml::harmony::{End, HarmonyReadOptions, read};
//! use openchatml::FrameRole;
//!
//! let options = HarmonyReadOptions::default().with_start_role(FrameRole::Assistant);
//! let text = b"<|channel|>analysis<|message|>Easy.<|start|>assistant<|channel|>final<|message|>4<|return|>";
//! let document = read(text, &options);
//! let shown: Vec<_> = document.messages.iter().filter(|message| message.is_visible()).collect();
//! assert_eq!(shown.len(), 1);
//! assert_eq!((shown[0].content.as_str(), shown[0].end), ("4", End::Return));
//! assert!(!document.messages[0].complete); // its `<|end|>` was lost, and a diagnostic says so
//! assert_eq!(document.diagnostics.len(), 1);
//! ```

mod check;
mod control;
mod event;
mod header;
mod ids;
mod machine;
mod message;
mod recover;
mod render;
mod text;
mod transcript;
#[cfg(feature = "o200k")]
mod vocabulary;
mod words;

pub use check::check;
pub use event::{End, Event, HarmonyReadOptions, MessageEnd, MessageHeader};
pub use ids::{IdStream, control_id};
pub use message::{HarmonyDocument, Message, read, read_ids};
#[cfg(feature = "o200k")]
pub use render::Renderer;
pub use render::{
    Content, Conversation, DeveloperContent, Form, FunctionTool, Piece, PieceContent, PiecePlace,
    Reasoning, ReasoningEffort, RenderError, RenderMessage, RenderOptions, RendererCompat,
    SystemContent, ToolNamespace,
};
pub use text::Stream;
#[cfg(feature = "o200k")]
pub use vocabulary::read_harmony_ids;
