//! Reports on a conversion: losses, findings, refusals.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use logue_source::{Diagnostic, Origin, Source, escape_line, escape_untrusted};
use openchatml::{Loss, LossKind, LossTarget};
use serde_json::{Value, json};

use crate::arguments::ConvertArgs;
use crate::conversion::form::Form;
use crate::conversion::loss_policy::{LossPolicy, lines, severity_name};
use crate::conversion::writer::{Converted, Refusal};
use crate::counted::{counted, counted_as};
use crate::exit::{CliError, Exit};
use crate::finding::to_json;
use crate::terminal::{print, print_error, report_style, write_failed};

/// The position of a conversation in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConversationRef<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a [u8],
    pub(super) start: Origin,
    /// Whether it is one of several in its file.
    pub(super) one_of_many: bool,
}

impl<'a> ConversationRef<'a> {
    /// Returns the reference of a file with one conversation.
    pub(super) fn of_file(name: &'a str, text: &'a [u8]) -> Self {
        Self {
            name,
            text,
            start: Origin::default(),
            one_of_many: false,
        }
    }

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
    json: bool,
    pub(super) policy: LossPolicy,
    to: Form,
    /// Whether there are several files.
    several: bool,
    /// Whether a file has several conversations.
    data_set: bool,
    converted: usize,
    /// Conversations that were refused, except for losses.
    refused: usize,
    /// Conversations with losses that `--strict` forbids.
    forbidden: usize,
    /// Losses of the written conversations.
    losses: BTreeMap<LossKind, Count>,
}

/// The losses of one kind in several conversations.
#[derive(Debug, Default)]
struct Count {
    losses: usize,
    conversations: usize,
    /// The first loss, with its place.
    first: String,
}

impl Report {
    /// Creates a report of several files, or of one.
    pub(super) fn new(arguments: &ConvertArgs, several: bool) -> Self {
        Self {
            json: arguments.json,
            policy: LossPolicy::new(&arguments.losses),
            to: arguments.to,
            several,
            data_set: false,
            converted: 0,
            refused: 0,
            forbidden: 0,
            losses: BTreeMap::new(),
        }
    }

    /// Returns the exit status for everything that was reported.
    pub(super) fn exit(&self) -> Exit {
        if self.refused > 0 {
            Exit::UserCorrectable
        } else if self.forbidden > 0 {
            Exit::Findings
        } else {
            self.policy.exit(self.losses.keys().copied())
        }
    }

    /// Reports the losses, errors and outcome of one conversation.
    ///
    /// JSON contains the text if no file receives it.
    pub(super) fn add(
        &mut self,
        which: ConversationRef<'_>,
        read: &Converted,
        shows_text: bool,
    ) -> Result<(), CliError> {
        self.data_set |= which.one_of_many;
        match &read.text {
            Ok(_) => {
                self.converted += 1;
                self.count(which, &read.losses);
            }
            Err(Refusal::Other(_)) => self.refused += 1,
            Err(Refusal::Losses) => self.forbidden += 1,
        }
        if self.json {
            let value = self.to_json(which, read, shows_text);
            return print(&format!("{value}\n")).map_err(|error| write_failed(&error));
        }
        // Warnings do not affect the conversion; `logue check` reports them.
        let errors = read.diagnostics.iter().filter(|found| found.is_error());
        let errors: Vec<&Diagnostic> = errors.collect();
        if !errors.is_empty() {
            let source = Source::fragment(which.name, which.text, which.start);
            for found in errors {
                print_error(&format!("{}\n", source.render(found, report_style())));
            }
        }
        let reason = read.reason();
        let is_listed = reason.is_some() || !(which.one_of_many || self.several);
        if read.certain && !is_listed {
            return Ok(());
        }
        let place = which.place();
        if !read.certain {
            print_error(&format!(
                "{place}: read as {}; name another form with --from\n",
                read.form.as_str()
            ));
        }
        // The losses of several conversations are counted at the end.
        if is_listed {
            print_error(&lines(&place, &read.losses));
        }
        if let Some(why) = reason {
            let help = match (read.broken, self.policy.strict) {
                (true, _) => "correct the errors, or name the form of the file with --from",
                (false, Some(_)) => "correct the conversation, or omit --strict",
                (false, None) => "convert to another form with --to",
            };
            let failure =
                CliError::user("E-WRITE-REFUSED", format!("{place}: {why}")).with_help(help);
            print_error(&failure.text());
        }
        Ok(())
    }

    fn count(&mut self, which: ConversationRef<'_>, losses: &[Loss]) {
        let mut seen = BTreeSet::new();
        for loss in losses {
            let count = self.losses.entry(loss.kind).or_default();
            count.losses += 1;
            if count.first.is_empty() {
                let text = loss.to_string();
                count.first = format!("{}: {}", which.place(), escape_untrusted(&text));
            }
            if seen.insert(loss.kind) {
                count.conversations += 1;
            }
        }
    }

    /// Prints the counts of several conversations.
    pub(super) fn finish(&self) -> Result<(), CliError> {
        if !self.several && !self.data_set {
            return Ok(());
        }
        let mut kinds: Vec<_> = self.losses.iter().collect();
        kinds.sort_by_key(|(kind, _)| Reverse(kind.severity()));
        let refused = self.refused + self.forbidden;
        if self.json {
            let losses = kinds.into_iter().map(|(kind, count)| {
                json!({
                    "severity": severity_name(*kind),
                    "kind": kind.as_str(),
                    "count": count.losses,
                    "conversations": count.conversations,
                    "first": count.first,
                })
            });
            let losses = losses.collect::<Value>();
            let value = json!({
                "summary": {"converted": self.converted, "refused": refused, "losses": losses},
            });
            return print(&format!("{value}\n")).map_err(|error| write_failed(&error));
        }
        let lost = kinds.iter().filter(|(kind, _)| kind.severity().is_some());
        let lost: usize = lost.map(|(_, count)| count.losses).sum();
        if self.several || !kinds.is_empty() {
            print_error(&format!(
                "{} converted, {refused} refused, {}\n",
                counted(self.converted, "conversation"),
                counted_as(lost, "loss", "losses"),
            ));
        }
        for (kind, count) in kinds {
            print_error(&format!(
                "{}: {kind} ({} in {}), first {}\n",
                severity_name(*kind),
                count.losses,
                counted(count.conversations, "conversation"),
                count.first,
            ));
        }
        Ok(())
    }

    fn to_json(&self, which: ConversationRef<'_>, read: &Converted, shows_text: bool) -> Value {
        let source = Source::fragment(which.name, which.text, which.start);
        let found = |found: &Diagnostic| to_json(&source, found);
        let mut value = json!({
            "file": which.name,
            "line": which.start.line,
            "from": read.form.as_str(),
            "certain": read.certain,
            "to": self.to.as_str(),
            "frames": read.frames,
            "losses": read.losses.iter().map(loss).collect::<Value>(),
            "diagnostics": read.diagnostics.iter().map(found).collect::<Value>(),
        });
        match &read.text {
            Ok(text) if shows_text => value["text"] = json!(text),
            Ok(_) => {}
            Err(_) => {
                let why = read.reason();
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
    json!({
        "subject": subject,
        "number": number,
        "severity": severity_name(loss.kind),
        "kind": loss.kind.as_str(),
        "text": loss.message,
    })
}
