//! Frames to messages and back (the hub of `logue_message`).
//!
//! Frames of one assistant turn are one message: reasoning and text in order, then the calls.
//! Most of a conversation has exactly one form on each side. Where it has several, these are the
//! normal forms, and mapping there and back gives them:
//!
//! - An assistant message ends with its first final text, or with its calls when another role or
//!   a final text follows. One that ends otherwise joins the next one of the same name.
//! - Reasoning and preambles after the calls of a message belong to the answer that follows. Before
//!   another call or a reply they are moved in front of the calls, because calls end a message.
//! - Text in a message that calls tools is a preamble. Neighbouring final texts are one.
//! - One final text alone is plain content; anything else is blocks; calls alone have none.
//! - User, system and tool messages hold plain text. A tool message has its tool's name.
//! - A call is `functions.<name>`, except for `browser.*` and `python`, which are built in
//!   (OpenChatML 2.2 §8.3). It is on `commentary`, and constrained to JSON if its arguments are
//!   JSON. A custom call is marked by `content_type=text`.
//! - A provider's proof for its reasoning is in the header of the `analysis` frame:
//!   `signature=`, `reasoning_id=`, and `encrypted=` for what only the provider can read. A value that
//!   no header can hold is noted.
//! - An answer that was interrupted is a final text with `status=interrupted`, ended by `<|end|>`.
//! - The phase that a provider gave to an answer is `phase=` of its last text.
//! - An image of a user or of a tool's result is a frame with `content_type=image_url` and its address, or a `data:` address.
//!   The parts of such a message after the first have the attribute `continues=message`.
//! - A frame to a tool is a call if it ends in `<|call|>`, or if a later reply has its id. What
//!   was never called is kept as reasoning.
//!
//! What one side cannot hold is reported in a [`Loss`](crate::Loss). Nothing is dropped silently, and no
//! mapping raises the authority or the visibility of a text.

mod pictures;
mod reading;
mod writing;

pub(crate) use pictures::{Unpictured, continues, image};
pub use pictures::{image_address, image_losses};
pub use reading::messages_from_frames;
pub(crate) use reading::messages_in_order;
pub(crate) use writing::NAMELESS;
pub use writing::frames_from_messages;

use logue_message::CallKind;

use crate::syntax::json::is_json;
use crate::syntax::vocabulary::{FUNCTIONS, is_builtin};

/// The intent of a preamble.
pub(crate) const PREAMBLE: &str = "preamble";

/// The recipient that names a tool (`to=`): `functions.<tool>`, except for `browser.*` and `python`,
/// which are built in. [`tool_of`] gives the tool back, unless it has no name.
///
/// ```
/// use openchatml::{recipient_of, tool_of};
///
/// assert_eq!((recipient_of("lamp"), recipient_of("python")), ("functions.lamp".into(), "python".into()));
/// assert_eq!((tool_of("functions.lamp"), tool_of("python")), ("lamp", "python"));
/// ```
pub fn recipient_of(tool: &str) -> String {
    let like_builtin = tool.strip_prefix(FUNCTIONS).is_some_and(is_builtin);
    if is_builtin(tool) || like_builtin {
        tool.to_owned()
    } else {
        format!("{FUNCTIONS}{tool}")
    }
}

/// The tool that a recipient names. A function that is called like a built-in tool keeps its
/// prefix, so that it stays another one.
pub fn tool_of(recipient: &str) -> &str {
    match recipient.strip_prefix(FUNCTIONS) {
        Some(tool) if !tool.is_empty() && !is_builtin(tool) => tool,
        _ => recipient,
    }
}

/// The `<|constrain|>` and the content type with which a call is written.
pub(crate) fn types_of(
    kind: CallKind,
    arguments: &str,
) -> (Option<&'static str>, Option<&'static str>) {
    match kind {
        CallKind::Custom => (None, Some("text")),
        // A model may produce anything; a type that it breaks would make the frame an error.
        CallKind::Function => (is_json(arguments).then_some("json"), None),
    }
}
