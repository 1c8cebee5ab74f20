//! The conversion of one conversation, and of one line. It prints nothing.

use logue_data::row_text;
use logue_source::Diagnostic;
use openchatml::Loss;
use openchatml::convert::{ConvertError, ConvertOptions};
use serde_json::json;

use crate::arguments::LossArgs;
use crate::conversion::form::{Conversation, Form};
use crate::conversion::in_memory::reason;
use crate::conversion::loss_policy::{FORBIDDEN, LossPolicy};
use crate::conversion::rows::read_line;

/// Converts conversations, in any thread.
pub(crate) struct Writer {
    from: Option<Form>,
    to: Form,
    pub(crate) options: ConvertOptions,
    policy: LossPolicy,
    /// Whether a textual form is written as `{"text": …}`, as in data sets.
    wraps: bool,
}

/// A conversation that was converted or refused, without its frames.
pub(crate) struct Converted {
    pub(crate) form: Form,
    /// Whether the form was named, or is certain from the content.
    pub(crate) certain: bool,
    /// Whether the conversation could not be read completely.
    pub(crate) broken: bool,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The number of its frames.
    pub(crate) frames: usize,
    pub(crate) losses: Vec<Loss>,
    pub(crate) text: Result<String, Refusal>,
}

/// The reason for an unwritten conversation.
pub(crate) enum Refusal {
    /// Any reason except losses.
    Other(String),
    /// Losses that `--strict` forbids.
    Losses,
}

impl Converted {
    /// Returns the reason for a conversation that is not written.
    pub(crate) fn reason(&self) -> Option<&str> {
        match &self.text {
            Ok(_) => None,
            Err(Refusal::Other(why)) => Some(why),
            Err(Refusal::Losses) => Some(FORBIDDEN),
        }
    }
}

/// The conversations of a line: two of a pair of preference, else one.
pub(crate) struct Line {
    /// The text of a line `{"text": …}`, which their diagnostics refer to.
    pub(crate) inner: Option<String>,
    pub(crate) conversations: Vec<Converted>,
}

impl Writer {
    /// Creates a writer of single conversations.
    pub(crate) fn new(
        from: Option<Form>,
        to: Form,
        losses: &LossArgs,
        keeps_reasoning: bool,
    ) -> Self {
        Self {
            from,
            to,
            options: ConvertOptions::default()
                .with_strict(losses.strict)
                .with_thinking(keeps_reasoning),
            policy: LossPolicy::new(losses),
            wraps: false,
        }
    }

    /// Returns a writer of conversations on one line each.
    ///
    /// A report contains the text of a textual form as it is.
    pub(crate) fn for_lines(&self, is_report: bool) -> Self {
        Self {
            options: self.options.clone().with_line(true),
            wraps: !is_report,
            ..*self
        }
    }

    /// Writes a conversation.
    pub(crate) fn write(&self, read: Conversation) -> Converted {
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

    /// Converts the conversations of a line.
    pub(crate) fn line(&self, line: &[u8]) -> Line {
        let inner = match self.from {
            None | Some(Form::Dialect(_) | Form::Chatmd) => row_text(line),
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
