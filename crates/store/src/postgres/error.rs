//! Errors of the database in terms of the port.

use std::sync::Arc;

use logue_harness::Timestamp;
use logue_harness::store::{SessionLocation, StoreError};
use rustls::CertificateError;
use tokio_postgres::error::SqlState;

/// The state of a statement on a session that another store continues.
const ELSEWHERE: &str = "LG001";

/// The remedy of a server that requires a password.
const PASSWORD: &str =
    "write it into the address, `PGPASSWORD` or `~/.pgpass`, which only its owner may read";

/// The library's error for a list of hosts without a primary.
const NO_WRITES: &str = "database does not allow writes";

/// A statement that did not succeed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) fate: Fate,
    pub(super) error: StoreError,
}

/// The known effect of a statement that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It had none, and another attempt would fail alike.
    Refused,
    /// It had none, and another attempt may succeed, on another connection.
    Undone,
    /// It had none: the server is only read, until it is promoted.
    OnlyRead,
    /// Its answer was lost: it may have happened.
    Unknown,
}

impl Failure {
    /// A failure to connect: nothing was sent.
    pub(super) fn connecting(shown: &str, error: tokio_postgres::Error) -> Self {
        let mut text = text(&error);
        if text.contains(NO_WRITES) {
            let reason = "no server of the address accepts changes; promote a standby, or end \
                 `default_transaction_read_only`";
            return Self {
                fate: Fate::OnlyRead,
                error: StoreError::ReadOnly(format!("{shown}: {reason}")),
            };
        }
        let mut refused = error.code().is_some_and(is_refusal);
        if let Some(advice) = untrusted(&error) {
            refused = true;
            text = format!("{text}; {advice}");
        } else if text.contains("password missing") {
            refused = true;
            text = format!("{text}; {PASSWORD}");
        } else if text.contains("authentication failed") {
            // Poolers have another state for it.
            refused = true;
        }
        if refused {
            return Self {
                fate: Fate::Refused,
                error: StoreError::NotAStore(format!("{shown}: {text}")),
            };
        }
        Self {
            fate: Fate::Undone,
            error: StoreError::Unavailable {
                message: format!("{shown}: cannot connect: {text}; check that the server runs"),
                source: Some(Arc::new(error)),
            },
        }
    }

    /// Returns the failure of a store that was opened: the cause may end while the program runs.
    pub(super) fn of_open_store(self) -> Self {
        let Self { fate, error } = self;
        let error = match error {
            StoreError::NotAStore(message) | StoreError::ReadOnly(message) => {
                StoreError::Unavailable {
                    message,
                    source: None,
                }
            }
            error => error,
        };
        Self { fate, error }
    }

    /// A failure of a statement that was sent.
    pub(super) fn answering(shown: &str, error: tokio_postgres::Error) -> Self {
        let text = text(&error);
        let Some(code) = error.code() else {
            return Self {
                fate: if error.is_closed() || is_io(&error) {
                    Fate::Unknown
                } else {
                    Fate::Refused
                },
                error: StoreError::Unavailable {
                    message: format!("{shown}: the connection was lost: {text}"),
                    source: Some(Arc::new(error)),
                },
            };
        };
        if code.code() == ELSEWHERE
            && let Some(error) = elsewhere(&error)
        {
            return Self {
                fate: Fate::Refused,
                error,
            };
        }
        let (fate, advice) = match code.code() {
            "40001" | "40P01" => (Fate::Undone, "too many concurrent changes; try again"),
            "55P03" => (Fate::Undone, "locked by another transaction; try again"),
            "53300" | "53400" => (
                Fate::Undone,
                "the server has no free connection; raise `max_connections`, or use a pooler",
            ),
            "57P03" => (Fate::Undone, "the server starts or stops; try again"),
            "53100" => {
                let advice = "the disk of the server is full; free some space and try again";
                return Self {
                    fate: Fate::Refused,
                    error: StoreError::full(format!("{shown}: {advice} ({text})"), error),
                };
            }
            "53200" => (Fate::Refused, "the server is out of memory; try again"),
            "25006" => (
                Fate::OnlyRead,
                "the server is a standby or read-only; name the primary, or several hosts",
            ),
            "42501" => (
                Fate::Refused,
                "the role of this server lacks a right; grant it and try again",
            ),
            "57014" => (
                Fate::Refused,
                "the server cancelled the statement, as `statement_timeout` says",
            ),
            // The commit may have come before the end of the connection.
            "57P01" | "57P02" => (Fate::Unknown, "the connection was ended by the server"),
            state if state.starts_with("08") => (Fate::Unknown, "the connection was lost"),
            state if state.starts_with("XX") => {
                return Self {
                    fate: Fate::Refused,
                    error: StoreError::Damaged(format!(
                        "{shown}: {text}; restore a backup of the database"
                    )),
                };
            }
            _ if is_refusal(code) => {
                return Self {
                    fate: Fate::Refused,
                    error: StoreError::NotAStore(format!("{shown}: {text}")),
                };
            }
            _ => (Fate::Refused, "unexpected error of the database"),
        };
        Self {
            fate,
            error: StoreError::Unavailable {
                message: format!("{shown}: {advice} ({text})"),
                source: Some(Arc::new(error)),
            },
        }
    }

