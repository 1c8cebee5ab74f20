//! Removal of secrets from error messages.

use crate::ProviderError;

/// The least number of characters of a key that is replaced wherever it occurs.
const MIN_SECRET_CHARS: usize = 8;

/// Words that stand for a key where a server requires none.
const PLACEHOLDERS: [&str; 5] = ["ollama", "none", "test", "dummy", "EMPTY"];

/// Returns whether a key is too short or too common to be replaced everywhere.
///
/// Messages would become unreadable: with the key `ollama`, every mention of that program. Such a key
/// is replaced only where it is used as one, in a header or an address.
///
/// ```
/// use logue_model::is_placeholder_key;
///
/// assert!(is_placeholder_key("ollama") && is_placeholder_key("short"));
/// assert!(!is_placeholder_key("sk-abcdefgh"));
/// ```
pub fn is_placeholder_key(key: &str) -> bool {
    key.chars().count() < MIN_SECRET_CHARS || PLACEHOLDERS.contains(&key)
}

/// Returns a base URL, valid or not, without its user information and its query.
///
/// ```
/// use logue_model::redacted_base_url;
///
/// assert_eq!(redacted_base_url("htp://ana:secret@host/v1?key=1"), "htp://[redacted]@host/v1?[redacted]");
/// assert_eq!(redacted_base_url("ana:secret@host/v1"), "[redacted]@host/v1");
/// assert_eq!(redacted_base_url("http://host/v1"), "http://host/v1");
/// ```
pub fn redacted_base_url(url: &str) -> String {
    let (scheme, location) = match url.split_once("://") {
        Some((scheme, location)) => (format!("{scheme}://"), location),
        None => (String::new(), url),
    };
    // A password may contain any of `@/?`; the host follows the last `@`.
    let (user, location) = match location.rsplit_once('@') {
        Some((_, location)) => ("[redacted]@", location),
        None => ("", location),
    };
    match location.split_once('?') {
        Some((location, _)) => format!("{scheme}{user}{location}?[redacted]"),
        None => format!("{scheme}{user}{location}"),
    }
}

/// Replaces every occurrence of the secrets in the message of `error`.
///
/// Servers and libraries may quote the API key, or the password of the URL.
pub(crate) fn redact<'s>(
    mut error: ProviderError,
    secrets: impl IntoIterator<Item = &'s str>,
) -> ProviderError {
    for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
        if !is_placeholder_key(secret) {
            error.message = error.message.replace(secret, "[secret]");
            continue;
        }
        // As the key of a header, and as the password or the query of an address.
        for (before, after) in [("Bearer ", ""), ("x-api-key: ", ""), (":", "@"), ("?", "")] {
            let used = format!("{before}{secret}{after}");
            let replaced = format!("{before}[secret]{after}");
            error.message = error.message.replace(&used, &replaced);
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::redact;
    use crate::{Category, ProviderError};

    #[test]
    fn short_and_common_keys_are_replaced_only_where_they_are_keys() {
        for (secret, message, expected) in [
            ("ollama", "start ollama first", "start ollama first"),
            ("ollama", "sent Bearer ollama", "sent Bearer [secret]"),
            ("EMPTY", "EMPTY", "EMPTY"),
            ("abc1234", "bad key abc1234", "bad key abc1234"),
            (
                "pass",
                "http://ana:pass@host pass",
                "http://ana:[secret]@host pass",
            ),
            (
                "k=abc",
                "http://host/v1?k=abc k=abc",
                "http://host/v1?[secret] k=abc",
            ),
            ("abc12345", "bad key abc12345", "bad key [secret]"),
            ("", "nothing", "nothing"),
        ] {
            let error = ProviderError::new(Category::Authentication, message);
            assert_eq!(redact(error, [secret]).message, expected);
        }
    }
}
