//! Marks of rows: what is trained of a message.

use std::ops::Range;

use logue_source::{DiagnosticCode, Span};

use super::marked::Marked;
use super::row::{Mark, RawDetail, RawMarks, RawMessage, RawRow};
use crate::Refusal;

/// The keys of messages that mark what is trained.
///
/// A key that is present and not in this set refuses its row, because a mask that ignores it is
/// wrong. `train` and `weight` of parts of a content are always read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "a set of keys")]
pub struct MarkKeys {
    /// `weight`, 0 or 1.
    pub weight: bool,
    /// `train`, a flag.
    pub train: bool,
    /// `train_detail`, ranges of code points with an included end.
    pub train_detail: bool,
    /// `loss`, a flag.
    pub loss: bool,
    /// `loss_scale`, 0 or 1.
    pub loss_scale: bool,
    /// `loss_weight`, 0 or 1.
    pub loss_weight: bool,
    /// Whether the keys that are not in the set are ignored.
    pub ignore_others: bool,
}

impl MarkKeys {
    /// No key; a row that has one is refused.
    pub const NONE: Self = Self {
        weight: false,
        train: false,
        train_detail: false,
        loss: false,
        loss_scale: false,
        loss_weight: false,
        ignore_others: false,
    };

    /// Adds a key by its name, or `ignore`; returns whether the name is known.
    pub fn add(&mut self, name: &str) -> bool {
        let field = match name {
            "weight" => &mut self.weight,
            "train" => &mut self.train,
            "train_detail" => &mut self.train_detail,
            "loss" => &mut self.loss,
            "loss_scale" => &mut self.loss_scale,
            "loss_weight" => &mut self.loss_weight,
            "ignore" => &mut self.ignore_others,
            _ => return false,
        };
        *field = true;
        true
    }
}

impl Default for MarkKeys {
    /// The weights of OpenAI.
    fn default() -> Self {
        Self {
            weight: true,
            ..Self::NONE
        }
    }
}

/// The reason why a mark refuses its row.
pub(super) struct MarkError {
    message: String,
    help: &'static str,
}

impl MarkError {
    pub(super) fn new(message: String, help: &'static str) -> Self {
        Self { message, help }
    }

    pub(super) fn into_refusal(self, span: Span) -> Refusal {
        Refusal::new(DiagnosticCode::DataMaskMark, self.message, span).with_help(self.help)
    }
}

/// Returns what a message says about its training.
pub(super) fn train_of(raw: &RawMessage<'_>, keys: MarkKeys) -> Result<Option<bool>, MarkError> {
    let train = train_by(raw.marks(), keys)?;
    if raw.train_detail.is_some() && !keys.train_detail && !keys.ignore_others {
        return Err(unread("train_detail"));
    }
    Ok(train)
}

/// Returns whether the marks beside the messages allow the training of the row.
pub(super) fn row_train(raw: &RawRow<'_>, keys: MarkKeys) -> Result<bool, MarkError> {
    Ok(train_by(raw.marks(), keys)?.unwrap_or(true))
}

/// Returns what the marks of a row or message say about its training.
pub(super) fn train_by(raw: RawMarks, keys: MarkKeys) -> Result<Option<bool>, MarkError> {
    let marks = [
        ("weight", raw.weight, keys.weight),
        ("train", raw.train, keys.train),
        ("loss", raw.loss, keys.loss),
        ("loss_scale", raw.loss_scale, keys.loss_scale),
        ("loss_weight", raw.loss_weight, keys.loss_weight),
    ];
    let mut train = None;
    for (name, mark, is_read) in marks {
        let Some(mark) = mark else {
            continue;
        };
        if !is_read {
            if keys.ignore_others {
                continue;
            }
            return Err(unread(name));
        }
        let mark = flag(name, mark)?;
        if train.is_some_and(|other| other != mark) {
            return Err(MarkError::new(
                format!("`{name}` contradicts another mark beside it"),
                "remove one of the two, or name the key that counts with --marks KEY,ignore",
            ));
        }
        train = Some(mark);
    }
    Ok(train)
}

/// Returns the flag of a mark.
pub(super) fn flag(name: &str, mark: Mark) -> Result<bool, MarkError> {
    match mark {
        Mark::Train => Ok(true),
        Mark::Skip => Ok(false),
        Mark::Other => Err(MarkError::new(
            format!("`{name}` is neither 0 nor 1"),
            "labels train a token or not; replace the value by 0 or 1",
        )),
    }
}

fn unread(name: &str) -> MarkError {
    MarkError::new(
        format!("`{name}` marks what is trained, and is not read"),
        "read it with --marks KEY, such as --marks weight,train, or add `ignore` to the list",
    )
}

/// Sets the ranges of `train_detail`, which count code points and include their end.
pub(super) fn set_details(marked: &mut Marked, details: &[RawDetail]) -> Result<(), MarkError> {
    let text = marked.text();
    let mut starts = text.char_indices().map(|(at, _)| at);
    // The place of the next code point, and its offset in bytes.
    let mut next = 0;
    let mut last = 0;
    for detail in details {
        if detail.begin_offset < last || detail.end_offset < detail.begin_offset {
            return Err(invalid_range());
        }
        let start = starts.nth(detail.begin_offset - next);
        let start = start.ok_or_else(invalid_range)?;
        next = detail.begin_offset + 1;
        let mut after = starts.clone();
        let length = detail.end_offset - detail.begin_offset;
        let end = after.nth(length);
        if end.is_none() && text.get(start..).map_or(0, |rest| rest.chars().count()) != length + 1 {
            return Err(invalid_range());
        }
        let range: Range<usize> = start..end.unwrap_or(text.len());
        last = detail.end_offset + 1;
        marked.details.push((range, detail.train));
    }
    Ok(())
}

fn invalid_range() -> MarkError {
    MarkError::new(
        "`train_detail` is not a list of ranges of the text, in order and without overlaps".into(),
        "count offsets in code points, with the last one of a range included",
    )
}
