//! `logue sessions migrate`: moves sessions to another store.

mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use logue_harness::store::{SessionFilter, StoreError};
use logue_store::{
    SessionComparison, Transfer, TransferEnd, TransferError, TransferResult, is_store_address,
    redacted_address,
};

use self::report::Report;
use crate::arguments::MigrateArgs;
use crate::exit::{CliError, Exit};
use crate::progress::Progress;
use crate::setup::signals::{runtime, until_signal};
use crate::setup::store::{check_exists_at, new_id, open_at, release_leases, store_failure};

/// The maximum wait for sessions in use: longer than a lease, after which an owner that has ended is known.
const PATIENCE: Duration = Duration::from_secs(12);
/// The time between two attempts for sessions in use.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) fn migrate(arguments: &MigrateArgs) -> Result<Exit, CliError> {
    let (from, to) = (address(&arguments.from)?, address(&arguments.to)?);
    if from == to || is_same_file(&arguments.from, &arguments.to) {
        return Err(same_store());
    }
    check_exists_at(&arguments.from)?;
    let source = TransferEnd {
        store: open_at(&arguments.from).map_err(|error| at(error, &from))?,
        address: from.clone(),
    };
    let is_reading = arguments.dry_run || arguments.verify;
    if is_reading && check_exists_at(&arguments.to).is_err() {
        if arguments.verify {
            check_exists_at(&arguments.to)?;
        }
        // Only the sessions of the source matter: a store that is not there has none.
        let target = source.clone();
        return run(
            arguments,
            source,
            TransferEnd {
                address: to,
                ..target
            },
        );
    }
    let target = TransferEnd {
        store: open_at(&arguments.to).map_err(|error| at(error, &to))?,
        address: to,
    };
    run(arguments, source, target)
}

fn run(
    arguments: &MigrateArgs,
    source: TransferEnd,
    target: TransferEnd,
) -> Result<Exit, CliError> {
    let report = Report::new(arguments, &source.address, &target.address);
    let store = source.store.clone();
    let owner = format!("migrate-{}", new_id());
    let mut transfer = Transfer::new(source, target, owner, std::env::temp_dir());
    if arguments.copy {
        transfer = transfer.with_copies();
    }
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let work = async {
            let sessions = sessions(&*store, arguments).await?;
            let progress = Progress::items(sessions.len() as u64, arguments.json);
            let mut batch = Batch {
                transfer,
                report,
                progress,
            };
            let stopped = if arguments.verify {
                batch.compare(&sessions).await
            } else if arguments.dry_run {
                batch.plan(&sessions).await
            } else {
                batch.transfer(&sessions).await
            };
            batch.report.end(stopped)
        };
        let ended = until_signal(Box::pin(work)).await;
        release_leases().await;
        ended
    });
    runtime.shutdown_background();
    ended.unwrap_or_else(Ok)
}

/// The sessions of a run, in the order of their ids.
async fn sessions(
    store: &dyn logue_harness::store::Store,
    arguments: &MigrateArgs,
) -> Result<Vec<String>, CliError> {
    let mut sessions = arguments.sessions.clone();
    if sessions.is_empty() {
        let listed = store.list(SessionFilter::default()).await;
        let listed = listed.map_err(|error| store_failure(&error))?;
        sessions = listed.into_iter().map(|info| info.session).collect();
    }
    sessions.sort_unstable();
    sessions.dedup();
    Ok(sessions)
}

/// The work of one run.
struct Batch<'a> {
    transfer: Transfer,
    report: Report<'a>,
    progress: Progress,
}

