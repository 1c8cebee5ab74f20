//! Log probabilities of the tokens of a response.

/// A token of visible text with its log probability.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TokenLogprob {
    /// The sampled token.
    pub token: ScoredToken,
    /// The most likely tokens at its position, the likeliest first.
    pub alternatives: Vec<ScoredToken>,
}

/// A token and its log probability.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScoredToken {
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The exact bytes.
    pub bytes: Vec<u8>,
    /// The log probability.
    pub logprob: f64,
}

/// The log probability of a token whose own is infinite or unknown.
const LEAST: f64 = -9999.0;

impl TokenLogprob {
    /// Creates the log probability of a token without alternatives.
    pub const fn new(token: ScoredToken) -> Self {
        Self {
            token,
            alternatives: Vec::new(),
        }
    }

    /// Returns the token with a part of its bytes.
    pub(crate) fn with_bytes(&self, bytes: &[u8]) -> Self {
        Self {
            token: ScoredToken::new(bytes, Some(self.token.logprob)),
            alternatives: self.alternatives.clone(),
        }
    }

    /// Sets the most likely tokens, in any order.
    #[must_use]
    pub fn with_alternatives(mut self, mut alternatives: Vec<ScoredToken>) -> Self {
        alternatives.sort_by(|one, other| other.logprob.total_cmp(&one.logprob));
        self.alternatives = alternatives;
        self
    }
}

impl ScoredToken {
    /// Creates a token by its bytes.
    pub fn new(bytes: impl Into<Vec<u8>>, logprob: Option<f64>) -> Self {
        let bytes = bytes.into();
        Self {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            bytes,
            logprob: logprob.filter(|own| own.is_finite()).unwrap_or(LEAST),
        }
    }
}
