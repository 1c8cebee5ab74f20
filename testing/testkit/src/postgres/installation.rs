//! The programs of PostgreSQL and `PgBouncer`: installed, or unpacked from Debian's packages.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use super::account::Account;

/// The programs of the version that is tested.
const SERVER: &str = "usr/lib/postgresql/15/bin";
const PGBOUNCER: &str = "usr/sbin";
/// The time after a failed download in which none is tried.
const PAUSE: Duration = Duration::from_secs(600);

/// A directory of programs, with the account that they run as.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    programs: PathBuf,
    /// The directories of unpacked libraries, for `LD_LIBRARY_PATH`.
    libraries: OsString,
    pub(crate) account: Account,
}

impl Installation {
    /// Returns the programs of PostgreSQL; `None`, with a note, where they are not available.
    pub(crate) fn server() -> io::Result<Option<Self>> {
        Self::find("PostgreSQL 15", "server", SERVER, "postgres")
    }

    /// Returns the program of `PgBouncer`; `None`, with a note, where it is not available.
    pub(crate) fn pgbouncer() -> io::Result<Option<Self>> {
        Self::find("PgBouncer", "pgbouncer", PGBOUNCER, "pgbouncer")
    }

    /// Finds programs of a package.
    fn find(title: &str, package: &str, programs: &str, main: &str) -> io::Result<Option<Self>> {
        let account = Account::current();
        let installed = Path::new("/").join(programs);
        let only_unpacked = std::env::var_os("LOGUE_POSTGRES").is_some_and(|v| v == "unpacked");
        if !only_unpacked && installed.join(main).is_file() {
            return Ok(Some(Self {
                programs: installed,
                libraries: OsString::new(),
                account,
            }));
        }
        let unpacked = match unpack(package) {
            Ok(unpacked) => unpacked,
            Err(reason) => {
                skip(title, &reason.to_string());
                return Ok(None);
            }
        };
        let installation = Self {
            programs: unpacked.join(programs),
            libraries: fs::read_to_string(unpacked.join("libraries"))?.into(),
            account,
        };
        // The account may have no access to the directory of the checkout.
        let mut version = installation.command(main);
        let version = version.arg("--version").stdout(Stdio::null()).status();
        if !version.is_ok_and(|status| status.success()) {
            let user = account.user();
            let programs = installation.programs.display();
            skip(
                title,
                &format!("user {user} cannot run `{programs}/{main}`"),
            );
            return Ok(None);
        }
        Ok(Some(installation))
    }

    /// Returns a command that runs a program as the account, with a clean environment.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.env_clear().current_dir("/").stdin(Stdio::null());
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("TZ", "UTC"),
        ] {
            command.env(name, value);
        }
        if !self.libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", &self.libraries);
        }
        self.account.apply(&mut command);
        command
    }

    /// Returns a name for files that depend on the programs and on the account.
    pub(crate) fn identity(&self) -> io::Result<String> {
        let output = self.command("postgres").arg("--version").output()?;
        let version = String::from_utf8_lossy(&output.stdout);
        let version = version.split_whitespace().nth(2).unwrap_or("unknown");
        Ok(format!("{version}-{}", self.account.user()))
    }
}

/// Returns the directory of cached files, which Git ignores.
pub(crate) fn cache() -> io::Result<PathBuf> {
    let cache = scripts().join(".cache");
    fs::create_dir_all(&cache)?;
    Ok(cache)
}

/// Returns the directory of the scripts.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("postgres")
}

/// Unpacks a package, unless it is already unpacked, and returns its directory.
fn unpack(package: &str) -> io::Result<PathBuf> {
    let cache = cache()?;
    let (unpacked, failed) = (cache.join(package), cache.join(format!("{package}.failed")));
    // One process downloads, and the others wait.
    let lock = File::create(cache.join(format!("{package}.lock")))?;
    lock.lock()?;
    if unpacked.join("libraries").is_file() {
        return Ok(unpacked);
    }
    let is_recent = fs::metadata(&failed)
        .and_then(|failed| failed.modified())
        .is_ok_and(|time| {
            SystemTime::now()
                .duration_since(time)
                .is_ok_and(|age| age < PAUSE)
        });
    if is_recent {
        return Err(io::Error::other(fs::read_to_string(&failed)?));
    }
    let output = Command::new(scripts().join("fetch"))
        .arg(package)
        .output()?;
    if output.status.success() {
        return Ok(unpacked);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or("no message").to_owned();
    let reason = format!("testing/testkit/postgres/fetch {package} failed: {last}");
    fs::write(failed, &reason)?;
    Err(io::Error::other(reason))
}

#[expect(clippy::print_stdout, reason = "a skipped test is reported")]
fn skip(title: &str, reason: &str) {
    println!("SKIPPED: {title} is not available: {reason}");
}
