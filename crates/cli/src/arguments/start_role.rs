//! The values of `--next-role` and `--start-role`.

use clap::ValueEnum;
use openchatml::FrameRole;

/// The role of a message whose header precedes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartRole {
    /// Ground rules.
    System,
    /// Instructions.
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

impl From<StartRole> for FrameRole {
    fn from(role: StartRole) -> Self {
        match role {
            StartRole::System => Self::System,
            StartRole::Developer => Self::Developer,
            StartRole::User => Self::User,
            StartRole::Assistant => Self::Assistant,
            StartRole::Tool => Self::Tool,
        }
    }
}
