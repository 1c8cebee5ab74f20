//! The file with the access tokens of servers.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use logue_server::{AccessToken, AccessTokens};
use logue_tools::private_folder;

use crate::exit::{CliError, Exit};
use crate::setup::environment::{file_owners, state_folder};

/// The interval at which a server reads the file.
const INTERVAL: Duration = Duration::from_millis(500);

/// The access tokens in the user's state directory.
///
/// The first token creates the file, and no command removes it: an empty list records that tokens have
/// existed, so that servers require one.
pub(crate) struct TokenFile {
    path: PathBuf,
    read: Mutex<Option<FileRead>>,
}

/// The content of the file at a time.
struct FileRead {
    at: Instant,
    tokens: Vec<AccessToken>,
    /// Whether the file exists and could be read.
    has_file: bool,
}

impl TokenFile {
    /// Returns the file of this user.
    pub(crate) fn of_user() -> Result<Self, CliError> {
        let folder = state_folder().ok_or_else(|| {
            CliError::new(Exit::Usage, "usage", "no directory for access tokens")
                .with_help("set HOME")
        })?;
        Ok(Self {
            path: folder.join("serve-tokens.json"),
            read: Mutex::default(),
        })
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the tokens; a missing file has none.
    pub(crate) fn load(&self) -> Result<Vec<AccessToken>, CliError> {
        Ok(self.load_file()?.unwrap_or_default())
    }

    fn load_file(&self) -> Result<Option<Vec<AccessToken>>, CliError> {
        let failed = |error: &dyn std::fmt::Display| {
            CliError::user(
                "E-CONFIG-INVALID",
                format!("{}: {error}", self.path.display()),
            )
            .with_help("correct the file; without it, a server on loopback requires no token")
        };
        // The file that was checked is the one that is read.
        let mut file = match file_owners().open_linked(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| failed(&error))?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(|error| failed(&error))?;
        let tokens = serde_json::from_slice(&bytes).map_err(|error| failed(&error))?;
        Ok(Some(tokens))
    }

    /// Changes the tokens, while no other command does.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<AccessToken>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let failed = |error: io::Error| {
            CliError::new(
                Exit::Retryable,
                "store_unavailable",
                format!("{}: {error}", self.path.display()),
            )
        };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private_folder(folder).map_err(failed)?;
        let lock = private_file(&self.path.with_extension("lock"), false).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut tokens = self.load()?;
        let result = change(&mut tokens)?;
        let text = serde_json::to_string_pretty(&tokens).unwrap_or_default();
        let new = self.path.with_extension("new");
        let mut file = private_file(&new, true).map_err(failed)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, &self.path));
        written.map_err(failed)?;
        Ok(result)
    }
}

/// Opens a file that only its owner can read.
fn private_file(path: &Path, is_emptied: bool) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(is_emptied);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

impl TokenFile {
    /// Returns a value of the file, which is read once an interval.
    fn current<T>(&self, value: impl FnOnce(&FileRead) -> T) -> T {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*read
            && known.at.elapsed() < INTERVAL
        {
            return value(known);
        }
        let loaded = self.load_file();
        let has_file = matches!(loaded, Ok(Some(_)));
        let tokens = match (loaded, &*read) {
            (Ok(tokens), _) => tokens.unwrap_or_default(),
            // A file that cannot be read must not open the server.
            (Err(_), Some(known)) if !known.tokens.is_empty() => known.tokens.clone(),
            (Err(_), _) => vec![AccessToken::unusable()],
        };
        value(read.insert(FileRead {
            at: Instant::now(),
            tokens,
            has_file,
        }))
    }
}

impl AccessTokens for TokenFile {
    fn tokens(&self) -> Vec<AccessToken> {
        self.current(|read| read.tokens.clone())
    }

    fn has_had_token(&self) -> bool {
        self.current(|read| read.has_file)
    }
}
