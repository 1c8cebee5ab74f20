//! The session store and the ids of its records.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use logue_graph::IdSource;
use logue_harness::RandomIds;
use logue_harness::store::{ProcessLeases, SessionFilter, SessionInfo, SharedStore, StoreError};
use logue_source::escape_line;
use logue_store::{OpenedStore, StoreOptions, open_store_with};
use logue_tools::PrivateFileError;

use crate::arguments::StoreArgs;
use crate::exit::{CliError, Exit};
use crate::setup::environment::file_owners;
use crate::setup::settings::Settings;

/// Opens the store.
pub(crate) fn open(arguments: &StoreArgs, settings: &Settings) -> Result<SharedStore, CliError> {
    Ok(open_logged(arguments, settings)?.store)
}

/// Opens the store with its log of events, if it has one.
pub(crate) fn open_logged(
    arguments: &StoreArgs,
    settings: &Settings,
) -> Result<OpenedStore, CliError> {
    let url = url(arguments, settings).ok_or_else(no_directory)?;
    let options = StoreOptions::default().listen(listen(arguments, settings));
    open_with(&url, &options)
}

fn no_directory() -> CliError {
    CliError::user("store_unavailable", "no directory for sessions")
        .with_help("name one: --store sqlite:PATH, or set HOME")
}

/// Returns the file of a store, for commands that copy it as a whole.
pub(crate) fn sqlite_file(arguments: &StoreArgs, settings: &Settings) -> Result<PathBuf, CliError> {
    let url = url(arguments, settings);
    let file = url.as_deref().and_then(|url| url.strip_prefix("sqlite:"));
    let Some(file) = file.filter(|file| !file.is_empty()) else {
        return Err(
            CliError::user("store_unavailable", "the store is not a file")
                .with_help("name one: --store sqlite:PATH")
                .with_help("copy a PostgreSQL store by `pg_dump --schema=logue` and `pg_restore`"),
        );
    };
    check_owner(Path::new(file))?;
    Ok(PathBuf::from(file))
}

/// Checks that the file of a store is there and not empty.
pub(crate) fn check_exists(arguments: &StoreArgs, settings: &Settings) -> Result<(), CliError> {
    url(arguments, settings).map_or(Ok(()), |url| check_exists_at(&url))
}

/// Checks that the file of a store is there, if the address names a file.
pub(crate) fn check_exists_at(url: &str) -> Result<(), CliError> {
    let Some(file) = url.strip_prefix("sqlite:").filter(|file| !file.is_empty()) else {
        return Ok(());
    };
    if std::fs::metadata(file).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let what = format!("{}: no session store is there", escape_line(file));
    Err(CliError::user("store_unavailable", what)
        .with_help("check the path, or restore a backup; the first session creates a store"))
}

/// Opens the store at an address.
///
/// # Errors
/// Returns an error if it cannot be opened, or if another user could have written it.
pub(crate) fn open_at(url: &str) -> Result<SharedStore, CliError> {
    Ok(open_with(url, &StoreOptions::default())?.store)
}

fn open_with(url: &str, options: &StoreOptions) -> Result<OpenedStore, CliError> {
    if let Some(file) = url.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
        check_owner(Path::new(file))?;
    }
    let mut opened = open_store_with(url, options).map_err(|error| store_failure(&error))?;
    let store = Arc::new(ProcessLeases::new(opened.store));
    let mut all = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(Arc::downgrade(&store));
    opened.store = store;
    Ok(opened)
}

/// The stores that this process has opened.
static OPENED: Mutex<Vec<Weak<ProcessLeases>>> = Mutex::new(Vec::new());

/// Gives back the leases of this process, for the next command.
///
/// The turns of the leases must have been dropped.
pub(crate) async fn release_leases() {
    let opened = std::mem::take(&mut *OPENED.lock().unwrap_or_else(PoisonError::into_inner));
    for store in opened.iter().filter_map(Weak::upgrade) {
        store.release_all().await;
    }
}

/// Checks that no other user has written a database or can replace it.
///
/// SQLite opens it by its path, and its journals beside it, so the directory is checked as well.
fn check_owner(file: &Path) -> Result<(), CliError> {
    let owners = file_owners();
    let check_file = |path: &Path| match owners.check(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked.map_err(|error| refusal(path, &error)),
    };
    check_file(file)?;
    // SQLite writes its journals beside the file that a link leads to.
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    for suffix in ["-wal", "-journal", "-shm"] {
        let mut journal = real.as_os_str().to_owned();
        journal.push(suffix);
        check_file(Path::new(&journal))?;
    }
    let folder = real
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match owners.check_folder(folder.unwrap_or(Path::new("."))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked.map_err(|error| refusal(file, &error)),
    }
}

fn refusal(file: &Path, error: &io::Error) -> CliError {
    let message = format!("{}: {error}", file.display());
    let help = PrivateFileError::in_error(error)
        .map_or("check the path and its permissions", PrivateFileError::help);
    CliError::user("store_unavailable", message).with_help(help)
}

/// Returns the URL of the store; the flag takes precedence over the settings.
pub(crate) fn url(arguments: &StoreArgs, settings: &Settings) -> Option<String> {
    let flag = arguments.store.clone();
    flag.or_else(|| settings.store_url.clone())
}

/// Returns the address for notifications of a database; the flag takes precedence.
fn listen(arguments: &StoreArgs, settings: &Settings) -> Option<String> {
    let flag = arguments.store_listen.clone();
    flag.or_else(|| settings.store_listen.clone())
}

