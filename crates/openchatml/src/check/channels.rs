//! Channels and what may stand on them.

use logue_source::{Code, Diagnostic, Span};
use serde_json::Value;

use crate::document::Document;
use crate::frame::Frame;
use crate::token::opener;
use crate::words::{Channel, FUNCTIONS, Role};

/// The markers of OpenChatML 2.2 §7, and those that close them in the 1.x line.
const MARKERS: [&[u8]; 6] = [
    b"<|start_reflect|>",
    b"<|start_introspect|>",
    b"<|start_reason|>",
    b"<|end_reflect|>",
    b"<|end_introspect|>",
    b"<|end_reason|>",
];

/// Whether the document's profile wants a channel on every frame of an assistant or tool
/// (OpenChatML 2.2 §2).
pub(super) fn are_required(document: &Document<'_>) -> bool {
    let profiles = document.header().and_then(|header| header.get("profiles"));
    let Some(harmony) = profiles.and_then(|profiles| profiles.get("harmony")) else {
        return false;
    };
    let wanted = match harmony.get("require_channels") {
        Some(Value::Array(channels)) => !channels.is_empty(),
        Some(Value::Bool(wanted)) => *wanted,
        _ => false,
    };
    wanted && harmony.get("enabled") != Some(&Value::Bool(false))
}

/// A channel that is required and missing, or a function that is called on the wrong one
/// (OpenChatML 2.2 §8.3). A frame whose channel is not understood has another finding.
pub(super) fn check_channel(
    document: &Document<'_>,
    frame: &Frame,
    required: bool,
) -> Option<Diagnostic> {
    if !matches!(frame.role(), Role::Assistant | Role::Tool) || frame.channel() == Channel::Unknown
    {
        return None;
    }
    if required && !frame.has_channel() {
        return Some(
            Diagnostic::error(
                Code::ParseChannelMissing,
                "the frame names no channel, and the document's profile requires one",
                frame.header_span(),
            )
            .with_expected("`<|channel|>` with `analysis`, `commentary` or `final`")
            .with_help("write the channel before `<|message|>`, or drop `require_channels`"),
        );
    }
    let recipient = frame.to_span().filter(|_| frame.is_call())?;
    let function = recipient
        .bytes(document.source())
        .starts_with(FUNCTIONS.as_bytes());
    if !function || frame.channel() == Channel::Commentary {
        return None;
    }
    let place = frame.channel_span().unwrap_or(recipient);
    let channel = frame.channel().as_str().unwrap_or_default();
    Some(
        Diagnostic::warning(
            Code::CallOutsideCommentary,
            format!("a function is called on `{channel}`"),
            place,
        )
        .with_expected("`<|channel|>commentary`")
        .with_help("only built-in tools are called from `analysis`; move the call"),
    )
}

/// The first marker of private reasoning in what an assistant says elsewhere.
pub(super) fn check_markers(document: &Document<'_>, frame: &Frame) -> Option<Diagnostic> {
    let elsewhere = matches!(frame.channel(), Channel::Commentary | Channel::Final);
    if frame.role() != Role::Assistant || !elsewhere {
        return None;
    }
    let written = frame.body_span().bytes(document.source());
    opener().find(written)?;
    let body = document.body(frame);
    let (offset, marker) = opener().find_iter(&body).find_map(|at| {
        let rest = body.get(at..)?;
        let marker = MARKERS.iter().find(|marker| rest.starts_with(marker))?;
        Some((at, marker))
    })?;
    let start = document.body_place(frame, offset);
    let end = document.body_place(frame, offset + marker.len() - 1) + 1;
    Some(
        Diagnostic::warning(
            Code::ReasoningOutsideAnalysis,
            "a marker of private reasoning stands outside `analysis`",
            Span::new(start, end),
        )
        .with_expected("the marker on `<|channel|>analysis`")
        .with_help("move the reasoning to an `analysis` frame, which is never shown"),
    )
}
