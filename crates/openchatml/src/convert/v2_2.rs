//! Writing 2.2: every field has a place; a frame that is not whole has none.

use super::error::ConvertError;
use super::writing::{Writing, header_for};
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::LossKind;
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};
use crate::write::frame::write_frame;
use crate::write::header::write_header;

pub(super) fn write(transcript: &Transcript) -> Result<Writing, ConvertError> {
    let mut writing = Writing::default();
    let header = header_for(transcript, "2.2", &mut writing);
    writing.text = write_header(&header).map_err(|reason| ConvertError::Header { reason })?;
    for (index, frame) in transcript.frames.iter().enumerate() {
        writing.index = index;
        let Some(frame) = whole(frame, &mut writing) else {
            continue;
        };
        write_frame(&mut writing.text, &frame)
            .map_err(|reason| ConvertError::Frame { index, reason })?;
    }
    Ok(writing)
}

/// Returns the frame with a terminator that may end it.
///
/// Returns `None` and adds a note for content that no dialect can write: text outside every frame,
/// a truncated frame, an unknown role or channel.
pub(super) fn whole(frame: &FrameBuf, writing: &mut Writing) -> Option<FrameBuf> {
    let why = if frame.role == FrameRole::Other {
        "its role is not known"
    } else if frame.channel == Some(Channel::Unknown) {
        "its channel is not known"
    } else if frame.terminator == Terminator::None {
        "it was cut"
    } else {
        let mut frame = frame.clone();
        let final_answer =
            frame.role == FrameRole::Assistant && frame.effective_channel() == Channel::Final;
        let fits = match frame.terminator {
            Terminator::Call => frame.is_call(),
            Terminator::Return => final_answer,
            Terminator::End | Terminator::None => true,
        };
        if !fits {
            writing.note(
                LossKind::TerminatorChanged,
                "its terminator becomes `<|end|>`, because it may not end this frame",
            );
            frame.terminator = Terminator::End;
        }
        return Some(frame);
    };
    writing.note(
        LossKind::MessageDropped,
        &format!("left out, because {why}"),
    );
    None
}
