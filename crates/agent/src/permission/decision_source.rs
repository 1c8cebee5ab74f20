//! What decides about a call: a rule, trust, a person.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::permission::permissions::Permission;

/// What becomes of a call, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// What becomes of it.
    pub permission: Permission,
    /// What says so.
    pub by: Authority,
}

/// Who or what decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Authority {
    /// A rule of the command line, or one that the session remembers.
    Flag {
        /// The rule.
        rule: String,
    },
    /// A rule of a configuration file.
    Config {
        /// The file.
        path: PathBuf,
        /// The rule.
        rule: String,
    },
    /// The prompt declares the tool, and the user trusts the prompt.
    Trust {
        /// What its declarations are known by.
        grant: String,
    },
    /// The prompt declares the tool, and nobody trusts the prompt.
    NotTrusted {
        /// What its declarations are known by.
        grant: String,
    },
    /// What the tool can do: it only reads below the prompt's folder.
    Harmless,
    /// Nothing says otherwise, and the prompt declares the tool.
    Declared,
    /// A person at the terminal.
    Terminal {
        /// Whether they were asked now, or said it of all calls of this tool in this run.
        asked: bool,
    },
    /// A person, by a signal.
    Signal {
        /// The signal.
        signal_id: String,
    },
    /// Nobody decided in time.
    Expired {
        /// The signal that did not come.
        signal_id: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A person was to be asked, and nobody can be where the call was made: an agent runs.
    Unattended {
        /// Why a person was to be asked.
        why: Box<Authority>,
    },
    /// The decision could not be recorded, so it does not count.
    Unrecorded,
}

impl Authority {
    /// The reason for the model why a call is not run, by a rule and not by a person.
    pub(crate) fn refusal(&self, tool: &str) -> String {
        match self {
            Self::Unattended { why } => {
                let why = match **why {
                    Self::NotTrusted { .. } => "the prompt that declares it is not trusted",
                    _ => "a person has to consent to it",
                };
                format!(
                    "tool_not_permitted: the tool `{tool}` was not run: {why}, and nobody can be asked while \
                     an agent runs. Go on without it, and say what you could not do."
                )
            }
            _ => format!(
                "tool_not_permitted: the tool `{tool}` may not be used in this conversation, so the call was not run."
            ),
        }
    }
}
