//! Access tokens of a chat server, and what each permits.

use std::fmt;

use logue_harness::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::remote::Remote;

/// A permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenScope {
    /// Reads sessions and their events.
    Read,
    /// Sends messages, cancels and branches sessions.
    Send,
    /// Decides about calls that wait for a person.
    Approve,
    /// Reads hidden channels, where the server allows it.
    Debug,
}

impl TokenScope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Read, Self::Send, Self::Approve, Self::Debug];

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Send => "send",
            Self::Approve => "approve",
            Self::Debug => "debug",
        }
    }

    /// Returns the scope of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A token as a server stores it: by its hash.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AccessToken {
    /// The name, by which it is listed and revoked.
    pub name: String,
    /// The SHA-256 hash of the token, in hexadecimal digits.
    pub hash: String,
    /// The SHA-256 hash of the cookie that is derived from the token, in hexadecimal digits.
    #[serde(default)]
    pub cookie_hash: String,
    /// The permissions.
    pub scopes: Vec<TokenScope>,
    /// The agents that it may use; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The time of creation, in milliseconds since 1970.
    pub created_at: u64,
    /// The time at which it expires, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl AccessToken {
    /// Creates the record of a token.
    ///
    /// A token has 256 random bits, so that its hash needs no salt.
    pub fn new(
        name: impl Into<String>,
        secret: &str,
        scopes: Vec<TokenScope>,
        now: Timestamp,
    ) -> Self {
        Self {
            name: name.into(),
            hash: hash(secret),
            cookie_hash: hash(&cookie_of(secret)),
            scopes,
            agents: Vec::new(),
            created_at: now.0,
            expires_at: None,
        }
    }

    /// Creates a token that no secret matches.
    ///
    /// It keeps a server closed whose tokens cannot be read.
    pub fn unusable() -> Self {
        Self {
            name: String::new(),
            hash: String::new(),
            cookie_hash: String::new(),
            scopes: Vec::new(),
            agents: Vec::new(),
            created_at: 0,
            expires_at: Some(0),
        }
    }

    /// Sets the agents that the token may use.
    #[must_use]
    pub fn with_agents(mut self, agents: Vec<String>) -> Self {
        self.agents = agents;
        self
    }

    /// Sets the time at which the token expires.
    #[must_use]
    pub fn with_expiry(mut self, at: Option<Timestamp>) -> Self {
        self.expires_at = at.map(|at| at.0);
        self
    }

    /// Returns whether the token has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now.0)
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessToken")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// The tokens of a server.
pub trait AccessTokens: Send + Sync {
    /// Returns the current tokens. Called for each request, and a few times each second.
    fn tokens(&self) -> Vec<AccessToken>;

    /// Returns whether a token has ever existed, also if it is revoked. Called as often.
    ///
    /// A server that is open without tokens is closed from then on.
    fn has_had_token(&self) -> bool {
        !self.tokens().is_empty()
    }
}

/// The party that sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of its token; `None` for a client without one on a loopback address.
    pub(crate) token: Option<String>,
    /// The hash of its token. A name can be given again after its token was revoked.
    pub(crate) token_hash: Option<String>,
    /// The address of its connection.
    pub(crate) remote: Option<Remote>,
    scopes: Vec<TokenScope>,
    agents: Vec<String>,
}

impl Caller {
    /// Returns the caller on a loopback address that needs no token.
    pub(crate) fn local() -> Self {
        Self {
            token: None,
            token_hash: None,
            remote: None,
            scopes: vec![TokenScope::Read, TokenScope::Send, TokenScope::Approve],
            agents: Vec::new(),
        }
    }

    /// Returns the caller that has a token.
    ///
    /// All tokens are compared, each in constant time.
    pub(crate) fn of_token(tokens: &[AccessToken], secret: &str, now: Timestamp) -> Option<Self> {
        Self::of_hash(tokens, |token| &token.hash, &hash(secret), now)
    }

    /// Returns the caller whose browser has the cookie of a token.
    pub(crate) fn of_cookie(tokens: &[AccessToken], cookie: &str, now: Timestamp) -> Option<Self> {
        Self::of_hash(tokens, |token| &token.cookie_hash, &hash(cookie), now)
    }

    fn of_hash(
        tokens: &[AccessToken],
        hash_of: impl Fn(&AccessToken) -> &str,
        given: &str,
        now: Timestamp,
    ) -> Option<Self> {
        let mut found = None;
        for token in tokens {
            if is_equal(hash_of(token), given) && !token.is_expired(now) {
                found = Some(token);
            }
        }
        found.map(|token| Self {
            token: Some(token.name.clone()),
            token_hash: Some(token.hash.clone()),
            remote: None,
            scopes: token.scopes.clone(),
            agents: token.agents.clone(),
        })
    }

    /// Returns whether the caller has this token, with its current permissions.
    pub(crate) fn is_of(&self, token: &AccessToken) -> bool {
        self.token_hash.as_deref() == Some(&*token.hash)
            && self.scopes == token.scopes
            && self.agents == token.agents
    }

    /// Adds the address of the connection.
    pub(crate) fn at(mut self, remote: Option<Remote>) -> Self {
        self.remote = remote;
        self
    }

    /// Returns the name under which the client is counted: its token, or its address without one.
    pub(crate) fn limit_key(&self) -> String {
        match (&self.token_hash, self.remote) {
            (Some(hash), _) => format!("token {hash}"),
            (None, Some(remote)) => remote.limit_key(),
            (None, None) => String::new(),
        }
    }

    pub(crate) fn has(&self, scope: TokenScope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Returns whether the caller may use an agent.
    pub(crate) fn may_use(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|own| own == agent)
    }
}

/// The name of the cookie of the page.
pub(crate) const COOKIE: &str = "logue";

/// Returns the cookie of a token, from which the token cannot be computed.
pub(crate) fn cookie_of(secret: &str) -> String {
    hash(&format!("logue cookie\0{secret}"))
}

/// Returns the hash under which a token is stored.
fn hash(secret: &str) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(secret.as_bytes()) {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    text
}

/// Compares in constant time.
fn is_equal(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    let differences = pairs.fold(0_u8, |found, (one, other)| found | (one ^ other));
    differences == 0 && one.len() == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_or_unknown_token_has_no_caller() {
        let now = Timestamp(1_000);
        let scopes = vec![TokenScope::Read];
        let valid = AccessToken::new("a", "secret-a", scopes.clone(), now);
        let expired =
            AccessToken::new("b", "secret-b", scopes, now).with_expiry(Some(Timestamp(999)));
        let tokens = [valid, expired];
        let caller = Caller::of_token(&tokens, "secret-a", now);
        assert_eq!(caller.and_then(|caller| caller.token), Some("a".to_owned()));
        assert_eq!(Caller::of_token(&tokens, "secret-b", now), None);
        assert_eq!(Caller::of_token(&tokens, "secret-c", now), None);
        assert_eq!(Caller::of_token(&tokens, "", now), None);
    }

    #[test]
    fn a_stored_token_does_not_contain_its_secret() {
        let token = AccessToken::new("a", "secret-a", vec![TokenScope::Send], Timestamp(0));
        let text = serde_json::to_string(&token).unwrap_or_default();
        assert!(!text.contains("secret-a"), "{text}");
    }
}
