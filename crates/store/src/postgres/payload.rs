//! Large bodies: they lie in a table by their hash, and rows refer to them.
//!
//! A fork copies rows, and so shares the bodies. The last session that refers to one takes it along.

use logue_harness::store::StoreError;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::encoding::written_message;

/// The length above which a body is a payload, in bytes.
const LARGE: usize = 8 * 1024;

/// The payloads of a statement.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    pub(super) hashes: Vec<Vec<u8>>,
    pub(super) payloads: Vec<String>,
}

impl Bodies {
    /// Returns what a row keeps of a body.
    pub(super) fn kept(&mut self, body: String) -> String {
        if body.len() <= LARGE {
            return body;
        }
        let hash = Sha256::digest(body.as_bytes());
        let kept = format!("#{hash:x}");
        self.hashes.push(hash.to_vec());
        self.payloads.push(body);
        kept
    }

    /// Returns what rows keep of messages.
    pub(super) fn messages(&mut self, messages: &[Value]) -> Result<Vec<String>, StoreError> {
        let mut kept = Vec::with_capacity(messages.len());
        for message in messages {
            kept.push(self.kept(written_message(message)?));
        }
        Ok(kept)
    }
}
