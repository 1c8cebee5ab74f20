//! The sources of decisions about calls: rules, trust and people.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::permission::rules::Permission;

/// A permission with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionDecision {
    /// The disposition of the call.
    pub permission: Permission,
    /// The source of the decision.
    pub by: DecisionSource,
}

/// The source of a decision about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecisionSource {
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
        /// The id of the grant.
        grant: String,
    },
    /// The prompt declares the tool and is not trusted.
    NotTrusted {
        /// The id of the grant.
        grant: String,
    },
    /// The tool only reads below the prompt's directory.
    Harmless,
    /// The prompt declares the tool, and no rule applies.
    Declared,
    /// An equal call was interrupted, or ran in a turn that failed.
    Interrupted,
    /// A fork of the conversation makes the call, which may change something.
    Fork,
    /// A person at the terminal.
    Terminal {
        /// Whether the decision was made for this call only, not for its tool.
        asked: bool,
    },
    /// A person, by a signal.
    Signal {
        /// The signal.
        signal_id: String,
        /// The name of the person, if the signal contains one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_by: Option<String>,
    },
    /// No decision was made in time.
    Expired {
        /// The signal that was expected.
        signal_id: String,
        /// The timeout in seconds.
        seconds: u64,
    },
    /// Approval was required in an agent, where it cannot be requested.
    Unattended {
        /// The source of the requirement.
        why: Box<DecisionSource>,
    },
    /// The decision could not be recorded, so it does not count.
    Unrecorded,
}

impl DecisionSource {
    /// Returns the result of a call that a rule denies, for the model.
    pub(crate) fn refusal(&self, tool: &str) -> String {
        match self {
            Self::Unattended { why } => {
                let why = match **why {
                    Self::NotTrusted { .. } => "the prompt that declares it is not trusted",
                    Self::Fork => {
                        "a person has to approve each call of a fork that may change something"
                    }
                    _ => "a person has to approve it",
                };
                format!(
                    "tool_not_permitted: the tool `{tool}` was not run: {why}, and approval is unavailable \
                     while an agent runs. Continue without it, and state what you could not do."
                )
            }
            _ => format!(
                "tool_not_permitted: the tool `{tool}` may not be used in this conversation, so the call was not run."
            ),
        }
    }
}