/// The failure of a command whose store failed.
pub(crate) fn store_failure(error: &StoreError) -> CliError {
    let message = match error {
        StoreError::Exists { .. } | StoreError::NotFound { .. } => without_long_id(error),
        error => error.to_string(),
    };
    match error {
        StoreError::NotFound { .. } => CliError::user("session_not_found", message)
            .with_help("run `logue sessions list` to list all sessions"),
        StoreError::IdTooLong { .. } => {
            CliError::new(Exit::Usage, "usage", message).with_help("choose a shorter id")
        }
        StoreError::Exists { .. } => {
            CliError::user("session_exists", message).with_help("choose another name")
        }
        StoreError::InvalidAddress(_) => CliError::user("store_unavailable", message).with_help(
            "write `sqlite:PATH`, such as --store sqlite:sessions.db, `postgres://…` or `memory:`",
        ),
        // The message of a database has the remedy.
        StoreError::NotAStore(what) if what.contains("://") => {
            CliError::user("store_unavailable", message)
                .with_help("check the address, its user and password, and the rights of the role")
        }
        StoreError::NotAStore(_) => CliError::user("store_unavailable", message)
            .with_help("name another store: --store URL, LOGUE_STORE or [store] url"),
        StoreError::Damaged(_) => CliError::new(Exit::SessionTerminating, "store_corrupt", message)
            .with_help("`logue sessions repair` mends what can be mended; else restore a backup"),
        StoreError::Moved { .. } => {
            CliError::user("session_moved", message).with_help(StoreError::MOVED_HELP)
        }
        StoreError::Arriving { .. } => CliError::new(Exit::Busy, "session_arriving", message)
            .with_help(StoreError::ARRIVING_HELP),
        StoreError::Newer { .. } => CliError::user("store_unavailable", message)
            .with_help("use a program that is at least as new as the store"),
        StoreError::ReadOnly(what) if what.contains("://") => {
            CliError::user("store_read_only", message).with_help("name the primary server")
        }
        StoreError::ReadOnly(_) => {
            CliError::user("store_read_only", message).with_help(StoreError::READ_ONLY_HELP)
        }
        error if error.is_conflict() => {
            CliError::new(Exit::Busy, "session_busy", message).with_help("try again")
        }
        _ => {
            let help = if message.contains("://") {
                "check that the server of the database runs and can be reached"
            } else {
                "check the path, its permissions and free space"
            };
            CliError::new(Exit::Retryable, "store_unavailable", message).with_help(help)
        }
    }
}

/// Returns the message of an error with its quoted name shortened.
fn without_long_id(error: &StoreError) -> String {
    let message = error.to_string();
    let quoted = message.split_once('`').and_then(|(before, rest)| {
        let (name, after) = rest.rsplit_once('`')?;
        Some(format!("{before}`{}`{after}", shown_id(name)))
    });
    quoted.unwrap_or(message)
}

/// Returns a source of random ids, unique across processes.
pub(crate) fn ids() -> Arc<dyn IdSource> {
    Arc::new(RandomIds)
}

/// Returns a random id.
pub(crate) fn new_id() -> String {
    RandomIds.new_id()
}

/// The number of characters of an id that messages show.
const SHOWN_CHARS: usize = 80;

/// Returns a session id for messages, shortened if it is long.
pub(crate) fn shown_id(session: &str) -> Cow<'_, str> {
    match session.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => {
            let start = session.get(..end).unwrap_or_default();
            format!("{start}… ({} bytes)", session.len()).into()
        }
        None => session.into(),
    }
}

/// Checks that a session is named.
///
/// # Errors
/// Returns the error of an empty id, which names no session.
pub(crate) fn check_named(session: &str) -> Result<(), CliError> {
    if session.is_empty() {
        let error = CliError::new(Exit::Usage, "usage", "the session id is empty");
        return Err(error.with_help("use any other text as the id"));
    }
    Ok(())
}

/// Returns the metadata of a session, or an error if the session does not exist.
pub(crate) async fn known(store: &SharedStore, session: &str) -> Result<SessionInfo, CliError> {
    check_named(session)?;
    let info = store.session(session).await;
    let info = info.map_err(|error| store_failure(&error))?;
    if let Some(info) = info {
        return Ok(info);
    }
    let message = format!("session `{}` not found", shown_id(session));
    let failure = CliError::user("session_not_found", message)
        .with_help("run `logue sessions list` to list all sessions");
    Err(with_similar(failure, store, session).await)
}

/// Returns the metadata of a session, unless another store continues it.
///
/// # Errors
/// Returns an error if the session does not exist, was moved, or is being moved here.
pub(crate) async fn usable(store: &SharedStore, session: &str) -> Result<SessionInfo, CliError> {
    let mut info = known(store, session).await?;
    match info.elsewhere.take() {
        None => Ok(info),
        Some(location) => match location.check(session) {
            Ok(()) => Ok(info),
            Err(error) => Err(store_failure(&error)),
        },
    }
}

/// Adds the session to an error that the id of no session probably meant.
pub(crate) async fn with_similar(
    mut failure: CliError,
    store: &SharedStore,
    session: &str,
) -> CliError {
    /// The number of recent sessions that are compared.
    const COMPARED: usize = 500;
    let filter = SessionFilter {
        prefix: None,
        limit: Some(COMPARED),
        ..SessionFilter::default()
    };
    let sessions = store.list(filter).await.unwrap_or_default();
    let ids = || sessions.iter().map(|info| &*info.session);
    let near = chatmd::suggest(session, ids()).or_else(|| {
        // Generated ids are too long to be compared; a part of one may have been copied.
        let is_part = |id: &&str| id.len() > 8 && session.len() > 8;
        ids()
            .filter(is_part)
            .find(|id| id.starts_with(session) || session.starts_with(*id))
    });
    if let Some(near) = near {
        let near = shown_id(near);
        failure.help.insert(0, format!("did you mean `{near}`?"));
    }
    failure
}
