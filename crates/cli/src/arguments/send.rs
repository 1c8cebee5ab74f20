//! The command line of `logue send`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use logue_agent::PermissionRule;
use logue_harness::chat::{BusyPolicy, PausedPolicy};

use crate::age::parse_age;
use crate::arguments::{CrashArgs, DisplayArgs, ModelArgs, StoreArgs, TrustArgs};

/// Send a message to a session and print the answer
///
/// Creates the session if it does not exist. The message is stored before its turn runs. The turns of
/// a session run one at a time across processes, and the next command recovers the turn of a killed
/// process. Exit status 6: the turn requires a decision, see `logue signal`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue send --agent examples/echo/prompt.md greeting \"Hello\"\n  \
    logue send greeting \"And again\"\n  \
    logue send --idempotency-key order-17 --busy reject orders \"Ship order 17\"\n  \
    logue send --agent ops.md --permission shell=ask ops \"Restart the service\"")]
pub(crate) struct SendArgs {
    /// Session id
    pub(crate) session: String,

    /// Text of the message; `-` reads it from standard input
    #[arg(required = true, value_name = "MESSAGE")]
    pub(crate) message: Vec<String>,

    /// Answer with this ChatMD prompt; the session stores its path
    #[arg(long, value_name = "FILE")]
    pub(crate) agent: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Send the message at most once under this key; later calls print its outcome
    ///
    /// A failed turn is tried again. Another message under the key is an error.
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    pub(crate) idempotency_key: Option<String>,

    /// Choose the policy while another turn of the session runs
    #[arg(long, value_enum, default_value_t = Busy::Enqueue)]
    pub(crate) busy: Busy,

    /// Choose the policy while a turn of the session is suspended
    #[arg(long, value_enum, default_value_t = Paused::Proceed, hide_short_help = true)]
    pub(crate) while_paused: Paused,

    /// Allow, ask about or deny calls of a tool (`*`: all others); the session stores the rule
    #[arg(long = "permission", value_name = "TOOL=RULE")]
    pub(crate) permissions: Vec<PermissionRule>,

    /// Let `logue sessions prune` remove the session this long after its last change
    #[arg(long, value_name = "DURATION", value_parser = parse_age, hide_short_help = true)]
    pub(crate) ttl: Option<Duration>,

    #[command(flatten)]
    pub(crate) crash: CrashArgs,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    /// Print events as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// The policy while another turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Busy {
    /// Run the message after the other turn.
    Enqueue,
    /// Reject the message and exit with 7.
    Reject,
    /// Cancel the other turn and keep its completed parts.
    Interrupt,
    /// Cancel the other turn and discard its parts, except for started calls.
    Rollback,
}

impl From<Busy> for BusyPolicy {
    fn from(busy: Busy) -> Self {
        match busy {
            Busy::Enqueue => Self::Enqueue,
            Busy::Reject => Self::Reject,
            Busy::Interrupt => Self::Interrupt,
            Busy::Rollback => Self::Rollback,
        }
    }
}

/// The policy while a turn is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paused {
    /// Run the message; the suspended turn resumes after it.
    Proceed,
    /// Reject the message and exit with 3.
    Reject,
}

impl From<Paused> for PausedPolicy {
    fn from(paused: Paused) -> Self {
        match paused {
            Paused::Proceed => Self::Proceed,
            Paused::Reject => Self::Reject,
        }
    }
}

/// The maximum length of an idempotency key, in characters.
const MAX_KEY_CHARS: usize = 256;

/// Parses an idempotency key.
fn parse_key(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0 => Err("the key is empty".to_owned()),
        1..=MAX_KEY_CHARS => Ok(text.to_owned()),
        count => Err(format!(
            "the key has {count} characters, at most {MAX_KEY_CHARS} are possible"
        )),
    }
}
