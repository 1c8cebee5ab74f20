//! Where sessions are kept, and the time and the names that stored things get.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use logue_graph::IdSource;
use logue_harness::store::{SharedStore, StoreError};
use logue_harness::{BoxFuture, Clock, Timestamp};
use logue_store::Stores;

use crate::arguments::StoreArgs;
use crate::exit::{Exit, Failure};
use crate::setup::config::Config;

/// Opens the store: flag over environment over configuration over the user's data folder.
pub(crate) fn open(arguments: &StoreArgs, config: &Config) -> Result<SharedStore, Failure> {
    let url = config.store(arguments.store.as_deref()).ok_or_else(|| {
        Failure::user(
            "store_unavailable",
            "there is no folder to keep sessions in",
        )
        .with_help("name one: --store sqlite:PATH, or set HOME")
    })?;
    Stores::open(&url).map_err(|error| store_failure(&error))
}

/// The failure of a command whose store failed.
pub(crate) fn store_failure(error: &StoreError) -> Failure {
    let message = error.to_string();
    match error {
        StoreError::NotFound { .. } => Failure::user("session_not_found", message)
            .with_help("`logue sessions list` names those that there are"),
        StoreError::Exists { .. } => {
            Failure::user("session_exists", message).with_help("choose another name")
        }
        StoreError::Damaged(_) => Failure::new(Exit::SessionTerminating, "store_corrupt", message)
            .with_help("`logue sessions verify` says what is wrong; a copy from before helps"),
        StoreError::Newer { .. } => Failure::user("store_unavailable", message)
            .with_help("use the program that is at least as new as the store"),
        error if error.is_conflict() => {
            Failure::new(Exit::Busy, "session_busy", message).with_help("try again")
        }
        _ => Failure::new(Exit::Retryable, "store_unavailable", message)
            .with_help("check the path, its permissions and free space"),
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.map_or(0, |since| since.as_millis());
        Timestamp(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Random names, different in all processes.
pub(crate) fn ids() -> Arc<dyn IdSource> {
    Arc::new(new_id)
}

/// A random name.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
