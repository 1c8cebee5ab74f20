//! Answers of agents that need not be asked for again.
//!
//! The key is everything that the model is sent: model, settings, tools, and the evaluated messages
//! with the text of every document in them. So a change of any of these is another question, and
//! nothing stale is ever told for a prompt that was edited.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use logue_message::{ChatMessage, ToolDefinition};
use logue_model::Settings;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::files::atomic_file::private;
use crate::transcript::redaction::Redaction;

/// Answers that are kept; beyond it the oldest are removed.
const KEPT: usize = 1000;

/// A folder of answers, each for a limited time.
#[derive(Clone, Debug)]
pub struct AnswerCache {
    folder: PathBuf,
    lifetime: Duration,
    redaction: Redaction,
}

impl AnswerCache {
    /// A cache in `folder`, which is made when it is needed. An answer counts for `lifetime`.
    pub fn new(folder: PathBuf, lifetime: Duration) -> Self {
        Self {
            folder,
            lifetime,
            redaction: Redaction::default(),
        }
    }

    /// The same, but an answer in which something matches is not kept.
    #[must_use]
    pub fn without(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// The answer to that question, if there is one that is young enough.
    pub fn get(&self, key: &str) -> Option<String> {
        let path = self.folder.join(key);
        let age = SystemTime::now().duration_since(fs::metadata(&path).ok()?.modified().ok()?);
        if age.is_ok_and(|age| age > self.lifetime) {
            return None;
        }
        fs::read_to_string(path).ok()
    }

    /// Keeps an answer. A cache that cannot be written costs a later request and nothing else, so
    /// failures are not told.
    pub fn put(&self, key: &str, answer: &str) {
        if self.redaction.finds(answer) {
            return;
        }
        let made = fs::create_dir_all(&self.folder);
        let written = made.and_then(|()| {
            // The name is complete at every moment, so nobody reads half an answer.
            let unfinished = self.folder.join(format!("{key}.{}", std::process::id()));
            let mut file = private(
                fs::OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true),
            )
            .open(&unfinished)?;
            file.write_all(answer.as_bytes())?;
            fs::rename(&unfinished, self.folder.join(key))
        });
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
                // Somebody else may have removed it.
                let _removed = fs::remove_file(path);
            }
        }
    }
}

/// The key of a question: a hash of everything that the model is sent.
pub(crate) fn key_of(
    model: &str,
    settings: &Settings,
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
    for (name, value) in settings.further() {
        question[name] = value;
    }
    format!("{:x}", Sha256::digest(question.to_string()))
}
