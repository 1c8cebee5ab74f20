//! Rendering in plain `ChatML`.

use openchatml::FrameRole;

use super::kept::{check_answers, keep};
use super::marked::Chat;
use super::message_error::content;
use super::options::MaskOptions;
use super::read::message_span;
use super::span::{Rendered, SpanClass};
use crate::Refusal;

/// Renders a conversation; `row` is the place of what is refused.
pub(super) fn render(
    chat: Chat,
    options: &MaskOptions,
    row: &[u8],
    out: &mut Rendered,
) -> Result<(), Refusal> {
    const HELP: &str = "use the chat template of the model, or another form";
    if !chat.tools.is_empty() {
        let span = logue_source::Span::new(0, row.len());
        return Err(content(
            "plain ChatML has no place for declared tools",
            HELP,
            span,
        ));
    }
    let is_native = chat.native;
    let (kept, messages) = keep(chat.messages, options);
    if !is_native {
        check_answers(&kept, &messages, row)?;
    }
    for (kept, message) in kept.iter().zip(&messages) {
        let lost = match (kept.role, kept.class) {
            (FrameRole::Developer, _) => Some("a developer's message"),
            (FrameRole::Tool, _) => Some("a reply of a tool"),
            (_, SpanClass::Call) => Some("a tool call"),
            (_, SpanClass::Reasoning) => Some("reasoning"),
            _ => None,
        };
        let role = kept.role.as_str().unwrap_or_default();
        if let Some(lost) = lost {
            let text = format!("plain ChatML has no place for {lost}");
            return Err(content(&text, HELP, message_span(row, kept.source)));
        }
        let parts = message.content.iter().map(|part| match part {
            openchatml::harmony::Content::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let Some(parts) = parts.collect::<Option<Vec<&str>>>() else {
            let text = "plain ChatML has no place for typed content";
            return Err(content(text, HELP, message_span(row, kept.source)));
        };
        out.special("<|im_start|>");
        let body = out.text.len() + role.len() + 1;
        // Tokenizers of this form encode everything between two control tokens as one text.
        out.ordinary(&format!("{role}\n{}", parts.concat()));
        let end = out.text.len();
        out.special("<|im_end|>");
        // The prompt ends with the line of the role.
        let stop = Some(kept.role == FrameRole::Assistant);
        kept.add_spans(out, (body, body, end), stop);
        out.ordinary("\n");
    }
    Ok(())
}
