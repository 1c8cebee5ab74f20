//! Cached responses of agents.
//!
//! The key covers everything that the model receives: model, settings, tools, and the evaluated
//! messages with the text of every document. So any change is a new key, and an edited prompt never
//! gets a stale response.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use logue_message::{ChatMessage, ToolDefinition};
use logue_model::SamplingSettings;
use logue_tools::{FileOwners, private_folder, replace_private_file};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::transcript::redaction::Redaction;

/// The maximum number of cached responses; the oldest are removed.
const KEPT: usize = 1000;

/// A directory of responses with a limited lifetime.
#[derive(Clone, Debug)]
pub struct ResponseCache {
    folder: PathBuf,
    lifetime: Duration,
    redaction: Redaction,
    owners: FileOwners,
}

impl ResponseCache {
    /// A cache in `folder`, which is created when required. A response is valid for `lifetime`.
    pub fn new(folder: PathBuf, lifetime: Duration) -> Self {
        Self {
            folder,
            lifetime,
            redaction: Redaction::default(),
            owners: FileOwners::default(),
        }
    }

    /// Sets the users whose responses are used.
    #[must_use]
    pub fn with_owners(self, owners: FileOwners) -> Self {
        Self { owners, ..self }
    }

    /// Excludes responses that match a pattern.
    #[must_use]
    pub fn without(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Returns the cached response for a key, unless it has expired.
    pub fn get(&self, key: &str) -> Option<String> {
        let mut file = self.owners.open(&self.folder.join(key)).ok()?;
        let age = SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?);
        if age.is_ok_and(|age| age > self.lifetime) {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Caches a response.
    ///
    /// A failure only costs a later request, so it is not reported.
    pub fn put(&self, key: &str, answer: &str) {
        if self.redaction.finds(answer) {
            return;
        }
        let made = private_folder(&self.folder);
        // The final name never leads to an incomplete response.
        let path = self.folder.join(key);
        let written = made.and_then(|()| replace_private_file(&path, answer.as_bytes()));
        if written.is_ok() {
            self.prune();
        }
    }

    fn prune(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut files: Vec<(SystemTime, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
            })
            .collect();
        if files.len() > KEPT {
            files.sort();
            for (_, path) in files.iter().take(files.len() - KEPT) {
                // Another process may have removed it.
                let _removed = fs::remove_file(path);
            }
        }
    }
}

/// Returns the key of a request: a hash of everything that the model receives.
pub(crate) fn key_of(
    model: &str,
    settings: &SamplingSettings,
    tools: &[ToolDefinition],
    history: &[ChatMessage],
) -> String {
    let messages: Vec<Value> = history.iter().map(ChatMessage::to_json).collect();
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| json!([tool.name, tool.description, tool.parameters]))
        .collect();
    let mut question = json!({
        "model": model,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "reasoning_effort": settings.reasoning_effort,
        "tools": tools,
        "messages": messages,
    });
    for (name, value) in settings.secondary() {
        question[name] = value;
    }
    format!("{:x}", Sha256::digest(question.to_string()))
}
