//! Parts of answers in a history that later answers supersede.
//!
//! A history is only appended to. When a turn continues after an interrupted answer, its next answer
//! directly follows the part. Readers of a history, and requests to a model, contain that answer
//! alone.

use crate::{ChatMessage, Role};

impl ChatMessage {
    /// Returns whether the directly following message supersedes this one.
    ///
    /// An answer supersedes the part of an interrupted answer before it. A part before another
    /// message of a user stays.
    pub fn is_superseded_by(&self, next: &Self) -> bool {
        self.interrupted && next.role == Role::Assistant
    }
}

/// Removes the parts of answers that later answers supersede.
///
/// # Examples
/// ```
/// use logue_message::{ChatMessage, without_superseded};
///
/// let history = [
///     ChatMessage::user("go"),
///     ChatMessage::interrupted("half an"),
///     ChatMessage::assistant("half an answer"),
/// ];
/// let current: Vec<_> = without_superseded(&history).collect();
/// assert_eq!(current, [&history[0], &history[2]]);
/// ```
pub fn without_superseded<'a>(
    messages: impl IntoIterator<Item = &'a ChatMessage>,
) -> impl Iterator<Item = &'a ChatMessage> {
    let mut messages = messages.into_iter().peekable();
    std::iter::from_fn(move || {
        loop {
            let message = messages.next()?;
            let next = messages.peek();
            if !next.is_some_and(|next| message.is_superseded_by(next)) {
                return Some(message);
            }
        }
    })
}
