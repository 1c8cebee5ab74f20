//! The command line of conversations that are kept in a store.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use logue_agent::PermissionRule;
use logue_harness::chat::{BusyPolicy, PausedPolicy};

use crate::conversion::form::Form;

use crate::arguments::{Asking, TrustArgs};

/// Where sessions are kept.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    /// Where sessions are kept, `sqlite:PATH` [default: sqlite:sessions.db in the user's data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// Say a message in a session and print the answer
///
/// The session is made if there is none. The message is stored before anything runs, turns of a
/// session run one at a time whichever processes send them, and what a killed process left behind is
/// put in order by the next. Exit status 6: a person has to decide first, see `logue signal`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue send --agent examples/echo/prompt.md greeting \"Hello\"\n  \
    logue send greeting \"And again\"\n  \
    logue send --idempotency-key order-17 --busy reject orders \"Ship order 17\"\n  \
    logue send --agent ops.md --permission shell=ask ops \"Restart the service\"")]
pub(crate) struct SendArgs {
    /// The session
    pub(crate) session: String,

    /// What to say; `-` reads it from standard input
    #[arg(required = true, value_name = "MESSAGE")]
    pub(crate) message: Vec<String>,

    /// ChatMD prompt that answers; the session remembers it
    #[arg(long, value_name = "FILE")]
    pub(crate) agent: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Name of the message: sent again under it, it is not said again, and its outcome is printed
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,

    /// What to do while another turn of the session runs
    #[arg(long, value_enum, default_value_t = Busy::Enqueue)]
    pub(crate) busy: Busy,

    /// What to do while a turn of the session waits for a person
    #[arg(long, value_enum, default_value_t = Paused::Proceed)]
    pub(crate) while_paused: Paused,

    /// Allow, ask about or deny calls of a tool; `*` names all others. The session stores the rule
    #[arg(long = "permission", value_name = "TOOL=allow|ask|deny")]
    pub(crate) permissions: Vec<PermissionRule>,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) asking: Asking,

    /// Print one JSON event a line instead of the answer
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do while another turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Busy {
    /// Wait for it.
    Enqueue,
    /// Store nothing, and exit with 7.
    Reject,
    /// End it, and keep what it completed.
    Interrupt,
    /// End it, and keep nothing of it.
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

/// What to do while a turn waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paused {
    /// Say the message all the same; the waiting turn goes on behind it.
    Proceed,
    /// Store nothing, and exit with 3.
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

/// Decide what a turn waits for, and print how it goes on
///
/// A turn whose tool needs a person's consent ends with exit status 6 and the name of its signal. The
/// first decision counts: whoever decides again gets the outcome of the first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue signal approve-5f2c01d7a9e4-1 --approve\n  \
    logue signal approve-5f2c01d7a9e4-1 --deny --reason \"not on a Friday\"\n  \
    logue signal approve-5f2c01d7a9e4-1 --payload '{\"approval\": {\"call_1\": \"approve\"}}'")]
pub(crate) struct SignalArgs {
    /// Name of the signal, or id of the invocation that waits
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) decision: DecisionArgs,

    /// Send this text to the model with the decision
    #[arg(long, value_name = "TEXT", conflicts_with = "payload")]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) asking: Asking,

    /// Print one JSON event a line instead of the answer
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is decided.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct DecisionArgs {
    /// Let the tools run
    #[arg(long)]
    pub(crate) approve: bool,

    /// Let them not run; the model is told so
    #[arg(long)]
    pub(crate) deny: bool,

    /// End the waiting of a turn whose time is over, as denied
    #[arg(long)]
    pub(crate) expire: bool,

    /// What the turn is given, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
}

/// What is done with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    List(ListArgs),
    Show(ShowArgs),
    Outcomes(OutcomesArgs),
    Fork(ForkArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Rm(RmArgs),
    Verify(VerifyArgs),
}

/// List sessions, the one that changed last first
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only sessions whose id begins so
    pub(crate) prefix: Option<String>,

    /// At most so many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print one JSON object a session
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show a session: its messages, what waits in its inbox, and what waits for a person
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session, or with --audit the file of a conversation
    pub(crate) session: String,

    /// Show what was decided about calls of tools, and by what
    #[arg(long)]
    pub(crate) audit: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the outcomes of a session's turns
///
/// Prints the stored outcomes and ends. With --follow the later ones are printed as they come.
#[derive(Debug, Args)]
pub(crate) struct OutcomesArgs {
    /// The session
    pub(crate) session: String,

    /// Print only the outcomes after this one
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<u64>,

    /// Wait for further outcomes
    #[arg(long)]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a session that begins like another one
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The session that there is
    pub(crate) session: String,

    /// The session to make
    pub(crate) new: String,

    /// Copy only the first N messages
    #[arg(long, value_name = "N")]
    pub(crate) messages: Option<u64>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Print a session's messages in another form
///
/// `json` is exact and can be imported again; what another form cannot hold is listed on standard
/// error. Messages that only say what waits for a person are left out of the others.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The session
    pub(crate) session: String,

    /// Form of the output
    #[arg(long, value_name = "FORM", value_parser = Form::parser(), default_value = "json")]
    pub(crate) to: Form,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Make a session of a conversation in a file
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// File with the conversation; `-` is standard input
    pub(crate) file: PathBuf,

    /// The session to make
    pub(crate) session: String,

    /// Form of the file, where its content does not say it
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) from: Option<Form>,

    /// ChatMD prompt that answers; the session remembers it
    #[arg(long, value_name = "FILE")]
    pub(crate) agent: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Remove sessions for good
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// The sessions
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Check what is stored, and exit with 8 if something is wrong
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this session
    pub(crate) session: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
