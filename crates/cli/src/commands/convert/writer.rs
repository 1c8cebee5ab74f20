//! The conversion of one conversation, and of a batch of lines. It prints nothing.

use openchatml::Loss;
use openchatml::convert::{ConvertError, ConvertOptions};
use serde_json::json;

use crate::arguments::ConvertArgs;
use crate::commands::convert::report::{Converted, Refusal};
use crate::commands::convert::source::Batch;
use crate::conversion::form::{Conversation, Form};
use crate::conversion::in_memory::reason;
use crate::conversion::loss_policy::LossPolicy;
use crate::conversion::rows::{read_line, text_of};

/// Converts conversations, in any thread.
pub(super) struct Writer {
    from: Option<Form>,
    to: Form,
    pub(super) options: ConvertOptions,
    policy: LossPolicy,
    /// Whether a textual form is written as `{"text": …}`, as in data sets.
    wraps: bool,
    /// Whether a report contains the texts.
    is_report: bool,
}

/// A batch of lines with the conversations of each.
pub(super) struct ConvertedBatch {
    pub(super) lines: Batch,
    pub(super) converted: Vec<Line>,
    /// The text of all conversations, unless a report contains it.
    pub(super) text: String,
}

/// The conversations of a line: two of a pair of preference, else one.
pub(super) struct Line {
    /// The text of a line `{"text": …}`, which their diagnostics refer to.
    pub(super) inner: Option<String>,
    pub(super) conversations: Vec<Converted>,
    /// The end of its text in the text of the batch.
    pub(super) end: usize,
}

impl Writer {
    pub(super) fn new(arguments: &ConvertArgs) -> Self {
        Self {
            from: arguments.from,
            to: arguments.to,
            options: ConvertOptions::default()
                .with_strict(arguments.losses.strict)
                .with_thinking(arguments.keep_reasoning),
            policy: LossPolicy::new(&arguments.losses),
            wraps: false,
            is_report: false,
        }
    }

    /// Returns a writer of conversations on one line each.
    ///
    /// A report contains the text of a textual form as it is.
    pub(super) fn for_lines(&self, is_report: bool) -> Self {
        Self {
            options: self.options.clone().with_line(true),
            wraps: !is_report,
            is_report,
            ..*self
        }
    }

    /// Writes a conversation.
    pub(super) fn write(&self, read: Conversation) -> Converted {
        let mut losses = read.losses;
        let refused = |why: &str| Err(Refusal::Other(why.to_owned()));
        let refusal = self.policy.refusal(read.broken, &read.diagnostics);
        let text = if let Some(why) = refusal {
            refused(why)
        } else {
            match self.to.write(&read.transcript, &self.options) {
                Ok(written) => {
                    losses.extend(written.losses);
                    if self.policy.refuses(&losses) {
                        Err(Refusal::Losses)
                    } else {
                        Ok(self.as_line(read.variables.restore(written.text)))
                    }
                }
                Err(ConvertError::Losses(more)) => {
                    losses.extend::<Vec<Loss>>(more);
                    Err(Refusal::Losses)
                }
                Err(error) => refused(&reason(&error)),
            }
        };
        Converted {
            form: read.form,
            certain: read.certain,
            broken: read.broken,
            diagnostics: read.diagnostics,
            frames: read.transcript.frames.len(),
            losses,
            text,
        }
    }

    /// Converts a batch of JSON lines.
    ///
    /// The texts are joined here, as several threads do this.
    pub(super) fn batch(&self, lines: Batch) -> ConvertedBatch {
        let mut converted = Vec::with_capacity(lines.lines.len());
        let mut text = String::with_capacity(lines.text.len());
        for (range, _) in &lines.lines {
            let line = lines.text.get(range.clone()).unwrap_or_default();
            let mut line = self.line(line);
            if !self.is_report {
                for converted in &mut line.conversations {
                    if let Ok(written) = &mut converted.text {
                        text.push_str(&std::mem::take(written));
                    }
                }
            }
            line.end = text.len();
            converted.push(line);
        }
        ConvertedBatch {
            lines,
            converted,
            text,
        }
    }

    fn line(&self, line: &[u8]) -> Line {
        let inner = match self.from {
            None | Some(Form::Dialect(_) | Form::Chatmd) => text_of(line),
            Some(_) => None,
        };
        let bytes = inner.as_deref().map_or(line, str::as_bytes);
        let read = match self.from {
            Some(form) => form.read_all(bytes, true, None, &self.options),
            None => read_line(bytes, &self.options),
        };
        let mut conversations = Vec::with_capacity(read.len());
        for read in read {
            let converted = self.write(read);
            let is_end = converted.text.is_err() && self.policy.strict.is_some();
            conversations.push(converted);
            if is_end {
                break;
            }
        }
        Line {
            inner,
            conversations,
            end: 0,
        }
    }

    /// Returns a conversation as one line of JSON, if lines are written.
    fn as_line(&self, text: String) -> String {
        match self.to {
            Form::Projection(_) => text,
            _ if self.wraps => format!("{}\n", json!({ "text": text })),
            _ => text,
        }
    }
}
