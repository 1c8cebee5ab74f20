//! Reading of each JSON form.

use logue_source::Span;

use super::format::{JsonFormat, Projected};
use super::node::Node;
use super::outline::unpacked;
use super::{
    anthropic_read, frames_read, harmony_read, history_read, messages_read, responses_read, rows,
    sharegpt_read,
};
use crate::convert::ConvertOptions;
use crate::loss::{Loss, LossKind, LossTarget};

/// Reads one conversation: an array of messages, an object that holds one under `messages`
/// (`conversations` in `ShareGPT`), one message, or lines of messages. Of a pair, the first one.
/// Never fails: what is wrong is a diagnostic with its place. Linear in the text, without recursion.
pub fn read(text: &[u8], from: JsonFormat, options: &ConvertOptions) -> Projected {
    read_part(text, Span::new(0, text.len()), from, options)
}

/// [`read()`] for a part that [`conversations`](super::conversations) found; places count in the whole text.
pub fn read_part(text: &[u8], part: Span, from: JsonFormat, options: &ConvertOptions) -> Projected {
    let read = read_all(text, part, from, options);
    read.into_iter().next().unwrap_or_default()
}

/// As [`read_part`], with both conversations of a pair. The header of each has its `label`.
pub fn read_all(
    text: &[u8],
    part: Span,
    from: JsonFormat,
    options: &ConvertOptions,
) -> Vec<Projected> {
    let values = match Node::values(text, part) {
        Ok(values) => values,
        Err(found) => {
            return vec![Projected {
                diagnostics: vec![*found],
                ..Projected::default()
            }];
        }
    };
    if let [node] = values.as_slice()
        && let Some(row) = unpacked(*node)
    {
        return read_unpacked(&row, node.span(), from, options);
    }
    match values.as_slice() {
        [node] if from == JsonFormat::Preference => rows::read_pair(*node, options),
        values => vec![read_values(values, from, options)],
    }
}

/// Reads a row whose messages were text, at its place in the file.
fn read_unpacked(
    row: &str,
    place: Span,
    from: JsonFormat,
    options: &ConvertOptions,
) -> Vec<Projected> {
    let whole = Span::new(0, row.len());
    let mut read = read_all(row.as_bytes(), whole, from, options);
    for conversation in &mut read {
        for found in &mut conversation.diagnostics {
            found.primary = place;
        }
        let text = "the text of the messages is read as a list";
        let loss = Loss::new(LossTarget::Transcript, LossKind::SpellingChanged, text);
        conversation.losses.insert(0, loss);
    }
    read
}

pub(super) fn read_values(
    values: &[Node<'_>],
    from: JsonFormat,
    options: &ConvertOptions,
) -> Projected {
    match (from, values) {
        (JsonFormat::Json, values) if history_read::is_history(values) => {
            history_read::read(values)
        }
        (JsonFormat::Json | JsonFormat::Json2_0, values) => frames_read::read(values),
        (JsonFormat::ShareGpt, values) => sharegpt_read::read(values),
        (JsonFormat::Anthropic, values) => anthropic_read::read(values),
        (JsonFormat::Responses, values) => responses_read::read(values),
        (JsonFormat::HarmonyJson, values) => harmony_read::read(values),
        (JsonFormat::Instruction, [node]) => rows::read_instruction(*node, options),
        _ => messages_read::read(values),
    }
}
