//! Rendering in pieces: each control token and each text with its message and place.

use super::conversation::Conversation;
use super::error::RenderError;
use super::options::{Form, RenderOptions};
use super::plan::{self, Sink};
use crate::ControlToken;

/// A control token of a rendering, or a text that is encoded separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece<'t> {
    /// The message, by its index; one past the last for the one to be completed.
    pub message: usize,
    /// The part of the message.
    pub place: PiecePlace,
    /// The token or text.
    pub content: PieceContent<'t>,
}

/// The part of a message that a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PiecePlace {
    /// From `<|start|>` to `<|message|>`, both included.
    Header,
    /// The body.
    Body,
    /// The token that ends the message.
    End,
}

/// The content of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceContent<'t> {
    /// A control token.
    Token(ControlToken),
    /// Ordinary text, whatever it spells.
    Text(&'t str),
}

impl Conversation {
    /// Passes the pieces of a rendering to `take`, in order.
    ///
    /// The tokens, and the texts encoded one by one, are the ids of a `Renderer`. Linear in the
    /// length of the conversation.
    ///
    /// # Errors
    /// As `Renderer::ids`; pieces before the error were passed.
    ///
    /// ```
    /// use openchatml::harmony::{Conversation, Form, PieceContent, PiecePlace, RenderMessage, RenderOptions};
    ///
    /// let answer = RenderMessage::assistant("4").with_channel("final");
    /// let conversation = Conversation::new(vec![answer]);
    /// let mut body = String::new();
    /// conversation.pieces(Form::Training, &RenderOptions::default(), |piece| {
    ///     if let (PiecePlace::Body, PieceContent::Text(text)) = (piece.place, piece.content) {
    ///         body.push_str(text);
    ///     }
    /// })?;
    /// assert_eq!(body, "4");
    /// # Ok::<(), openchatml::harmony::RenderError>(())
    /// ```
    pub fn pieces(
        &self,
        form: Form,
        options: &RenderOptions,
        take: impl FnMut(Piece<'_>),
    ) -> Result<(), RenderError> {
        let mut sink = Pieces {
            take,
            message: 0,
            place: PiecePlace::End,
        };
        plan::conversation(self, form, *options, &mut sink, &mut String::new())
    }
}

struct Pieces<F> {
    take: F,
    message: usize,
    place: PiecePlace,
}

impl<F: FnMut(Piece<'_>)> Pieces<F> {
    fn piece(&mut self, content: PieceContent<'_>) {
        (self.take)(Piece {
            message: self.message,
            place: self.place,
            content,
        });
    }
}

impl<F: FnMut(Piece<'_>)> Sink for Pieces<F> {
    fn message(&mut self, message: usize) {
        self.message = message;
        self.place = PiecePlace::Header;
    }

    fn token(&mut self, token: ControlToken) {
        self.piece(PieceContent::Token(token));
        if token == ControlToken::Message {
            self.place = PiecePlace::Body;
        }
    }

    fn text(&mut self, text: &str) {
        self.piece(PieceContent::Text(text));
    }

    fn body(&mut self, part: &str) {
        self.piece(PieceContent::Text(part));
    }

    fn body_ends(&mut self, _message: usize) -> Result<(), RenderError> {
        self.place = PiecePlace::End;
        Ok(())
    }
}
