//! Removal of text that a store must not hold, before anything is stored.

use std::borrow::Cow;

use logue_message::{Arguments, ChatMessage, Content, ContentBlock, ToolCall};

/// The beginning of a placeholder for removed text.
const PLACEHOLDER: &str = "[redacted:";

/// Replaces text that must not be stored by placeholders.
///
/// A [`ChatHarness`](super::ChatHarness) applies it to messages and payloads of signals before it accepts them, and to
/// descriptions of failures. The nodes of its graph apply it to everything that they append, journal
/// or suspend with. A placeholder must stay as it is when it is replaced again.
///
/// ```
/// use std::borrow::Cow;
///
/// use logue_harness::chat::Redact;
/// use logue_message::ChatMessage;
///
/// struct Pin;
///
/// impl Redact for Pin {
///     fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
///         if text.contains("1234") {
///             Cow::Owned(text.replace("1234", "[redacted:pin]"))
///         } else {
///             Cow::Borrowed(text)
///         }
///     }
/// }
///
/// let mut message = ChatMessage::user("it is 1234");
/// assert!(Pin.message(&mut message));
/// assert_eq!(message.text(), "it is [redacted:pin]");
/// ```
pub trait Redact: Send + Sync {
    /// Replaces text that must not be stored; borrowed if there is none.
    fn text<'t>(&self, text: &'t str) -> Cow<'t, str>;

    /// Replaces text in the arguments of a call, or in other JSON.
    fn arguments<'t>(&self, arguments: &'t str) -> Cow<'t, str> {
        self.text(arguments)
    }

    /// Returns whether stored arguments may contain a placeholder.
    ///
    /// A call with such arguments does not run after it was stored.
    fn is_redacted(&self, arguments: &str) -> bool {
        has_placeholder(arguments)
    }

    /// Replaces text in the arguments of a call; returns whether there was any.
    ///
    /// The call loses a provider's signature over them.
    fn call(&self, call: &mut ToolCall) -> bool {
        let Cow::Owned(redacted) = self.arguments(call.arguments.as_str()) else {
            return false;
        };
        call.arguments = Arguments::from_text(redacted);
        call.signature = None;
        true
    }

    /// Replaces text in a block; returns whether there was any.
    ///
    /// The block loses a provider's signature over it. Images and encrypted reasoning stay.
    fn block(&self, block: &mut ContentBlock) -> bool {
        if let ContentBlock::Text {
            text, signature, ..
        }
        | ContentBlock::Thinking {
            text, signature, ..
        } = block
            && let Cow::Owned(redacted) = self.text(text)
        {
            *text = redacted;
            *signature = None;
            return true;
        }
        false
    }

    /// Replaces text in a message and its calls; returns whether there was any.
    ///
    /// Ids and names stay.
    fn message(&self, message: &mut ChatMessage) -> bool {
        let mut is_changed = match &mut message.content {
            Content::Absent => false,
            Content::Text(text) => match self.text(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(redacted) => {
                    *text = redacted;
                    true
                }
            },
            Content::Blocks(blocks) => {
                let mut is_changed = false;
                for block in blocks {
                    is_changed |= self.block(block);
                }
                is_changed
            }
        };
        for call in &mut message.tool_calls {
            is_changed |= self.call(call);
        }
        is_changed
    }
}

/// Returns whether a text contains a placeholder in the form `[redacted:…]`.
pub fn has_placeholder(text: &str) -> bool {
    text.contains(PLACEHOLDER)
}