    /// Nothing was sent, because something took too long.
    pub(super) fn waiting(shown: &str, what: &str) -> Self {
        Self {
            fate: Fate::Undone,
            error: unavailable(shown, what),
        }
    }

    /// Returns the error, which says that the effect is unknown if it is.
    pub(super) fn into_error(self) -> StoreError {
        match (self.fate, self.error) {
            (Fate::Unknown, StoreError::Unavailable { message, source }) => {
                StoreError::Unavailable {
                    message: format!("{message}; whether the change was made is unknown"),
                    source,
                }
            }
            (_, error) => error,
        }
    }
}

/// Returns the error of a database that cannot be used now.
pub(super) fn unavailable(shown: &str, what: &str) -> StoreError {
    StoreError::Unavailable {
        message: format!("{shown}: {what}"),
        source: None,
    }
}

/// Returns the error of a session that does not exist.
pub(super) fn missing(session: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("session `{session}`"),
    }
}

/// Returns the error of a session with a damaged record.
pub(super) fn damaged(session: &str, what: &str) -> StoreError {
    StoreError::Damaged(format!(
        "the session `{session}` is damaged ({what}): `logue sessions verify` names each place, \
         and `logue sessions repair` mends them"
    ))
}

/// Returns the error of a session that another store continues.
fn elsewhere(error: &tokio_postgres::Error) -> Option<StoreError> {
    let error = error.as_db_error()?;
    let owner = unhex(error.message())?;
    let session = unhex(error.detail()?)?;
    let location = SessionLocation::from_lease(Some((&owner, Timestamp(u64::MAX))));
    location.check(&session).err()
}

/// Reads a text in hexadecimal digits.
fn unhex(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

/// Returns whether a state says that the address, its user or its rights are wrong.
fn is_refusal(code: &SqlState) -> bool {
    let state = code.code();
    ["28", "3D", "3F", "42"]
        .iter()
        .any(|class| state.starts_with(class))
}

/// Returns the remedy if the certificate of the server was refused.
fn untrusted(error: &tokio_postgres::Error) -> Option<&'static str> {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    let inner = cause.and_then(std::io::Error::get_ref)?;
    let Some(rustls::Error::InvalidCertificate(reason)) = inner.downcast_ref() else {
        return None;
    };
    Some(match reason {
        CertificateError::UnknownIssuer => {
            "name the certificate of the authority that signed it: `sslrootcert=FILE`"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "name the host as the certificate does, or use `sslmode=verify-ca`"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the certificate of the server"
        }
        // The library has no variant of its own for it.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the certificate of the server is one of an authority (`CA:TRUE`), as `openssl req -x509` \
             creates it; create one with `-addext basicConstraints=critical,CA:FALSE`, or sign one by \
             an authority and name that: `sslrootcert=FILE`"
        }
        _ => "check the certificate of the server and `sslrootcert`",
    })
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        if cause.is::<std::io::Error>() {
            return true;
        }
        next = cause.source();
    }
    false
}

/// Returns the message of the server or of the connection.
fn text(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}
