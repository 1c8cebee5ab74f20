//! Digests of requests with an idempotency key.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::problem::Problem;

/// The digest of a request, to which its idempotency key is bound.
#[derive(Clone, Debug)]
pub(crate) struct RequestDigest {
    /// The digest of the body with the header.
    pub(crate) whole: String,
    /// The digest of the body alone.
    pub(crate) body: String,
    /// The header that is part of the request.
    header: Option<&'static str>,
}

impl RequestDigest {
    /// Returns the digest of a request that consists of its body.
    pub(crate) fn of_body(body: &Value) -> Self {
        let body = body_digest(body);
        Self {
            whole: body.clone(),
            body,
            header: None,
        }
    }

    /// Returns the digest of a body with a header; `whole` contains both.
    pub(crate) fn with_header(header: &'static str, whole: &Value, body: &Value) -> Self {
        Self {
            whole: body_digest(whole),
            body: body_digest(body),
            header: Some(header),
        }
    }

    /// Checks that the request is the one to which its key is bound.
    ///
    /// `body` is the digest of that request's body, if it is known.
    ///
    /// # Errors
    /// Returns a problem that names what differs.
    pub(crate) fn require(
        &self,
        key: &str,
        whole: &str,
        body: Option<&str>,
    ) -> Result<(), Problem> {
        if self.whole == whole {
            return Ok(());
        }
        let header = self.header.filter(|_| body == Some(self.body.as_str()));
        let difference = header.map_or("body".to_owned(), |name| format!("`{name}`"));
        Err(Problem::key_reused(key, &difference))
    }
}

/// Returns the digest of a body, whose members may have any order.
fn body_digest(body: &Value) -> String {
    let mut body = body.clone();
    body.sort_all_objects();
    format!("{:x}", Sha256::digest(body.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_members_is_not_part_of_a_body() {
        let digest = |text: &str| body_digest(&serde_json::from_str(text).unwrap());
        let one = digest(r#"{"a": [{"b": 1, "c": "x"}], "d": null}"#);
        assert_eq!(digest(r#"{"d":null,"a":[{"c":"\u0078","b":1}]}"#), one);
        assert_ne!(digest(r#"{"d":null,"a":[{"c":"y","b":1}]}"#), one);
        assert_ne!(digest("[1, 2]"), digest("[2, 1]"));
    }
}
