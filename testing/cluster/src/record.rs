//! The observations of the clients.

use std::collections::{BTreeMap, BTreeSet};

use crate::http::{Answer, Event};

/// The most violations that are kept.
const MOST: usize = 20;

/// The status and the code of a refused request.
pub type Refusal = (u16, String);

/// The observations of the clients.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The keys of messages with an outcome, with their sessions and entries.
    pub acknowledged: BTreeMap<String, (String, u64)>,
    /// The keys of messages whose call a client approved, also without an answer.
    pub approved: BTreeSet<String>,
    /// The keys of turns that ended after too many recoveries.
    pub interrupted_turns: BTreeSet<String>,
    /// The refused requests.
    pub refusals: BTreeMap<Refusal, usize>,
    /// The requests without an answer.
    pub lost_answers: usize,
    /// The connections of listeners.
    pub streams: usize,
    /// The times that a listener had to begin anew.
    pub resets: usize,
    /// The received events of each listener, by session.
    pub events: BTreeMap<String, Vec<Vec<Event>>>,
    /// The violated facts.
    pub violations: Vec<String>,
}

impl Record {
    /// Adds a violated fact.
    pub fn violation(&mut self, text: String) {
        if self.violations.len() < MOST {
            self.violations.push(text);
        }
    }

    /// Counts a refusal, which must be one that asks to try again later.
    pub(crate) fn refuse(&mut self, what: &str, answer: &Answer) {
        let code = answer.body["code"].as_str().unwrap_or_default().to_owned();
        let is_expected = matches!(answer.status, 429 | 503) && answer.has_retry_after;
        if !is_expected {
            let (status, body) = (answer.status, &answer.body);
            self.violation(format!("{what} was refused with {status}: {body}"));
        }
        *self.refusals.entry((answer.status, code)).or_default() += 1;
    }

    /// Notes the outcome of a message; all deliveries of it must have the same entry.
    pub(crate) fn acknowledge(&mut self, key: &str, session: &str, entry: u64) {
        let known = self
            .acknowledged
            .insert(key.to_owned(), (session.to_owned(), entry));
        if let Some((_, known)) = known.filter(|(_, known)| *known != entry) {
            self.violation(format!("{key} is entry {known} and entry {entry}"));
        }
    }
}
