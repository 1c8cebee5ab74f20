//! Writing 2.0: six tokens, two attributes, no escape.
//!
//! A frame keeps its role, recipient, name, channel and body. A reply names its tool by its role
//! (`functions.search to=assistant`). There is no escape, so a body that spells one of the six
//! tokens is refused: written, it would be another conversation (OpenChatML 2.0 §3, §6).

use super::error::ConvertError;
use super::ids::note_implied_ids;
use super::reply_order::{Ordered, Pairing, name_replies};
use super::v2_2::whole;
use super::writing::{Writing, header_for};
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::LossKind;
use crate::syntax::rules::Rules;
use crate::syntax::scanner::Scanner;
use crate::syntax::token::ControlToken;
use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole, Intent};
use crate::write::frame::{WriteError, is_safe};
use crate::write::header::header_of_any_version;
use logue_source::Span;

pub(super) fn write(transcript: &Transcript) -> Result<Writing, ConvertError> {
    let ordered = Ordered::new(transcript, Pairing::Name);
    let transcript = &*ordered.transcript;
    let mut writing = Writing::default();
    let header = header_for(transcript, "2.0", &mut writing);
    writing.text =
        header_of_any_version(&header).map_err(|reason| ConvertError::Header { reason })?;
    let mut frames = transcript.frames.clone();
    name_replies(&mut frames);
    for (index, (frame, given)) in frames.iter().zip(&transcript.frames).enumerate() {
        writing.index = index;
        if frame.name != given.name {
            writing.note(LossKind::Assigned, "its tool was assigned");
        }
        if let Some(frame) = whole(frame, &mut writing) {
            write_frame(&mut writing, &frame)?;
        }
    }
    ordered.finish(&mut writing.losses);
    note_implied_ids(&ordered.frames, Pairing::Name, &mut writing.losses);
    Ok(writing)
}

/// One frame without a header.
pub(super) fn write_one(frame: &FrameBuf) -> Result<Writing, ConvertError> {
    let mut writing = Writing::default();
    if let Some(frame) = whole(frame, &mut writing) {
        write_frame(&mut writing, &frame)?;
    }
    Ok(writing)
}

fn write_frame(writing: &mut Writing, frame: &FrameBuf) -> Result<(), ConvertError> {
    let index = writing.index;
    let refused = |reason| ConvertError::Frame { index, reason };
    let named = [("to", &frame.to), ("name", &frame.name)];
    for (field, value) in named {
        if let Some(value) = value.as_deref().filter(|value| !is_safe(value)) {
            return Err(refused(WriteError::UnsafeValue {
                field: field.to_owned(),
                value: value.to_owned(),
            }));
        }
    }
    let reply = frame.role == FrameRole::Tool;
    if reply && frame.name.is_none() {
        return Err(refused(WriteError::Missing {
            field: "name",
            needed_by: "a tool reply",
        }));
    }
    let whole = Span::new(0, frame.body.len());
    if let Some(hit) = Scanner::new(frame.body.as_bytes(), whole, Rules::V2_0).next() {
        let token = hit.token.as_str();
        return Err(ConvertError::Body { index, token });
    }
    note_losses(writing, frame);

    let out = &mut writing.text;
    out.push_str(ControlToken::Start.as_str());
    let name = frame.name.as_deref();
    let as_role = name.filter(|name| {
        reply && name.len() > FUNCTIONS.len() && name.starts_with(FUNCTIONS) && !name.contains('=')
    });
    out.push_str(match as_role {
        Some(name) => name,
        None => frame.role.as_str().unwrap_or_default(),
    });
    let attributes = [
        ("to", frame.to.as_deref()),
        ("name", name.filter(|_| as_role.is_none())),
    ];
    for (key, value) in attributes {
        if let Some(value) = value {
            out.push(' ');
            out.push_str(key);
            out.push('=');
            out.push_str(value);
        }
    }
    if let Some(channel) = frame.channel.and_then(Channel::as_str) {
        out.push_str(ControlToken::Channel.as_str());
        out.push_str(channel);
    }
    out.push_str(ControlToken::Message.as_str());
    out.push_str(&frame.body);
    out.push_str(
        frame
            .terminator
            .token()
            .unwrap_or(ControlToken::End)
            .as_str(),
    );
    out.push('\n');
    Ok(())
}

fn note_losses(writing: &mut Writing, frame: &FrameBuf) {
    let preamble = frame
        .intent
        .as_deref()
        .map(|word| Intent::parse(word.as_bytes()))
        == Some(Intent::Preamble)
        && frame.visibility().is_visible()
        && frame.effective_channel() == Channel::Commentary;
    let lost = [
        ("call_id", LossKind::IdDropped, frame.call_id.is_some()),
        (
            "content_type",
            LossKind::TypeChanged,
            frame.content_type.is_some(),
        ),
        (
            "constrain",
            LossKind::TypeChanged,
            frame.constrain.is_some(),
        ),
        (
            "unknown attributes",
            LossKind::AttributeDropped,
            !frame.attributes.is_empty(),
        ),
    ];
    for (what, kind, _) in lost.into_iter().filter(|(_, _, lost)| *lost) {
        writing.note(kind, &format!("{what} dropped"));
    }
    if preamble {
        writing.note(
            LossKind::PreambleHidden,
            "intent dropped, so the preamble is hidden",
        );
    } else if frame.intent.is_some() {
        writing.note(LossKind::IntentDropped, "intent dropped");
    }
}
