//! Addresses for messages and logs.

use std::borrow::Cow;

/// Returns an address for messages, without its password and query.
///
/// A user name is kept if it has no password.
///
/// ```
/// use logue_store::redacted_address;
///
/// assert_eq!(redacted_address("postgres://ana:secret@host/db"), "postgres://[redacted]@host/db");
/// assert_eq!(redacted_address("postgres://ana@host/db"), "postgres://ana@host/db");
/// assert_eq!(redacted_address("postgres://host/db?password=x"), "postgres://host/db?[redacted]");
/// assert_eq!(redacted_address("sqlite:a@b.db"), "sqlite:a@b.db");
/// ```
pub fn redacted_address(url: &str) -> Cow<'_, str> {
    let Some((scheme, location)) = url.split_once("://") else {
        return url.into();
    };
    // A password may contain any of `@/?`; the host follows the last `@`.
    let (user, location) = match location.rsplit_once('@') {
        Some((user, location)) if user.contains(':') => ("[redacted]@".into(), location),
        Some((user, location)) => (format!("{user}@"), location),
        None => (String::new(), location),
    };
    match location.split_once('?') {
        Some((location, _)) => format!("{scheme}://{user}{location}?[redacted]").into(),
        None if user.is_empty() => url.into(),
        None => format!("{scheme}://{user}{location}").into(),
    }
}
