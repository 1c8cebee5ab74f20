//! SHA-256 digests in the form that people and models read.

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 digest of `content` as lower-case hexadecimal digits.
pub(crate) fn sha256(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}
