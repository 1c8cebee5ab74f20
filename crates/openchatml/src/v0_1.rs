//! OpenChatML 0.1, the 1.x line, and its subset known as `ChatML`.
//!
//! ```text
//! bytes ─▶ Stream ─▶ one state machine ─▶ Event
//!                                      └▶ parse ─▶ LegacyDocument ─▶ to_transcript
//! Transcript ─▶ write ─▶ text
//! ```
//!
//! Messages are between `<|im_start|>` and `<|im_end|>`; in them blocks of thought, flags and
//! function values are typed, and everything else is text. There is no escape, so what spells a
//! token cannot be written, and is refused rather than changed. A text without messages may be a
//! [`Task`]: a gap to fill, or several files.

mod check;
mod document;
mod event;
mod json;
mod machine;
mod marker;
mod read;
mod role_line;
mod stream;
mod task;
mod write;

pub use check::check;
pub use document::{Item, LegacyDocument, LegacyPiece, Message, parse};
pub use event::{Event, Function, LegacyReadOptions, MessageEnd, MessageHeader, TextKind};
pub use marker::Thought;
pub use read::to_transcript;
pub use stream::Stream;
pub use task::{Files, Fim, Task};
pub use write::{WriteOptions, write};
