//! Names that a dialect needs, or cannot hold.

use std::borrow::Cow;

use super::distinct_ids::{Pairs, distinct_ids};
use crate::dialect::Dialect;
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::messages::recipient_of;
use crate::syntax::vocabulary::FrameRole;
use crate::write::frame::is_safe;

/// The tool of a reply whose call is missing.
const UNKNOWN_TOOL: &str = "unknown_tool";

/// The transcript with ids and names that the dialect can hold, and what was changed.
pub(super) fn writable(transcript: &Transcript, to: Dialect) -> (Cow<'_, Transcript>, Vec<Loss>) {
    let (mut transcript, mut losses) = distinct_ids(transcript);
    for change in changes(&transcript.frames, to) {
        if let Some(frame) = transcript.to_mut().frames.get_mut(change.index) {
            frame.name = change.name;
        }
        let target = LossTarget::Frame(change.index);
        losses.push(Loss::new(target, change.kind, change.text));
    }
    (transcript, losses)
}

/// A change of a name.
struct Change {
    index: usize,
    name: Option<String>,
    kind: LossKind,
    text: String,
}

fn changes(frames: &[FrameBuf], to: Dialect) -> Vec<Change> {
    let named_replies = matches!(to, Dialect::V2_2 | Dialect::V2_0);
    let is_nameless = |frame: &FrameBuf| frame.role == FrameRole::Tool && frame.name.is_none();
    let pairs = (named_replies && frames.iter().any(is_nameless)).then(|| Pairs::new(frames));
    let mut changes = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        match (frame.role, &frame.name) {
            (FrameRole::Tool, None) if named_replies => {
                let call = pairs.as_ref().and_then(|pairs| pairs.answers.get(&index));
                let call = call.and_then(|call| frames.get(*call));
                let tool = call.and_then(|call| call.to.clone());
                let text = match tool {
                    Some(_) => "its tool was assigned".to_owned(),
                    None => format!("the reply has no call, so its tool is named `{UNKNOWN_TOOL}`"),
                };
                let name = tool.unwrap_or_else(|| recipient_of(UNKNOWN_TOOL));
                changes.push(Change {
                    index,
                    name: Some(name),
                    kind: LossKind::Assigned,
                    text,
                });
            }
            (FrameRole::Tool, _) => {}
            (_, Some(name)) if !is_writable(name, to) => changes.push(Change {
                index,
                name: None,
                kind: LossKind::NameDropped,
                text: "a name that a header cannot contain dropped".to_owned(),
            }),
            _ => {}
        }
    }
    changes
}

fn is_writable(name: &str, to: Dialect) -> bool {
    is_safe(name) && (to != Dialect::Harmony || !name.contains('='))
}
