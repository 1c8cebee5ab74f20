//! The address of a database: what PostgreSQL's own programs accept, and the schema of the store.

use std::path::PathBuf;
use std::time::Duration;

use logue_harness::store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use super::password;

/// The schema of the tables unless the address states another one.
pub(super) const SCHEMA: &str = "logue";
/// The maximum wait for a connection to one host, unless the address states another one.
const CONNECT: Duration = Duration::from_secs(5);
/// The maximum time that sent data may remain without an acknowledgement.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// The silence before a connection is probed, the interval of probes, and their number.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(1), 3);

/// The check of the certificate of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Not at all, as `sslmode=require` says.
    Any,
    /// It is signed by a known authority, for any name.
    Authority(Roots),
    /// It is signed by a known authority for the name of the host.
    Name(Roots),
}

/// The certificates of the known authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// Those of the system.
    System,
    /// Those of a PEM file.
    File(PathBuf),
}

/// The parts of an address.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) trust: Trust,
    pub(super) schema: String,
    /// The address for messages, without its user and password.
    pub(super) shown: String,
}

impl Address {
    /// Takes an address apart.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let shown = crate::redacted::redacted_address(url).into_owned();
        let invalid =
            |reason: &str| StoreError::NotAStore(format!("{shown}: invalid address: {reason}"));
        // A password may contain `?`; the parameters follow the last `@`.
        let start = url.rfind('@').unwrap_or_default();
        let (base, query) = match url.get(start..).and_then(|rest| rest.split_once('?')) {
            Some((_, query)) => (&url[..url.len() - query.len() - 1], query),
            None => (url, ""),
        };
        let mut rest = Vec::new();
        let (mut schema, mut mode) = (SCHEMA.to_owned(), "prefer".to_owned());
        let (mut roots, mut hosts) = (None, None);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "schema" => schema = decoded(value),
                "sslmode" => mode = decoded(value),
                "sslrootcert" => {
                    roots = Some(match decoded(value) {
                        system if system == "system" => Roots::System,
                        path => Roots::File(path.into()),
                    });
                }
                // The library takes a list of directories as one directory.
                "host" => hosts = Some(decoded(value)),
                _ => rest.push(parameter),
            }
        }
        if !is_schema(&schema) {
            return Err(invalid(
                "the schema is a name of small letters, digits and `_`",
            ));
        }
        let (ssl, trust) = encryption(&mode, roots).ok_or_else(|| {
            invalid("`sslmode` is disable, allow, prefer, require, verify-ca or verify-full")
        })?;
        let has_address = || {
            rest.iter()
                .any(|parameter| parameter.starts_with("hostaddr="))
        };
        if (hosts.is_some() || has_address()) && has_host(base) {
            return Err(invalid(
                "it names hosts before the path and in a parameter; name them once",
            ));
        }
        let plain = if rest.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{}", rest.join("&"))
        };
        let config = plain.parse::<Config>();
        let mut config = config.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            invalid(&cause.unwrap_or_else(|| error.to_string()))
        })?;
        for host in hosts.iter().flat_map(|hosts| hosts.split(',')) {
            config.host(host);
        }
        config.ssl_mode(ssl);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNACKNOWLEDGED);
        }
        if !query.contains("keepalives") {
            let (idle, interval, retries) = KEEPALIVE;
            config.keepalives_idle(idle);
            config.keepalives_interval(interval);
            config.keepalives_retries(retries);
        }
        if config.get_password().is_none()
            && let Some(password) = password::of_environment(&config)
        {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("logue");
        }
        // Of several hosts, the one that can be written is the store; another one's answers are late.
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        if hosts > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if hosts == 0 {
            return Err(invalid("it names no host"));
        }
        Ok(Self {
            config,
            trust,
            schema,
            shown,
        })
    }
}

/// Returns whether an address is one of a database.
pub(crate) fn is_address(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| {
        url.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty())
    })
}

/// Returns the meaning of `sslmode`; `None` if the mode is unknown.
fn encryption(mode: &str, roots: Option<Roots>) -> Option<(SslMode, Trust)> {
    Some(match (mode, roots) {
        ("disable", _) => (SslMode::Disable, Trust::Any),
        ("allow" | "prefer", _) => (SslMode::Prefer, Trust::Any),
        // A given certificate is checked, as PostgreSQL's own programs do.
        ("require", None) => (SslMode::Require, Trust::Any),
        ("require", Some(roots)) => (SslMode::Require, Trust::Authority(roots)),
        ("verify-ca", roots) => {
            let roots = roots.unwrap_or(Roots::System);
            (SslMode::Require, Trust::Authority(roots))
        }
        ("verify-full", roots) => {
            let roots = roots.unwrap_or(Roots::System);
            (SslMode::Require, Trust::Name(roots))
        }
        _ => return None,
    })
}

