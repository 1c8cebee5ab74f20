//! Removal of secrets from error messages.

use crate::ProviderError;

/// Replaces every occurrence of the secrets in the message of `error`.
///
/// Servers and libraries may quote the API key, or the password of the URL.
pub(crate) fn redact<'s>(
    mut error: ProviderError,
    secrets: impl IntoIterator<Item = &'s str>,
) -> ProviderError {
    for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
        error.message = error.message.replace(secret, "[secret]");
    }
    error
}
