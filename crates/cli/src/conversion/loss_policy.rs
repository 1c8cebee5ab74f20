//! The consequences of losses: refusal, exit status and report.

use std::cmp::Reverse;

use logue_source::{Diagnostic, escape_untrusted};
use openchatml::{Loss, LossKind, LossSeverity};

use crate::arguments::LossArgs;
use crate::exit::Exit;

/// The losses that a command permits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossPolicy {
    /// The least severity that refuses a conversation.
    pub(crate) strict: Option<LossSeverity>,
    /// Whether lost content leaves the exit status at 0.
    allows_content: bool,
}

/// The reason of a refusal because of losses.
pub(crate) const FORBIDDEN: &str = "something would be lost, and --strict forbids it";

impl LossPolicy {
    pub(crate) fn new(arguments: &LossArgs) -> Self {
        Self {
            strict: arguments.strict,
            allows_content: arguments.allow_loss.is_some(),
        }
    }

    /// Returns whether these losses refuse their conversation.
    pub(crate) fn refuses(self, losses: &[Loss]) -> bool {
        self.strict
            .is_some_and(|strict| losses.iter().any(|loss| loss.is_at_least(strict)))
    }

    /// Returns the reason to refuse a conversation before it is written.
    pub(crate) fn refusal(self, broken: bool, found: &[Diagnostic]) -> Option<&'static str> {
        if broken {
            Some("it could not be read completely")
        } else if self.strict.is_some() && found.iter().any(Diagnostic::is_error) {
            Some("it has errors, and --strict forbids them")
        } else {
            None
        }
    }

    /// Returns the exit status after written conversations with these losses.
    pub(crate) fn exit(self, mut lost: impl Iterator<Item = LossKind>) -> Exit {
        let is_content = |kind: LossKind| kind.severity() == Some(LossSeverity::Content);
        if !self.allows_content && lost.any(is_content) {
            Exit::Findings
        } else {
            Exit::Done
        }
    }
}

/// Returns the lines of a report on the losses of `place`, the most severe first.
pub(crate) fn lines(place: &str, losses: &[Loss]) -> String {
    let mut losses: Vec<&Loss> = losses.iter().collect();
    losses.sort_by_key(|loss| Reverse(loss.severity()));
    let line = |loss: &Loss| {
        let severity = severity_name(loss.kind);
        format!(
            "{place}: {severity}: {}\n",
            escape_untrusted(&loss.to_string())
        )
    };
    losses.into_iter().map(line).collect()
}

/// Returns the name of a severity, or `note`.
pub(crate) fn severity_name(kind: LossKind) -> &'static str {
    kind.severity().map_or("note", LossSeverity::as_str)
}
