//! The partial output of a writer.

use super::error::ConvertError;
use super::options::ConvertOptions;
use super::result::WriteResult;
use crate::document::owned::{FrameBuf, HeaderBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};

/// A text that is being written, and what it could not hold.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    pub(crate) text: String,
    pub(crate) losses: Vec<Loss>,
    /// The frame that is being written.
    pub(crate) index: usize,
}

impl Writing {
    /// Notes a loss of the frame that is being written.
    pub(crate) fn note(&mut self, kind: LossKind, text: &str) {
        let target = LossTarget::Frame(self.index);
        self.losses.push(Loss::new(target, kind, text));
    }

    /// Notes a loss of the transcript as a whole.
    pub(crate) fn note_whole(&mut self, kind: LossKind, text: &str) {
        let target = LossTarget::Transcript;
        self.losses.push(Loss::new(target, kind, text));
    }

    /// Notes everything of a header that a form without headers has no place for. The versions
    /// `known` are those of dialects and go without saying.
    pub(crate) fn note_header(&mut self, header: &HeaderBuf, known: &[&str]) {
        let version = header.version.as_str();
        if !version.is_empty() && !known.contains(&version) {
            self.note_whole(
                LossKind::HeaderDropped,
                &format!("version {version} dropped"),
            );
        }
        if header.model.is_some() {
            self.note_whole(LossKind::SettingDropped, "model dropped");
        }
        if !header.generation_settings.is_empty() {
            self.note_whole(LossKind::SettingDropped, "generation_settings dropped");
        }
        for key in header.extra.keys() {
            self.note_whole(
                LossKind::HeaderDropped,
                &format!("the key {key:?} of the header dropped"),
            );
        }
    }
}

/// Notes each answer whose terminator reading cannot restore.
///
/// Reading gives `<|end|>`, and `last_answer` where the last frame that the form keeps is an answer. A
/// message does not state whether it ended a turn.
pub(crate) fn note_terminators(
    frames: &[FrameBuf],
    last_answer: Terminator,
    is_kept: impl Fn(usize, &FrameBuf) -> bool,
    writing: &mut Writing,
) {
    let kept = frames.iter().enumerate();
    let kept = kept.filter(|(index, frame)| is_kept(*index, frame));
    let last = kept.clone().last().map(|(index, _)| index);
    for (index, frame) in kept {
        let answer =
            frame.role == FrameRole::Assistant && frame.effective_channel() == Channel::Final;
        let usual = if answer && Some(index) == last {
            last_answer
        } else {
            Terminator::End
        };
        let other = match frame.terminator {
            Terminator::End | Terminator::Return => frame.terminator != usual,
            Terminator::Call => !frame.is_call(),
            Terminator::None => false,
        };
        if other {
            writing.index = index;
            writing.note(LossKind::TerminatorChanged, "its terminator dropped");
        }
    }
}

/// Makes dropped reasoning a loss where the options keep reasoning.
///
/// `frames` are those that the losses refer to.
pub(crate) fn note_kept_reasoning(
    frames: &[FrameBuf],
    options: &ConvertOptions,
    losses: &mut [Loss],
) {
    if !options.thinking {
        return;
    }
    let is_reasoning = |frame: &FrameBuf| {
        frame.role == FrameRole::Assistant && frame.effective_channel() == Channel::Analysis
    };
    for loss in losses {
        let of_assistant = match loss.target {
            LossTarget::Frame(index) => frames.get(index).is_some_and(is_reasoning),
            LossTarget::Message(_) => true,
            LossTarget::Transcript => false,
        };
        if loss.kind == LossKind::HiddenOmitted && of_assistant {
            loss.kind = LossKind::TextDropped;
        }
    }
}

/// The result of a writer, unless it lost something and must not.
pub(crate) fn finish(
    writing: Writing,
    options: &ConvertOptions,
) -> Result<WriteResult, ConvertError> {
    let Writing { text, losses, .. } = writing;
    if options.refuses(&losses) {
        return Err(ConvertError::Losses(losses));
    }
    Ok(WriteResult { text, losses })
}

/// The document header for `version`.
pub(super) fn header_for(
    transcript: &Transcript,
    version: &str,
    writing: &mut Writing,
) -> HeaderBuf {
    let mut header = transcript.header.clone().unwrap_or_default();
    let older = ["", "2.0", "2.2"].contains(&header.version.as_str());
    if !older {
        writing.note_whole(
            LossKind::HeaderDropped,
            &format!("version {} becomes {version}", header.version),
        );
    }
    version.clone_into(&mut header.version);
    header
}
