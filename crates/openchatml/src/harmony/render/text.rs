//! Rendering to text.

use memchr::memmem;

use super::conversation::{Conversation, RenderMessage};
use super::error::RenderError;
use super::options::{Form, RenderOptions};
use super::plan::{self, Sink};
use crate::ControlToken;
use crate::syntax::escape;

impl Conversation {
    /// The prompt as text, for a tokenizer that recognizes control tokens. Linear in its
    /// length.
    ///
    /// # Errors
    /// The first header value that cannot be written, the first content that is in the wrong
    /// message, and the first body that spells a control token: as text, a model would take it for
    /// real. The ids of a `Renderer` have no such limit.
    ///
    /// ```
    /// use openchatml::harmony::{RenderMessage, Conversation, Form, RenderError, RenderOptions};
    ///
    /// let conversation = Conversation::new(vec![RenderMessage::user("What is <|end|>?")]);
    /// let strict = RenderOptions::default();
    /// let refused = conversation.to_text(Form::Conversation, &strict);
    /// assert!(matches!(refused, Err(RenderError::ControlToken { message: 0, .. })));
    ///
    /// let readable = conversation.to_text(Form::Conversation, &strict.with_escape(true))?;
    /// assert_eq!(readable, "<|start|>user<|message|>What is <<|end|>?<|end|>");
    /// # Ok::<(), RenderError>(())
    /// ```
    pub fn to_text(&self, form: Form, options: &RenderOptions) -> Result<String, RenderError> {
        let mut sink = Text::new(*options);
        plan::conversation(self, form, *options, &mut sink, &mut String::new())?;
        Ok(sink.out)
    }
}

impl RenderMessage {
    /// This message alone as text. `function_tools` says whether the conversation that it is of
    /// declares functions, which a system message mentions.
    ///
    /// # Errors
    /// As [`Conversation::to_text`].
    pub fn to_text(
        &self,
        function_tools: bool,
        options: &RenderOptions,
    ) -> Result<String, RenderError> {
        let mut sink = Text::new(*options);
        plan::message(
            self,
            function_tools,
            *options,
            &mut sink,
            &mut String::new(),
        )?;
        Ok(sink.out)
    }
}

struct Text {
    out: String,
    escape: bool,
    /// Start of the body that is written.
    body_from: usize,
}

impl Text {
    const fn new(options: RenderOptions) -> Self {
        Self {
            out: String::new(),
            escape: options.escape,
            body_from: 0,
        }
    }
}

impl Sink for Text {
    fn message(&mut self, _message: usize) {}

    fn token(&mut self, token: ControlToken) {
        self.out.push_str(token.as_str());
        self.body_from = self.out.len();
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn body(&mut self, part: &str) {
        self.out.push_str(part);
    }

    fn body_ends(&mut self, message: usize) -> Result<(), RenderError> {
        let body = self.out.get(self.body_from..).unwrap_or_default();
        let token = find_special(body);
        let bracket = body.ends_with('<');
        match token {
            None if !bracket => Ok(()),
            _ if self.escape => {
                let body = self.out.split_off(self.body_from);
                escape_into(&mut self.out, &body);
                Ok(())
            }
            Some(token) => Err(RenderError::ControlToken {
                message,
                token: token.to_owned(),
            }),
            None => Err(RenderError::BracketAtEnd { message }),
        }
    }
}

const END_OF_TEXT: &str = "<|endoftext|>";

/// The first thing in `text` that a vocabulary with control tokens has an id for.
fn find_special(text: &str) -> Option<&str> {
    let mut places = memmem::find_iter(text.as_bytes(), b"<|");
    places.find_map(|at| special_at(text.get(at..)?))
}

/// The token that `text` begins with: one of the envelope or of the vocabulary around it.
fn special_at(text: &str) -> Option<&str> {
    if let Some(token) = ControlToken::at(text.as_bytes()) {
        return Some(token.as_str());
    }
    let named = [END_OF_TEXT, "<|startoftext|>"];
    if let Some(name) = named.into_iter().find(|name| text.starts_with(name)) {
        return Some(name);
    }
    let digits = text.strip_prefix("<|reserved_")?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let rest = digits.get(length..)?;
    let end = text.len() - rest.len() + "|>".len();
    (length > 0 && rest.starts_with("|>")).then(|| text.get(..end))?
}

/// Appends `body` so that [`read`](crate::harmony::read()) gives exactly it.
fn escape_into(out: &mut String, body: &str) {
    let mut parts = body.split(END_OF_TEXT);
    escape::encode(out, parts.next().unwrap_or_default());
    for part in parts {
        // This token has no escape of its own.
        out.push_str(ControlToken::Literal.as_str());
        out.push_str(END_OF_TEXT);
        out.push_str(ControlToken::EndLiteral.as_str());
        escape::encode(out, part);
    }
}
