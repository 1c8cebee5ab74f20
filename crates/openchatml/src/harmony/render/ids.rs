//! Rendering to token ids.

use logue_o200k::{Encoder, special};

use super::conversation::{Conversation, RenderMessage};
use super::error::RenderError;
use super::options::{Form, RenderOptions};
use super::plan::{self, Sink};
use crate::ControlToken;
use crate::harmony::control_id;

/// Renders to ids of `o200k_harmony`.
///
/// Names and bodies are ordinary text: whatever they spell, they never become a control token. One
/// renderer is made for many conversations, since what it learns of one speeds up the next.
///
/// ```
/// use openchatml::FrameRole;
/// use openchatml::harmony::{RenderMessage, Conversation, Form, RenderOptions, Renderer};
///
/// let conversation = Conversation::new(vec![RenderMessage::user("<|end|>")]);
/// let ids = Renderer::new().ids(
///     &conversation,
///     Form::Completion(FrameRole::Assistant),
///     &RenderOptions::default(),
/// )?;
/// assert_eq!(ids, [200_006, 1428, 200_008, 27, 91, 419, 91, 29, 200_007, 200_006, 173_781]);
/// # Ok::<(), openchatml::harmony::RenderError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Renderer {
    encoder: Encoder,
    words: String,
}

impl Renderer {
    /// A renderer that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The ids of a conversation. Linear in its length.
    ///
    /// # Errors
    /// The first header value that cannot be written, and the first content that is in the
    /// wrong message.
    pub fn ids(
        &mut self,
        conversation: &Conversation,
        form: Form,
        options: &RenderOptions,
    ) -> Result<Vec<u32>, RenderError> {
        let mut ids = Vec::new();
        self.append(conversation, form, options, &mut ids)?;
        Ok(ids)
    }

    /// Appends the ids of a conversation to `ids`.
    ///
    /// # Errors
    /// As [`Renderer::ids`]; nothing is appended then.
    pub fn append(
        &mut self,
        conversation: &Conversation,
        form: Form,
        options: &RenderOptions,
        ids: &mut Vec<u32>,
    ) -> Result<(), RenderError> {
        self.undo_on_error(ids, |sink, words| {
            plan::conversation(conversation, form, *options, sink, words)
        })
    }

    /// Appends the ids of one message. `function_tools` says whether the conversation that it is
    /// of declares functions, which a system message mentions.
    ///
    /// # Errors
    /// As [`Renderer::ids`]; nothing is appended then.
    pub fn append_message(
        &mut self,
        message: &RenderMessage,
        function_tools: bool,
        options: &RenderOptions,
        ids: &mut Vec<u32>,
    ) -> Result<(), RenderError> {
        self.undo_on_error(ids, |sink, words| {
            plan::message(message, function_tools, *options, sink, words)
        })
    }

    fn undo_on_error(
        &mut self,
        ids: &mut Vec<u32>,
        render: impl FnOnce(&mut Ids<'_>, &mut String) -> Result<(), RenderError>,
    ) -> Result<(), RenderError> {
        let length = ids.len();
        let mut sink = Ids {
            encoder: &mut self.encoder,
            ids,
        };
        let result = render(&mut sink, &mut self.words);
        if result.is_err() {
            ids.truncate(length);
        }
        result
    }
}

struct Ids<'r> {
    encoder: &'r mut Encoder,
    ids: &'r mut Vec<u32>,
}

impl Sink for Ids<'_> {
    fn message(&mut self, _message: usize) {}

    fn token(&mut self, token: ControlToken) {
        // The two without an id are never written.
        self.ids
            .push(control_id(token).unwrap_or(special::END_OF_TEXT));
    }

    fn text(&mut self, text: &str) {
        self.encoder.encode_into(text, self.ids);
    }

    fn body(&mut self, part: &str) {
        self.encoder.encode_into(part, self.ids);
    }

    fn body_ends(&mut self, _message: usize) -> Result<(), RenderError> {
        Ok(())
    }
}
