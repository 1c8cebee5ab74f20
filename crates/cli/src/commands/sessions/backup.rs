//! `logue sessions backup` and `restore`: copies of a whole store.

use logue_harness::store::{IntegrityReport, StoreError};
use logue_harness::{Clock as _, SystemClock};
use logue_source::escape_line;
use logue_store::{RestoreReport, back_up, restore as restore_store};

use crate::arguments::{BackupArgs, RestoreArgs};
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::setup::settings::Settings;
use crate::setup::store::{sqlite_file, store_failure};
use crate::terminal::print_error;

pub(super) fn backup(arguments: &BackupArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(false)?;
    let store = sqlite_file(&arguments.store, &settings)?;
    match back_up(&store, &arguments.file) {
        Ok(report) => Ok(end(
            &report,
            "copied",
            "there is no copy: repair the store first",
        )),
        Err(error @ StoreError::Exists { .. }) => Err(exists(&error, "name another file")),
        Err(error) => Err(store_failure(&error)),
    }
}

pub(super) fn restore(arguments: &RestoreArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(false)?;
    let store = sqlite_file(&arguments.store, &settings)?;
    let now = SystemClock.now();
    match restore_store(&arguments.file, &store, arguments.replace, now) {
        Ok(report) => Ok(restored(&report, arguments.replace)),
        Err(error @ StoreError::Exists { .. }) => {
            let help = "replace its sessions with --replace, after `logue sessions backup`";
            Err(exists(&error, help))
        }
        Err(error @ StoreError::NotFound { .. }) => {
            Err(CliError::user("E-SOURCE-READ", error.to_string()).with_help("check its name"))
        }
        Err(error) => Err(store_failure(&error)),
    }
}

/// Prints what was restored, and what it means for sessions that were moved.
fn restored(report: &RestoreReport, replaces: bool) -> Exit {
    let exit = end(
        &report.integrity,
        "restored",
        "nothing was changed: use another backup",
    );
    if exit != Exit::Done {
        return exit;
    }
    for (session, to) in &report.moved {
        print_error(&format!(
            "session `{}` stays moved to {}\n",
            escape_line(session),
            escape_line(to)
        ));
    }
    if !replaces && report.integrity.sessions > 0 {
        print_error(
            "note: a session that was moved to another store after the backup was made continues \
             in both now; remove it here with `logue sessions rm`\n",
        );
    }
    exit
}

fn exists(error: &StoreError, help: &str) -> CliError {
    CliError::user("session_exists", error.to_string()).with_help(help)
}

/// Prints what was copied, or the faults because of which nothing was.
fn end(report: &IntegrityReport, verb: &str, otherwise: &str) -> Exit {
    if report.faults.is_empty() {
        let sessions = counted(amount(report.sessions), "session");
        let messages = counted(amount(report.messages), "message");
        print_error(&format!("{sessions}, {messages} {verb} and verified\n"));
        return Exit::Done;
    }
    for fault in &report.faults {
        print_error(&format!("{}\n", escape_line(&fault.to_string())));
    }
    let faults = counted(report.faults.len(), "fault");
    print_error(&format!("{faults}; {otherwise}\n"));
    Exit::Findings
}