impl Batch<'_> {
    /// Transfers each session. Those in use are tried again until they are free or a time is over.
    ///
    /// # Errors
    /// Returns the failure of a store, after which no other session can be transferred.
    async fn transfer(&mut self, sessions: &[String]) -> Result<(), CliError> {
        let mut in_use = Vec::new();
        for session in sessions {
            if let Some(held) = self.transfer_one(session).await? {
                in_use.push((session, held));
            }
        }
        let start = Instant::now();
        while !in_use.is_empty() && start.elapsed() < PATIENCE {
            tokio::time::sleep(PAUSE).await;
            let mut left = Vec::new();
            for (session, _) in in_use {
                if let Some(held) = self.transfer_one(session).await? {
                    left.push((session, held));
                }
            }
            in_use = left;
        }
        for (session, held) in in_use {
            self.report.add(session, &held);
        }
        Ok(())
    }

    /// Transfers a session and reports it, unless it is in use.
    async fn transfer_one(&mut self, session: &str) -> Result<Option<TransferResult>, CliError> {
        match self.transfer.run(session).await {
            Ok(held @ TransferResult::InUse { .. }) => return Ok(Some(held)),
            Ok(result) => self.report.add(session, &result),
            Err(error) => self.report.fail(session, &error)?,
        }
        self.progress.advance(1);
        Ok(None)
    }

    async fn plan(&mut self, sessions: &[String]) -> Result<(), CliError> {
        for session in sessions {
            match self.transfer.plan(session).await {
                Ok(planned) => self.report.plan(session, planned.as_ref()),
                Err(error) => self.report.fail(session, &error)?,
            }
            self.progress.advance(1);
        }
        Ok(())
    }

    async fn compare(&mut self, sessions: &[String]) -> Result<(), CliError> {
        for session in sessions {
            let planned = self.transfer.plan(session).await;
            let is_moved = matches!(planned, Ok(Some(TransferResult::AlreadyMoved)));
            match self.transfer.compare(session).await {
                // A session that the source continues need not be in the target.
                Ok(SessionComparison::Missing) if !is_moved => self.report.leave(session),
                Ok(found) => self.report.compare(session, &found),
                Err(error) => self.report.fail(session, &error)?,
            }
            self.progress.advance(1);
        }
        Ok(())
    }
}

/// Returns an address for marks and messages: without a password, and absolute.
fn address(url: &str) -> Result<String, CliError> {
    if url == "memory:" {
        let what = "a store in memory ends with the program";
        return Err(CliError::new(Exit::Usage, "usage", what)
            .with_help("name a store that stays, such as sqlite:PATH"));
    }
    if !is_store_address(url) {
        return Err(store_failure(&StoreError::InvalidAddress(
            redacted_address(url).into_owned(),
        )));
    }
    let Some(file) = url.strip_prefix("sqlite:") else {
        return Ok(database(url));
    };
    let path = Path::new(file);
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let real = path.canonicalize().or_else(|_| {
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        Ok::<_, std::io::Error>(folder.join(path.file_name().unwrap_or_default()))
    });
    // A directory that does not exist yet is created with the store.
    let real = real.or_else(|_| std::path::absolute(path));
    let real = real.unwrap_or_else(|_| path.to_owned());
    Ok(format!("sqlite:{}", real.display()))
}

/// Returns the address of a database without its user, password and options.
fn database(url: &str) -> String {
    /// The parameters that say where the sessions are.
    const PLACE: [&str; 5] = ["dbname", "host", "hostaddr", "port", "schema"];
    let location = url.split_once("://").map_or(url, |(_, location)| location);
    // A password may contain any of `@/?`; the host follows the last `@`.
    let location = location.rsplit_once('@').map_or(location, |(_, host)| host);
    let (location, query) = location.split_once('?').unwrap_or((location, ""));
    let mut place: Vec<&str> = query
        .split('&')
        .filter(|parameter| {
            let name = parameter.split('=').next();
            name.is_some_and(|name| PLACE.contains(&name))
        })
        .collect();
    place.sort_unstable();
    let mark = if place.is_empty() { "" } else { "?" };
    format!("postgres://{location}{mark}{}", place.join("&"))
}

/// Returns whether two addresses lead to one file by different names.
fn is_same_file(from: &str, to: &str) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let identity = |url: &str| {
            let found = std::fs::metadata(url.strip_prefix("sqlite:")?).ok()?;
            Some((found.dev(), found.ino()))
        };
        identity(from).is_some_and(|file| identity(to) == Some(file))
    }
    #[cfg(not(unix))]
    {
        let _ = (from, to);
        false
    }
}

fn same_store() -> CliError {
    CliError::new(Exit::Usage, "usage", TransferError::SameStore.to_string())
        .with_help("name another store with --to")
}

/// Adds the address to the failure of a store.
fn at(mut failure: CliError, address: &str) -> CliError {
    if !failure.message.contains(address) {
        failure.message = format!("{address}: {}", failure.message);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::database;

    /// Two users reach one store, and two schemas are two.
    #[test]
    fn addresses_of_databases_name_the_place() {
        for (url, shown) in [
            ("postgres://ana:p@s?s/@host:5/db", "postgres://host:5/db"),
            ("postgresql://host/db?sslmode=require", "postgres://host/db"),
            (
                "postgres://u@/db?schema=x&password=p&host=%2Ftmp",
                "postgres:///db?host=%2Ftmp&schema=x",
            ),
        ] {
            assert_eq!(database(url), shown);
        }
    }
}
