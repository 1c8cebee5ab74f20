//! Reading of each JSON form.

use logue_source::Span;

use super::format::{JsonFormat, Projected};
use super::long_values::LongValues;
use super::node::Node;
use super::outline::{recognize_values, unpacked};
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

/// Recognizes a text and reads its conversations, as [`recognize`](super::recognize) and [`read_all`].
///
/// Parses the text once. `None` for invalid JSON or an unknown format. Linear in the text.
///
/// ```
/// use openchatml::convert::ConvertOptions;
/// use openchatml::project::{JsonFormat, read_recognized};
///
/// let text = br#"{"conversations": [{"from": "human", "value": "Hi"}]}"#;
/// let (format, read) = read_recognized(text, &ConvertOptions::default()).unwrap();
/// assert_eq!((format, read.len()), (JsonFormat::ShareGpt, 1));
/// ```
pub fn read_recognized(
    text: &[u8],
    options: &ConvertOptions,
) -> Option<(JsonFormat, Vec<Projected>)> {
    let values = Node::values(text, Span::new(0, text.len())).ok()?;
    let long = LongValues::of(&values);
    let values: Vec<Node<'_>> = values.iter().map(|node| node.with_long(&long)).collect();
    let format = recognize_values(&values).ok()?;
    Some((format, read_nodes(&values, format, options)))
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
            let text = "the text is left out, because it is not JSON";
            let target = LossTarget::Transcript;
            return vec![Projected {
                diagnostics: vec![*found],
                losses: vec![Loss::new(target, LossKind::MessageDropped, text)],
                ..Projected::default()
            }];
        }
    };
    let long = LongValues::of(&values);
    let values: Vec<Node<'_>> = values.iter().map(|node| node.with_long(&long)).collect();
    read_nodes(&values, from, options)
}

fn read_nodes(values: &[Node<'_>], from: JsonFormat, options: &ConvertOptions) -> Vec<Projected> {
    if let [node] = values
        && let Some(row) = unpacked(*node)
    {
        return read_unpacked(&row, node.span(), from, options);
    }
    match values {
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
