//! Loss masks: which tokens of a conversation a model is trained on.
//!
//! ```text
//! row ─▶ Marked messages ─▶ writer of the form ─▶ Rendered { text, pieces, spans }
//!                                                       │ tokenizer
//!                                                       ▼
//!                         ids and trained tokens ─▶ truncation ─▶ checks ─▶ output
//! ```
//!
//! Spans come from the writer, which knows what it writes; no prefix of a rendering is compared with
//! another one. A token is trained if each of its bytes is in a trained span. A token across the
//! border of such a span is therefore not trained.
//!
//! What the model itself emits is trained, and nothing else: the prompt ends with the role word of a
//! message, so the rest of its header belongs to the message. An answer of an earlier turn ends in
//! a token that only histories contain, which is not trained (Harmony, OpenChatML).
//!
//! A row is refused rather than masked by a guess: [`Masker::mask`].

mod as_messages;
mod chatml;
mod dispatch;
mod harmony;
mod kept;
mod marked;
mod marks;
mod message_error;
mod openchatml;
mod options;
mod output;
mod read;
mod row;
mod span;
mod template;
mod tokens;

pub use dispatch::{Masked, MaskedRun, Masker};
pub use marks::MarkKeys;
pub use options::{MaskForm, MaskOptions, ReasoningPolicy, RowShape, Truncation};
pub use output::{Columns, write_masked};
pub use span::{Classes, MaskPiece, MaskSpan, Rendered, SpanClass, TrainedRoles};
