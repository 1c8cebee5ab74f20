//! The files of a server: a copy of a cached cluster, with its rules of access.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::database::output;
use super::directory::{Place, ServerDirectory};
use super::endpoint::CLIENT;
use super::installation::{Installation, cache};
use super::settings::{Access, PostgresSettings};

const CERTIFICATE: &str = include_str!("../tls/certificate.pem");
const KEY: &str = include_str!("../tls/key.pem");

/// Creates the cluster of a server with settings.
pub(crate) fn create(
    installation: &Installation,
    data: &Path,
    settings: &PostgresSettings,
) -> io::Result<()> {
    copy(&template(installation)?, data)?;
    if settings.access >= Access::Password {
        let kind = if settings.access == Access::Tls {
            "hostssl"
        } else {
            "host"
        };
        let rules = format!(
            "local all postgres trust\nlocal replication postgres trust\n\
             local all {CLIENT} scram-sha-256\n{kind} all {CLIENT} 127.0.0.1/32 scram-sha-256\n"
        );
        fs::write(data.join("pg_hba.conf"), rules)?;
    }
    if settings.access == Access::Tls {
        for (name, content) in [("server.crt", CERTIFICATE), ("server.key", KEY)] {
            let file = data.join(name);
            fs::write(&file, content)?;
            // The server refuses a key that others can read.
            fs::set_permissions(&file, Permissions::from_mode(0o600))?;
            installation.account.own(&file)?;
        }
    }
    Ok(())
}

/// Returns a new cluster that servers copy; it is created once for a machine and version.
fn template(installation: &Installation) -> io::Result<PathBuf> {
    let cache = cache()?;
    let template = cache.join(format!("template-{}", installation.identity()?));
    let lock = File::create(cache.join("template.lock"))?;
    lock.lock()?;
    if template.is_dir() {
        return Ok(template);
    }
    // The account may have no write access to the cache.
    let directory = ServerDirectory::create(installation.account, Place::Memory)?;
    let data = directory.path().join("data");
    let mut command = installation.command("initdb");
    command.current_dir(directory.path()).arg("-D").arg(&data);
    command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8"]);
    output(command.args(["--locale=C.UTF-8", "--no-sync"]))?;
    let new = template.with_extension("new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    copy(&data, &new)?;
    fs::rename(new, &template)?;
    Ok(template)
}

/// Copies a directory with its owners and permissions.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    output(Command::new("cp").arg("-a").arg(from).arg(to))?;
    Ok(())
}
