//! The parts of an answer of Chat Completions.

use serde_json::Value;

use crate::chat::kept_answers::KeptPart;
use crate::chat::problem::Problem;

/// A part of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Visible text.
    Text(String),
    /// The text so far is that of whole answers of the model.
    Complete,
    /// The text since the last whole answer is not part of the answer.
    Withdrawn,
    /// The end.
    End(Result<AnswerEnd, Problem>),
}

/// The end of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerEnd {
    /// The whole visible text.
    pub(crate) text: String,
    /// `stop`, `length` or `content_filter`.
    pub(super) finish: &'static str,
    pub(super) usage: Option<Value>,
    /// The signal for which the turn waits.
    pub(crate) signal_id: Option<String>,
}

/// Adds a part, and removes the unsent texts that it withdraws.
pub(super) fn add(parts: &mut Vec<Part>, part: Part) {
    if matches!(part, Part::Withdrawn) {
        while parts.pop_if(|last| matches!(last, Part::Text(_))).is_some() {}
    }
    parts.push(part);
}

impl KeptPart for Part {
    fn cut_off() -> Self {
        Self::End(Err(Problem::server_ends()))
    }

    fn end(&self) -> Option<bool> {
        match self {
            Self::End(end) => Some(end.is_ok()),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        let text = match self {
            Self::Text(text) | Self::End(Ok(AnswerEnd { text, .. })) => text.len(),
            _ => 0,
        };
        size_of::<Self>() + text
    }

    /// The end of an answer contains its whole text.
    fn from_beginning(received: &[Self]) -> Vec<Self> {
        if let Some(end @ Self::End(_)) = received.last() {
            return vec![end.clone()];
        }
        let mut parts = Vec::new();
        for part in received {
            add(&mut parts, part.clone());
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_client_receives_no_withdrawn_text() {
        let text = |text: &str| Part::Text(text.to_owned());
        let received = [
            text("one"),
            Part::Complete,
            text("ha"),
            text("lf"),
            Part::Withdrawn,
            text("two"),
        ];
        let parts = format!("{:?}", Part::from_beginning(&received));
        let expected = [text("one"), Part::Complete, Part::Withdrawn, text("two")];
        assert_eq!(parts, format!("{expected:?}"));
    }
}
