//! The password of an address that states none, as PostgreSQL's own programs find it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The port of an address that states none.
const PORT: u16 = 5432;

/// Returns the password of `PGPASSWORD`, or that of the password file.
pub(super) fn of_environment(config: &Config) -> Option<String> {
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    if let Some(password) = variable("PGPASSWORD") {
        return password.into_string().ok();
    }
    let file = variable("PGPASSFILE").map(PathBuf::from);
    let home = || Some(Path::new(&variable("HOME")?).join(".pgpass"));
    of_file(config, &file.or_else(home)?)
}

/// Returns the password of the first fitting line of a file.
///
/// A file that other users may read is not used.
fn of_file(config: &Config, file: &Path) -> Option<String> {
    let state = fs::metadata(file).ok()?;
    if !state.is_file() || state.permissions().mode() & 0o077 != 0 {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    let user = config.get_user()?;
    let database = config.get_dbname().unwrap_or(user);
    let ports = config.get_ports();
    let mut places = config.get_hosts().iter().enumerate();
    places.find_map(|(number, host)| {
        let port = ports.get(number).or(ports.first()).copied();
        let port = port.unwrap_or(PORT).to_string();
        let host = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(directory) => directory.to_string_lossy().into_owned(),
        };
        password_in(&text, &[&host, &port, database, user])
    })
}

/// Returns the last field of the first line whose other fields are these, or `*`.
fn password_in(text: &str, place: &[&str; 4]) -> Option<String> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let fields = fields(line);
            let (password, named) = fields.split_last()?;
            let fits = named.len() == place.len()
                && (named.iter().zip(place)).all(|(named, is)| named == "*" || named == is);
            (fits && !password.is_empty()).then(|| password.clone())
        })
}

/// Splits a line at its colons; a backslash precedes a character of a field.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(next) = characters.next() {
        let character = match next {
            // The last field may contain colons.
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => characters.next(),
            other => Some(other),
        };
        if let (Some(field), Some(character)) = (fields.last_mut(), character) {
            field.push(character);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::password_in;

    #[test]
    fn the_first_line_that_fits_is_used() {
        let text =
            "# a comment\nother:5432:app:ana:no\ndb:5432:app:ana:p\\:a\\\\ss:x\n*:*:*:*:all\n";
        let found = |place: [&str; 4]| password_in(text, &place);
        let own = found(["db", "5432", "app", "ana"]);
        assert_eq!(own.as_deref(), Some("p:a\\ss:x"));
        let all = found(["db", "5433", "app", "ana"]);
        assert_eq!(all.as_deref(), Some("all"));
        assert_eq!(
            password_in("db:5432:app:ana:x", &["db", "1", "app", "ana"]),
            None
        );
        assert_eq!(
            password_in("db:5432:app:ana", &["db", "5432", "app", "ana"]),
            None
        );
    }
}
