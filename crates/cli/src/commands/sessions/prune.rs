//! `logue sessions prune`: removes sessions whose time is over.

use std::time::Duration;

use logue_harness::store::{
    SessionFilter, SessionInfo, SessionLocation, SharedStore, SuspensionFilter, SuspensionStatus,
};
use logue_harness::{Clock as _, SystemClock, Timestamp};
use logue_server::is_request_record;
use logue_source::escape_line;
use logue_store::vacuum;
use serde_json::{Value, json};

use crate::arguments::PruneArgs;
use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::setup::session_agent::TTL;
use crate::setup::settings::Settings;
use crate::setup::signals::runtime;
use crate::setup::store::{open, sqlite_file, store_failure};
use crate::terminal::{ignore_broken_pipe, print, print_error};

pub(super) fn prune(arguments: &PruneArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(false)?;
    let file = if arguments.vacuum && !arguments.dry_run {
        Some(sqlite_file(&arguments.store, &settings)?)
    } else {
        None
    };
    let store = open(&arguments.store, &settings)?;
    let pruned = runtime()?.block_on(remove(&store, arguments))?;
    drop(store);
    let freed = file.map(|file| vacuum(&file)).transpose();
    let freed = freed.map_err(|error| store_failure(&error))?;
    if arguments.json {
        let object = json!({
            "removed": pruned.removed,
            "kept": pruned.busy,
            "dry_run": arguments.dry_run,
            "freed_bytes": freed,
        });
        return ignore_broken_pipe(print(&format!("{object}\n")));
    }
    let mut text = String::new();
    for session in &pruned.removed {
        text.push_str(&escape_line(session));
        text.push('\n');
    }
    for session in &pruned.busy {
        let session = escape_line(session);
        print_error(&format!(
            "{session}: kept, because a turn waits or runs; see --force\n"
        ));
    }
    let removed = counted(pruned.removed.len(), "session");
    let verb = if arguments.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    print_error(&format!("{removed} {verb}\n"));
    ignore_broken_pipe(print(&text))
}

/// The sessions whose time is over.
#[derive(Default)]
struct Pruned {
    removed: Vec<String>,
    /// Those that are in use.
    busy: Vec<String>,
}

async fn remove(store: &SharedStore, arguments: &PruneArgs) -> Result<Pruned, CliError> {
    let now = SystemClock.now();
    let sessions = store.list(SessionFilter::default()).await;
    let sessions = sessions.map_err(|error| store_failure(&error))?;
    let mut pruned = Pruned::default();
    let mut kept = 0;
    for info in sessions {
        let is_record = is_request_record(&info);
        if !is_record && kept < arguments.keep {
            kept += 1;
            continue;
        }
        let keys = is_record.then_some(arguments.keys_older_than);
        let own = limit(&info, arguments.older_than);
        let Some(limit) = own.into_iter().chain(keys).min() else {
            continue;
        };
        let unchanged_since = before(now, limit);
        if info.updated_at > unchanged_since {
            continue;
        }
        let session = info.session.as_str();
        let is_removed = if arguments.dry_run {
            arguments.force || !is_busy(store, &info).await?
        } else {
            let removed = store.prune(session, unchanged_since, arguments.force).await;
            removed.map_err(|error| store_failure(&error))?
        };
        if is_removed {
            pruned.removed.push(info.session);
        } else {
            pruned.busy.push(info.session);
        }
    }
    Ok(pruned)
}

/// Returns the time after which a session is removed: its own, or a shorter one of all.
fn limit(info: &SessionInfo, older_than: Option<Duration>) -> Option<Duration> {
    let own = info.labels.get(TTL).and_then(Value::as_u64);
    let own = own.map(Duration::from_secs);
    own.into_iter().chain(older_than).min()
}

async fn is_busy(store: &SharedStore, info: &SessionInfo) -> Result<bool, CliError> {
    match info.elsewhere {
        Some(SessionLocation::Moved { .. }) => return Ok(false),
        Some(_) => return Ok(true),
        None => {}
    }
    let filter = SuspensionFilter {
        session: Some(info.session.clone()),
        ..SuspensionFilter::default()
    };
    let suspended = store.suspensions(filter).await;
    let suspended = suspended.map_err(|error| store_failure(&error))?;
    let mut suspended = suspended.iter();
    let is_waiting = suspended.any(|one| one.status != SuspensionStatus::Resumed);
    Ok(info.pending > 0 || is_waiting)
}

fn before(now: Timestamp, time: Duration) -> Timestamp {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Timestamp(now.0.saturating_sub(millis))
}
