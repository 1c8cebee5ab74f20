//! Pairs of preference: edited calls, and sessions that continue the same messages differently.

use std::collections::BTreeMap;

use logue_message::Role;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Stored;
use super::row::{as_run, end_of_turn, hash, openai};
use crate::exit::CliError;

/// Returns a pair for each message with edited calls: what a person let run, and what the model asked.
pub(super) fn of_edits(stored: &Stored, keeps_reasoning: bool) -> Result<Vec<Value>, CliError> {
    let mut rows = Vec::new();
    let ran = as_run(&stored.messages, &stored.decisions);
    for (index, message) in stored.messages.iter().enumerate() {
        let is_edited = message.tool_calls.iter().any(|call| {
            let decisions = stored.decisions.iter();
            decisions
                .filter(|one| one.call == call.id)
                .any(|one| one.edited.is_some())
        });
        if !is_edited {
            continue;
        }
        let before = stored.messages.get(..index).unwrap_or_default();
        let one = |messages: &[logue_message::ChatMessage]| {
            openai(
                messages.get(index..=index).unwrap_or_default(),
                keeps_reasoning,
            )
        };
        rows.push(json!({
            "prompt": openai(before, keeps_reasoning)?,
            "chosen": one(&ran)?,
            "rejected": one(&stored.messages)?,
            "reason": "edit",
            "session": stored.info.session,
            "sha256": hash(&stored.messages),
        }));
    }
    Ok(rows)
}

/// The continuations of all sessions, by the hash of the messages before them.
#[derive(Default)]
pub(super) struct Branches {
    /// For the hash of a beginning: the continuations, each with its first session.
    continuations: BTreeMap<[u8; 32], Vec<Continuation>>,
    sessions: usize,
}

struct Continuation {
    /// The hash of the messages up to the next message of a user.
    hash: [u8; 32],
    session: usize,
    /// The number of messages before it.
    length: usize,
}

/// Two sessions that continue the same messages differently.
pub(super) struct Branch {
    /// The session with the later continuation, by its number.
    pub(super) chosen: usize,
    pub(super) rejected: usize,
    /// The number of common messages.
    pub(super) length: usize,
}

impl Branches {
    /// Adds a session; sessions are numbered in the order of their creation.
    pub(super) fn add(&mut self, stored: &Stored) {
        let number = self.sessions;
        self.sessions += 1;
        let mut before = Sha256::new();
        let mut is_start = false;
        for (index, message) in stored.messages.iter().enumerate() {
            if message.role == Role::Assistant && is_start {
                let end = end_of_turn(&stored.messages, index);
                let mut whole = before.clone();
                for message in stored.messages.iter().take(end).skip(index) {
                    whole.update(message.to_json().to_string().as_bytes());
                }
                let key = before.clone().finalize().into();
                let hash = whole.finalize().into();
                let known = self.continuations.entry(key).or_default();
                if !known.iter().any(|one| one.hash == hash) {
                    known.push(Continuation {
                        hash,
                        session: number,
                        length: index,
                    });
                }
            }
            is_start = message.role == Role::User;
            before.update(message.to_json().to_string().as_bytes());
        }
    }

    /// Returns the pairs: the latest continuation of the same messages against each earlier one.
    pub(super) fn pairs(&self) -> Vec<Branch> {
        let mut pairs = Vec::new();
        for continuations in self.continuations.values() {
            let Some((latest, earlier)) = continuations.split_last() else {
                continue;
            };
            pairs.extend(earlier.iter().map(|one| Branch {
                chosen: latest.session,
                rejected: one.session,
                length: one.length,
            }));
        }
        pairs.sort_by_key(|pair| (pair.chosen, pair.rejected, pair.length));
        pairs
    }
}

/// Returns the pair of two sessions whose first `length` messages are equal.
pub(super) fn of_branch(
    chosen: &Stored,
    rejected: &Stored,
    length: usize,
    keeps_reasoning: bool,
) -> Result<Value, CliError> {
    let before = chosen.messages.get(..length).unwrap_or_default();
    let continuation = |stored: &Stored| {
        let ran = as_run(&stored.messages, &stored.decisions);
        let end = end_of_turn(&ran, length);
        openai(ran.get(length..end).unwrap_or_default(), keeps_reasoning)
    };
    Ok(json!({
        "prompt": openai(before, keeps_reasoning)?,
        "chosen": continuation(chosen)?,
        "rejected": continuation(rejected)?,
        "reason": "branch",
        "session": chosen.info.session,
        "rejected_session": rejected.info.session,
        "sha256": hash(&chosen.messages),
    }))
}
