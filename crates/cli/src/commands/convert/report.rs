//! Reports on a conversion: losses, findings, refusals.

use logue_source::{Diagnostic, Origin, Source, escape_line, escape_untrusted};
use openchatml::{Loss, LossTarget};
use serde_json::{Value, json};

use crate::conversion::form::{Conversation, Form};
use crate::counted::{counted, counted_as};
use crate::exit::CliError;
use crate::finding::to_json;
use crate::terminal::{error_style, print, print_error, write_failed};

/// The position of a conversation in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConversationRef<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a [u8],
    pub(super) start: Origin,
    /// Whether it is one of several in its file.
    pub(super) one_of_many: bool,
}

impl ConversationRef<'_> {
    /// Returns `file`, or `file:12` for one conversation of several.
    fn place(&self) -> String {
        let name = escape_line(self.name);
        if self.one_of_many {
            format!("{name}:{}", self.start.line)
        } else {
            name.into_owned()
        }
    }
}

/// Prints the reports as text or JSON, and counts conversations and losses.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) json: bool,
    pub(super) strict: bool,
    pub(super) to: Form,
    /// Conversations that were written.
    pub(super) converted: usize,
    /// Conversations that were refused.
    pub(super) refused: usize,
    pub(super) losses: usize,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} converted, {} refused, {}",
            counted(self.converted, "conversation"),
            self.refused,
            counted_as(self.losses, "loss", "losses")
        )
    }
}

/// The result of a conversion.
pub(super) enum Outcome<'t> {
    /// Written; the text if no file receives it.
    Written(Option<&'t str>),
    /// Refused, with the reason.
    Refused(String),
}

impl Report {
    /// Reports the losses, errors and outcome of one conversation.
    pub(super) fn add(
        &mut self,
        which: ConversationRef<'_>,
        read: &Conversation,
        losses: &[Loss],
        outcome: &Outcome<'_>,
    ) -> Result<(), CliError> {
        self.losses += losses.len();
        match outcome {
            Outcome::Written(_) => self.converted += 1,
            Outcome::Refused(_) => self.refused += 1,
        }
        let source = Source::fragment(which.name, which.text, which.start);
        if self.json {
            let value = self.to_json(which, &source, read, losses, outcome);
            return print(&format!("{value}\n")).map_err(|error| write_failed(&error));
        }
        for found in &read.diagnostics {
            // Warnings do not affect the conversion; `logue check` reports them.
            if found.is_error() {
                print_error(&format!("{}\n", source.render(found, error_style())));
            }
        }
        let place = which.place();
        if !read.certain {
            print_error(&format!(
                "{place}: read as {}; name another form with --from\n",
                read.form.as_str()
            ));
        }
        for loss in losses {
            print_error(&format!(
                "{place}: {}\n",
                escape_untrusted(&loss.to_string())
            ));
        }
        if let Outcome::Refused(why) = outcome {
            let help = match (read.broken, self.strict) {
                (true, _) => "correct the errors, or name the form of the file with --from",
                (false, true) => "correct the conversation, or convert without --strict",
                (false, false) => "convert to another form with --to",
            };
            let failure =
                CliError::user("E-WRITE-REFUSED", format!("{place}: {why}")).with_help(help);
            print_error(&failure.text());
        }
        Ok(())
    }

    fn to_json(
        &self,
        which: ConversationRef<'_>,
        source: &Source<'_>,
        read: &Conversation,
        losses: &[Loss],
        outcome: &Outcome<'_>,
    ) -> Value {
        let found = |found: &Diagnostic| to_json(source, found);
        let mut value = json!({
            "file": which.name,
            "line": which.start.line,
            "from": read.form.as_str(),
            "certain": read.certain,
            "to": self.to.as_str(),
            "frames": read.transcript.frames.len(),
            "losses": losses.iter().map(loss).collect::<Value>(),
            "diagnostics": read.diagnostics.iter().map(found).collect::<Value>(),
        });
        match outcome {
            Outcome::Written(None) => {}
            Outcome::Written(Some(text)) => value["text"] = json!(text),
            Outcome::Refused(why) => {
                value["error"] = json!({"code": "E-WRITE-REFUSED", "message": why});
            }
        }
        value
    }
}

fn loss(loss: &Loss) -> Value {
    let (subject, number) = match loss.target {
        LossTarget::Frame(index) => ("frame", Some(index + 1)),
        LossTarget::Message(index) => ("message", Some(index + 1)),
        _ => ("transcript", None),
    };
    json!({"subject": subject, "number": number, "text": loss.message})
}
