//! The report of a transfer of sessions.

use logue_harness::store::StoreError;
use logue_source::escape_line;
use logue_store::{SessionComparison, TransferError, TransferResult};
use serde_json::{Value, json};

use super::{at, same_store};
use crate::arguments::MigrateArgs;
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::setup::store::store_failure;
use crate::terminal::{ignore_broken_pipe, print, print_error};

/// The results of the sessions so far.
pub(super) struct Report<'a> {
    arguments: &'a MigrateArgs,
    from: String,
    to: String,
    /// The sessions that were moved, copied, planned or equal.
    done: Vec<Value>,
    already: Vec<String>,
    continued: Vec<String>,
    in_use: Vec<Value>,
    /// The sessions with a finding, each with its code and message.
    failed: Vec<Value>,
    left: Vec<String>,
    /// The sessions that were listed, and removed before their turn.
    removed: Vec<String>,
    messages: u64,
    bytes: u64,
    exit: Exit,
}

impl<'a> Report<'a> {
    pub(super) fn new(arguments: &'a MigrateArgs, from: &str, to: &str) -> Self {
        Self {
            arguments,
            from: from.to_owned(),
            to: to.to_owned(),
            done: Vec::new(),
            already: Vec::new(),
            continued: Vec::new(),
            in_use: Vec::new(),
            failed: Vec::new(),
            left: Vec::new(),
            removed: Vec::new(),
            messages: 0,
            bytes: 0,
            exit: Exit::Done,
        }
    }

    /// Adds the result of a transfer.
    pub(super) fn add(&mut self, session: &str, result: &TransferResult) {
        match result {
            TransferResult::Transferred { size, hash } => {
                self.messages += size.messages;
                self.bytes += size.bytes;
                self.done.push(json!({
                    "session_id": session, "messages": size.messages, "entries": size.entries,
                    "bytes": size.bytes, "hash": hash.to_string(),
                }));
            }
            TransferResult::AlreadyMoved => self.already.push(session.to_owned()),
            TransferResult::InUse { owner } => self.hold(session, owner.as_deref()),
            TransferResult::MovedElsewhere { to } => self.find(
                session,
                (Exit::UserCorrectable, "session_moved"),
                &format!("was moved to {to}"),
            ),
            TransferResult::Arriving { from } => self.find(
                session,
                (Exit::Busy, "session_arriving"),
                &format!("is being moved here from {from}; end that move first"),
            ),
            TransferResult::Different => {
                let problem = format!("{} has another session of that id", self.to);
                self.find(session, (Exit::UserCorrectable, "session_exists"), &problem);
            }
            TransferResult::WentElsewhere { to } => {
                let here = &self.to;
                let problem = format!(
                    "{here} had moved it to {to}, which continues it, so the session of {} may be \
                     an older copy; migrate it from {to}, or, if that store is lost, remove the mark \
                     with `logue sessions rm {session} --store {here}` and migrate again",
                    self.from
                );
                self.find(session, (Exit::UserCorrectable, "session_moved"), &problem);
            }
            TransferResult::Lost => {
                let problem = format!("was moved to {}, which does not have it", self.to);
                self.find(session, (Exit::UserCorrectable, "session_moved"), &problem);
            }
            _ => self.miss(session),
        }
    }

    /// Adds a session that the source does not have.
    ///
    /// One that no argument names was listed, and removed since by a program that uses the source.
    fn miss(&mut self, session: &str) {
        if self.arguments.sessions.is_empty() {
            self.removed.push(session.to_owned());
            return;
        }
        let code = (Exit::UserCorrectable, "session_not_found");
        self.find(session, code, "not found");
    }

    /// Adds a session of a dry run; `None` if it would be transferred.
    pub(super) fn plan(&mut self, session: &str, planned: Option<&TransferResult>) {
        match planned {
            None => self.done.push(json!({ "session_id": session })),
            Some(result) => self.add(session, result),
        }
    }

    /// Adds the result of a comparison.
    pub(super) fn compare(&mut self, session: &str, found: &SessionComparison) {
        let findings = |code| (Exit::Findings, code);
        match found {
            SessionComparison::Equal { hash } => {
                let line = json!({ "session_id": session, "hash": hash.to_string() });
                self.done.push(line);
            }
            SessionComparison::Continued => self.continued.push(session.to_owned()),
            SessionComparison::Missing => {
                let problem = format!("was moved to {}, which does not have it", self.to);
                self.find(session, findings("session_not_found"), &problem);
            }
            _ => {
                let problem = format!("differs from that of {}", self.to);
                self.find(session, findings("store_corrupt"), &problem);
            }
        }
    }

    /// Adds a session that was not moved.
    pub(super) fn leave(&mut self, session: &str) {
        self.left.push(session.to_owned());
    }

