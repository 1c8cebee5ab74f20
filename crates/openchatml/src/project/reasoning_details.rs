//! Reasoning of a message as a list of parts, with the proofs of its provider.

use logue_message::ContentBlock;

use super::node::{Kind, Node, Object};
use super::reading::Reading;
use crate::loss::LossKind;

/// The formats whose proofs the blocks of Anthropic Messages hold.
const SIGNED: &str = "anthropic";

/// Reads the parts: texts and summaries as reasoning, proofs of Anthropic as such.
///
/// `text` is the reasoning of another key of the message. Where both have words and differ, the other key
/// counts, and the words of the parts are listed as lost. So are proofs of other providers.
pub(super) fn read(
    details: Node<'_>,
    text: Option<&str>,
    reading: &mut Reading,
) -> Result<Vec<ContentBlock>, ()> {
    if details.kind() != Kind::Array {
        reading.note(LossKind::PartDropped, "`reasoning_details` dropped");
        return Ok(Vec::new());
    }
    let mut blocks = Vec::new();
    for part in details.items() {
        let part = reading
            .object(part, "the part of `reasoning_details`")
            .ok_or(())?;
        blocks.extend(block(&part, reading)?);
    }
    let words = blocks.iter().filter_map(|block| match block {
        ContentBlock::Thinking { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let words: Vec<&str> = words.filter(|words| !words.is_empty()).collect();
    let is_other = text.is_some_and(|text| {
        !words.is_empty() && !["", "\n", "\n\n"].iter().any(|it| words.join(it) == text)
    });
    if is_other {
        let note = "`reasoning_details` dropped, because other reasoning is beside it";
        reading.note(LossKind::TextDropped, note);
        return Ok(Vec::new());
    }
    Ok(blocks)
}

fn block(part: &Object<'_>, reading: &mut Reading) -> Result<Option<ContentBlock>, ()> {
    let kind = reading.required(part, "type")?;
    let key = match kind.as_str() {
        "reasoning.text" => "text",
        "reasoning.summary" => "summary",
        "reasoning.encrypted" => "data",
        _ => {
            let text = format!("a part of the type {kind:?} dropped");
            reading.note(LossKind::PartDropped, text);
            return Ok(None);
        }
    };
    reading.note_unknown(part, &["type", "format", "index", "id", "signature", key]);
    if part.get("id").is_some() {
        reading.note(LossKind::IdDropped, "the id of a part of reasoning dropped");
    }
    let format = reading.text(part, "format")?;
    let is_signed = format.is_some_and(|format| format.starts_with(SIGNED));
    if key == "data" {
        let data = reading.required(part, key)?;
        if is_signed {
            return Ok(Some(ContentBlock::RedactedThinking { data }));
        }
        let text = "reasoning that only its provider can read dropped";
        reading.note(LossKind::SignatureDropped, text);
        return Ok(None);
    }
    let signature = reading.text(part, "signature")?;
    if signature.is_some() && !is_signed {
        reading.note(LossKind::SignatureDropped, "a signature dropped");
    }
    Ok(Some(ContentBlock::Thinking {
        text: reading.text(part, key)?.unwrap_or_default(),
        signature: signature.filter(|_| is_signed),
        id: None,
    }))
}
