//! Channels and the content that each allows.

use logue_source::{Diagnostic, DiagnosticCode, Span, excerpt};

use super::profile::{Profile, has};
use crate::document::Document;
use crate::document::frame::Frame;
use crate::limits::MAX_QUOTED_CHARS;
use crate::syntax::scanner::opener;
use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole};
use crate::visibility::Recipient;

/// The markers of OpenChatML 2.2 §7, and those that close them in the 1.x line.
const MARKERS: [&[u8]; 6] = [
    b"<|start_reflect|>",
    b"<|start_introspect|>",
    b"<|start_reason|>",
    b"<|end_reflect|>",
    b"<|end_introspect|>",
    b"<|end_reason|>",
];

/// Checks the channel of a frame (OpenChatML 2.2 §2, §8.3).
///
/// Reports a missing required channel, a tool called on the wrong channel, and reasoning addressed
/// to a tool. A frame with an unknown channel has another finding.
pub(super) fn check_channel(
    document: &Document<'_>,
    frame: &Frame,
    profile: &Profile,
) -> Option<Diagnostic> {
    if !matches!(frame.role(), FrameRole::Assistant | FrameRole::Tool)
        || frame.channel() == Channel::Unknown
    {
        return None;
    }
    if profile.requires_channels && !frame.has_channel() {
        return Some(
            Diagnostic::error(
                DiagnosticCode::ParseChannelMissing,
                "the frame names no channel, and the document's profile requires one",
                frame.header_span(),
            )
            .with_expected("`<|channel|>` with `analysis`, `commentary` or `final`")
            .with_help("write the channel before `<|message|>`, or drop `require_channels`"),
        );
    }
    let recipient = frame.to_span()?;
    if frame.is_call() {
        // Most calls are on a channel of every tool; their kind does not matter then.
        if frame.channel() != Channel::Analysis && profile.all_calls_in(frame.channel()) {
            return None;
        }
        let tool = document.to(frame)?;
        let is_function = tool.starts_with(FUNCTIONS);
        if is_function || profile.is_builtin(&tool) {
            return check_call(frame, is_function, recipient, profile);
        }
    }
    let is_reasoning = frame.role() == FrameRole::Assistant && frame.channel() == Channel::Analysis;
    (is_reasoning && frame.recipient == Recipient::Tool).then(|| {
        Diagnostic::warning(
            DiagnosticCode::AnalysisToTool,
            "private reasoning is addressed to a tool",
            recipient,
        )
        .with_expected("no recipient on `<|channel|>analysis`")
        .with_help("tools never get reasoning: call the tool on `commentary`, or drop `to=`")
    })
}

fn check_call(
    frame: &Frame,
    is_function: bool,
    recipient: Span,
    profile: &Profile,
) -> Option<Diagnostic> {
    let (what, channels) = if is_function {
        ("a function", &profile.calls_in)
    } else {
        ("a built-in tool", &profile.builtins_in)
    };
    if has(channels, frame.channel()) {
        return None;
    }
    let channel = frame.channel().as_str().unwrap_or_default();
    let place = frame.channel_span().unwrap_or(recipient);
    let help = if is_function {
        "only built-in tools are called from `analysis`; move the call"
    } else {
        "move the call to a channel where built-in tools are called"
    };
    let allowed: Vec<_> = channels
        .iter()
        .take(3)
        .map(|each| excerpt(each.as_bytes(), MAX_QUOTED_CHARS))
        .collect();
    Some(
        Diagnostic::warning(
            DiagnosticCode::CallOutsideCommentary,
            format!("{what} is called on `{channel}`"),
            place,
        )
        .with_expected(format!(
            "`<|channel|>{}`",
            allowed.join("` or `<|channel|>")
        ))
        .with_help(help),
    )
}

/// The first marker of private reasoning in what an assistant says elsewhere.
pub(super) fn check_markers(document: &Document<'_>, frame: &Frame) -> Option<Diagnostic> {
    let elsewhere = matches!(frame.channel(), Channel::Commentary | Channel::Final);
    // The reader has been there: no marker is one of the nine tokens.
    if frame.role() != FrameRole::Assistant || !elsewhere || !frame.may_be_marked {
        return None;
    }
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
            DiagnosticCode::ReasoningOutsideAnalysis,
            "a marker of private reasoning is outside `analysis`",
            Span::new(start, end),
        )
        .with_expected("the marker on `<|channel|>analysis`")
        .with_help("move the reasoning to an `analysis` frame, which is never shown"),
    )
}
