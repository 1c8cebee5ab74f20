//! The conversion of a batch of JSON lines. It prints nothing.

use crate::commands::convert::source::Batch;
use crate::conversion::writer::{Line, Writer};

/// A batch of lines with the conversations of each.
pub(super) struct ConvertedBatch {
    pub(super) lines: Batch,
    pub(super) converted: Vec<ConvertedLine>,
    /// The text of all conversations, unless a report contains it.
    pub(super) text: String,
}

/// A line with its text in that of the batch.
pub(super) struct ConvertedLine {
    pub(super) line: Line,
    /// The end of its text in the text of the batch.
    pub(super) end: usize,
}

/// Converts a batch of JSON lines.
///
/// The texts are joined here, as several threads do this, unless a report contains them.
pub(super) fn convert(writer: &Writer, lines: Batch, is_report: bool) -> ConvertedBatch {
    let mut converted = Vec::with_capacity(lines.lines.len());
    let mut text = String::with_capacity(lines.text.len());
    for (range, _) in &lines.lines {
        let bytes = lines.text.get(range.clone()).unwrap_or_default();
        let mut line = writer.line(bytes);
        if !is_report {
            for converted in &mut line.conversations {
                if let Ok(written) = &mut converted.text {
                    text.push_str(&std::mem::take(written));
                }
            }
        }
        converted.push(ConvertedLine {
            line,
            end: text.len(),
        });
    }
    ConvertedBatch {
        lines,
        converted,
        text,
    }
}
