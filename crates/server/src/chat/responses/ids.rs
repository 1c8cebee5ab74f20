//! Ids of responses, of their items and of requests for approval.
//!
//! An id contains what it names, so that no table is required to find it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A response: an entry of the inbox of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseId {
    pub(crate) session: String,
    pub(crate) entry: u64,
}

impl ResponseId {
    pub(crate) fn new(session: &str, entry: u64) -> Self {
        let session = session.to_owned();
        Self { session, entry }
    }

    /// Parses an id; `None` if it is not one of this server.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = decoded(text.strip_prefix("resp_")?)?;
        let (entry, session) = text.split_once('.')?;
        let entry = entry.parse().ok()?;
        (!session.is_empty() && entry > 0).then(|| Self::new(session, entry))
    }

    /// Returns the part of the id that its items share.
    pub(crate) fn suffix(&self) -> String {
        encoded(&format!("{}.{}", self.entry, self.session))
    }
}

impl std::fmt::Display for ResponseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "resp_{}", self.suffix())
    }
}

/// A call that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApprovalId {
    pub(crate) signal: String,
    pub(crate) call: String,
}

impl ApprovalId {
    pub(crate) fn new(signal: &str, call: &str) -> Self {
        let (signal, call) = (signal.to_owned(), call.to_owned());
        Self { signal, call }
    }

    /// Parses an id; `None` if it is not one of this server.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = decoded(text.strip_prefix("mcpr_")?)?;
        let (signal, call) = text.split_once('\n')?;
        Some(Self::new(signal, call))
    }
}

impl std::fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "mcpr_{}",
            encoded(&format!("{}\n{}", self.signal, self.call))
        )
    }
}

fn encoded(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_contain_what_they_name() {
        for session in ["s1", "a.b", "Grüße/1", "0193-4"] {
            let id = ResponseId::new(session, 17);
            assert_eq!(ResponseId::parse(&id.to_string()), Some(id));
        }
        let id = ApprovalId::new("approve-1-1", "call\n.1");
        assert_eq!(ApprovalId::parse(&id.to_string()), Some(id));
        for text in ["", "resp_", "resp_x", "s1", "resp_MC5z", "chatcmpl-1"] {
            assert_eq!(ResponseId::parse(text), None, "{text}");
        }
    }
}
