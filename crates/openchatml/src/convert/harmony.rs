//! Harmony, by way of its own conversations.
//!
//! Text of Harmony has no escape that a model knows, so a body that spells a control token is
//! refused. Reasoning is kept: a conversion is not a prompt.

use super::error::ConvertError;
use super::ids::note_implied_ids;
use super::reply_order::{Pairing, completed};
use super::result::ReadResult;
use super::writing::{Writing, note_terminators};
use crate::dialect::Dialect;
use crate::document::owned::{FrameBuf, Transcript};
use crate::harmony::{self, Conversation, Form, Reasoning, RenderOptions};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::messages::Unpictured;
use crate::syntax::json::is_json;
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};

pub(super) fn read(bytes: &[u8], certain: bool) -> ReadResult {
    let document = harmony::read(bytes, &harmony::HarmonyReadOptions::default());
    let (transcript, losses) = document.to_transcript();
    ReadResult {
        transcript,
        dialect: Dialect::Harmony,
        certain,
        diagnostics: document.diagnostics,
        losses,
    }
}

pub(super) fn write(transcript: &Transcript) -> Result<Writing, ConvertError> {
    let mut writing = Writing::default();
    let last = transcript.frames.last();
    let returned = last.is_some_and(|frame| frame.terminator == Terminator::Return);
    let (form, answer) = if returned {
        (Form::Training, Terminator::Return)
    } else {
        (Form::Conversation, Terminator::End)
    };
    let is_known = |_: usize, frame: &FrameBuf| {
        frame.role != FrameRole::Other && frame.channel != Some(Channel::Unknown)
    };
    note_terminators(&transcript.frames, answer, is_known, &mut writing);
    let (conversation, losses) = conversation(transcript);
    writing.losses.extend(losses);
    let options = RenderOptions::default().with_reasoning(Reasoning::Keep);
    writing.text = conversation
        .to_text(form, &options)
        .map_err(|reason| ConvertError::Message { reason })?;
    Ok(writing)
}

/// Converts a transcript to a conversation of Harmony, with the losses of [`write`](super::write()).
///
/// Ids that reading restores from the order are notes. The ends of answers are those of the form
/// in which the conversation is rendered, and not among the losses. Linear in the transcript.
///
/// ```
/// use openchatml::{FrameBuf, LossKind, Transcript, convert};
///
/// let frames = vec![FrameBuf::call("functions.f", "call_1", "{}")];
/// let (conversation, losses) = convert::harmony_conversation(&Transcript::new(frames));
/// assert_eq!(conversation.messages.len(), 1);
/// assert_eq!(losses[0].kind, LossKind::Implied);
/// ```
pub fn conversation(transcript: &Transcript) -> (Conversation, Vec<Loss>) {
    // A part of a result must not count as a reply of its own.
    let unpictured = Unpictured::new(transcript);
    let transcript: &Transcript = &unpictured.transcript;
    let mut writing = Writing::default();
    if let Some(header) = &transcript.header {
        writing.note_header(header, &["2.0", "2.2"]);
    }
    note_types(&transcript.frames, &mut writing);
    let (conversation, losses) = Conversation::from_transcript(transcript);
    // The header was looked at above: a version alone is nothing that is lost.
    let is_of_header =
        |loss: &Loss| loss.target == LossTarget::Transcript && loss.kind == LossKind::HeaderDropped;
    writing
        .losses
        .extend(losses.into_iter().filter(|loss| !is_of_header(loss)));
    let calls = completed(&transcript.frames);
    note_implied_ids(&calls, Pairing::Name, &mut writing.losses);
    unpictured.finish(&mut writing.losses);
    (conversation, writing.losses)
}

/// Notes the types that read back in the other place: Harmony has one word for both, and only JSON
/// that is JSON is taken for what the body must be.
fn note_types(frames: &[FrameBuf], writing: &mut Writing) {
    for (index, frame) in frames.iter().enumerate() {
        writing.index = index;
        let word = frame.constrain.as_deref().or(frame.content_type.as_deref());
        let must = word == Some("json") && is_json(&frame.body);
        match (frame.constrain.is_some(), must) {
            (true, false) => {
                writing.note(LossKind::TypeChanged, "constrain becomes a content type");
            }
            (false, true) => writing.note(
                LossKind::TypeChanged,
                "the content type becomes what the body must be",
            ),
            _ => {}
        }
    }
}