/// Returns whether an address without parameters names a host.
fn has_host(base: &str) -> bool {
    let location = base
        .split_once("://")
        .map_or(base, |(_, location)| location);
    let location = location.rsplit_once('@').map_or(location, |(_, host)| host);
    let host = location.split('/').next().unwrap_or_default();
    !host.split(':').next().unwrap_or_default().is_empty()
}

fn is_schema(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_name = |byte: u8| is_letter(byte) || byte.is_ascii_digit();
    let begins = name.bytes().next().is_some_and(is_letter);
    begins && name.bytes().all(is_name) && name.len() < 64 && !name.starts_with("pg_")
}

/// Decodes the `%` sequences of a parameter.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

    use super::{Address, Roots, Trust, is_address};

    fn error_of(url: &str) -> String {
        match Address::parse(url) {
            Ok(_) => panic!("{url} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn own_parameters_are_taken_out() {
        let url = "postgres://ana:p%3Fw@db/app?schema=team_1&sslmode=verify-full\
                   &sslrootcert=%2Fetc%2Fca.pem&connect_timeout=2&application_name=x";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.schema, "team_1");
        assert_eq!(
            address.trust,
            Trust::Name(Roots::File("/etc/ca.pem".into()))
        );
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(address.config.get_application_name(), Some("x"));
        assert_eq!(address.config.get_password(), Some(&b"p?w"[..]));
        let several = Address::parse("postgresql://a,b:5433/app").unwrap();
        let attributes = several.config.get_target_session_attrs();
        assert_eq!(attributes, TargetSessionAttrs::ReadWrite);
        assert!(is_address("postgresql://a") && !is_address("postgres://"));
        // Directories of sockets, of which one accepts writes.
        for url in [
            "postgres://ana@/app?host=/a,/b",
            "postgres:///app?host=%2Fa,%2Fb",
        ] {
            let sockets = Address::parse(url).unwrap();
            let hosts = ["/a", "/b"].map(|path| Host::Unix(path.into()));
            assert_eq!(sockets.config.get_hosts(), hosts, "{url}");
            let attributes = sockets.config.get_target_session_attrs();
            assert_eq!(attributes, TargetSessionAttrs::ReadWrite, "{url}");
        }
        for url in [
            "postgres://db/app?host=/a,/b",
            "postgres://u@db:1/app?hostaddr=::1",
        ] {
            let error = error_of(url);
            assert!(error.contains("name them once"), "{error}");
        }
    }

    #[test]
    fn modes_of_encryption_are_those_of_postgresql() {
        for (query, ssl, trust) in [
            ("", SslMode::Prefer, Trust::Any),
            ("?sslmode=disable", SslMode::Disable, Trust::Any),
            ("?sslmode=require", SslMode::Require, Trust::Any),
            (
                "?sslmode=require&sslrootcert=ca",
                SslMode::Require,
                Trust::Authority(Roots::File("ca".into())),
            ),
            (
                "?sslmode=verify-ca",
                SslMode::Require,
                Trust::Authority(Roots::System),
            ),
            (
                "?sslmode=verify-full&sslrootcert=system",
                SslMode::Require,
                Trust::Name(Roots::System),
            ),
        ] {
            let address = Address::parse(&format!("postgres://db/app{query}")).unwrap();
            let found = (address.config.get_ssl_mode(), address.trust);
            assert_eq!(found, (ssl, trust), "{query}");
        }
    }

    #[test]
    fn errors_do_not_show_the_password() {
        for url in [
            "postgres://ana:secret@db/app?sslmode=sometimes",
            "postgres://ana:secret@db/app?schema=a-b",
            "postgres://ana:secret@db/app?unknown=secret",
            "postgres://ana:secret@db:port/app",
            "postgres://db/app?password=secret&schema=pg_x",
            "postgres://ana:sec?ret=secret@db:port/app",
        ] {
            let error = error_of(url);
            assert!(
                !error.contains("secret") && !error.contains("ana"),
                "{error}"
            );
            assert!(error.contains("db"), "{error}");
        }
    }
}