    /// Adds a failure of one session.
    ///
    /// # Errors
    /// Returns the failure if it is that of a store, so that no other session can succeed.
    pub(super) fn fail(&mut self, session: &str, error: &TransferError) -> Result<(), CliError> {
        let (address, error) = match error {
            TransferError::Source(error) => (&self.from, error),
            TransferError::Target(error) => (&self.to, error),
            _ => return Err(same_store()),
        };
        let failure = store_failure(error);
        let is_of_session = matches!(
            error,
            StoreError::Damaged(_)
                | StoreError::Exists { .. }
                | StoreError::NotFound { .. }
                | StoreError::IdTooLong { .. }
                | StoreError::Moved { .. }
                | StoreError::Arriving { .. }
        );
        if !is_of_session {
            return Err(at(failure, address));
        }
        let exit = if self.arguments.verify {
            Exit::Findings
        } else {
            failure.exit
        };
        let problem = format!("{address}: {}", failure.message);
        self.find(session, (exit, &failure.code), &problem);
        Ok(())
    }

    /// Prints the report.
    ///
    /// # Errors
    /// Returns the failure that stopped the run.
    pub(super) fn end(self, stopped: Result<(), CliError>) -> Result<Exit, CliError> {
        let text = if self.arguments.json {
            self.to_json(stopped.as_ref().err())
        } else {
            print_error(&self.summary());
            let ids = self.done.iter();
            let ids = ids.filter_map(|line| line["session_id"].as_str());
            ids.flat_map(|id| [escape_line(id), "\n".into()]).collect()
        };
        let printed = ignore_broken_pipe(print(&text))?;
        stopped?;
        Ok(if self.exit == Exit::Done {
            printed
        } else {
            self.exit
        })
    }

    fn to_json(&self, stopped: Option<&CliError>) -> String {
        let mut object = json!({
            "from": self.from,
            "to": self.to,
            "in_use": self.in_use,
            "failed": self.failed,
        });
        if self.arguments.verify {
            object["equal"] = json!(self.done);
            object["continued"] = json!(self.continued);
            object["not_moved"] = json!(self.left);
        } else {
            object[if self.arguments.copy {
                "copied"
            } else {
                "moved"
            }] = json!(self.done);
            object["moved_before"] = json!(self.already);
            object["removed_meanwhile"] = json!(self.removed);
            object["messages"] = json!(self.messages);
            object["bytes"] = json!(self.bytes);
            object["dry_run"] = json!(self.arguments.dry_run);
        }
        if let Some(failure) = stopped {
            object["error"] = json!({ "code": failure.code, "message": failure.message });
        }
        format!("{object}\n")
    }

    fn summary(&self) -> String {
        let sessions = counted(self.done.len(), "session");
        let mut parts = vec![if self.arguments.verify {
            format!("{sessions} equal")
        } else if self.arguments.dry_run {
            format!("{sessions} would go to {}", self.to)
        } else {
            let verb = if self.arguments.copy {
                "copied"
            } else {
                "moved"
            };
            let messages = counted(amount(self.messages), "message");
            format!("{sessions}, {messages} {verb} to {} and verified", self.to)
        }];
        let mut count = |count: usize, what: &str| {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        };
        count(self.already.len(), "moved before");
        count(self.continued.len(), "continued there");
        count(self.left.len(), "not moved");
        count(self.removed.len(), "removed meanwhile");
        count(self.in_use.len(), "in use: run the same command again");
        count(self.failed.len(), "with errors");
        format!("{}\n", escape_line(&parts.join("; ")))
    }

    fn hold(&mut self, session: &str, owner: Option<&str>) {
        let problem = owner.map_or_else(
            || "changed while it was copied, and was left".to_owned(),
            |owner| format!("in use by `{owner}`, and was left"),
        );
        print_finding(session, "session_busy", &problem);
        self.in_use
            .push(json!({ "session_id": session, "owner": owner }));
        self.raise(Exit::Busy);
    }

    fn find(&mut self, session: &str, (exit, code): (Exit, &str), problem: &str) {
        print_finding(session, code, problem);
        self.failed
            .push(json!({ "session_id": session, "code": code, "message": problem }));
        self.raise(exit);
    }

    /// Sets the exit status, unless an earlier finding is more severe.
    fn raise(&mut self, exit: Exit) {
        let severity = |exit: Exit| match exit {
            Exit::Done => 0,
            Exit::Busy => 1,
            Exit::UserCorrectable => 2,
            _ => 3,
        };
        if severity(exit) > severity(self.exit) {
            self.exit = exit;
        }
    }
}

fn print_finding(session: &str, code: &str, problem: &str) {
    let (session, problem) = (escape_line(session), escape_line(problem));
    print_error(&format!("error[{code}]: `{session}`: {problem}\n"));
}
