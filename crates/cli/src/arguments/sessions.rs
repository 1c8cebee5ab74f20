//! The command line of `logue sessions`, and the flags of stores.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use logue_harness::chat::OnCrash;

use crate::age::parse_age;
use crate::conversion::form::Form;
use crate::setup::settings::Settings;

use crate::arguments::{DisplayArgs, ModelArgs, SearchArgs, TrustArgs};

/// The store of the sessions.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    /// Store of the sessions; the scheme of the URL selects it: `sqlite:PATH`, `postgres://…` or
    /// `memory:` [default: sessions.db in the user data directory]
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub(crate) store: Option<String>,
    /// Second address of a PostgreSQL store, for notifications, past its pooler
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub(crate) store_listen: Option<String>,
}

/// The policy for turns whose process died.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CrashArgs {
    /// Choose the policy for a turn whose process died [default: continue]
    #[arg(long, value_enum, value_name = "POLICY", hide_short_help = true)]
    on_crash: Option<Crash>,
}

impl CrashArgs {
    /// Returns the policy; the flag takes precedence over the settings.
    pub(crate) fn policy(self, settings: &Settings) -> OnCrash {
        match self.on_crash {
            Some(Crash::Continue) => OnCrash::Continue,
            Some(Crash::Stop) => OnCrash::Stop,
            None => settings.run.on_crash,
        }
    }

    /// Returns the policy of a command whose message follows an interrupted answer.
    ///
    /// Without a flag, the answer stays as it is and is not asked for again.
    pub(crate) fn policy_before_message(self, settings: &Settings) -> OnCrash {
        match self.on_crash {
            Some(_) => self.policy(settings),
            None => OnCrash::Stop,
        }
    }
}

/// The policy for turns whose process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Crash {
    /// Go on from what it had done; no call runs twice.
    Continue,
    /// End it as interrupted and keep what it had done.
    Stop,
}

/// The subcommands of `logue sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    List(ListArgs),
    Search(SearchArgs),
    Show(ShowArgs),
    Outcomes(OutcomesArgs),
    Fork(ForkArgs),
    Rerun(RerunArgs),
    Retry(RetryArgs),
    Recover(RecoverArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Rm(RmArgs),
    Prune(PruneArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Verify(VerifyArgs),
    Repair(RepairArgs),
    Migrate(MigrateArgs),
}

/// List sessions, most recently changed first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue sessions list\n  \
    logue sessions list ask- --limit 5 --json")]
pub(crate) struct ListArgs {
    /// List only sessions whose id has this prefix
    pub(crate) prefix: Option<String>,

    /// List at most N sessions
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// List also the records of requests that `logue serve` keeps for idempotency keys
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the messages, inbox entries and suspended turns of a session
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue sessions show greeting\n  \
    logue sessions show ops --audit")]
pub(crate) struct ShowArgs {
    /// Session id; with --audit also the file of a conversation
    pub(crate) session: String,

    /// Show the decisions about tool calls and their sources
    #[arg(long)]
    pub(crate) audit: bool,

    /// Show the numbered steps of the turns, with their turns, times and states
    #[arg(long, conflicts_with = "audit")]
    pub(crate) steps: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the outcomes of a session's turns
///
/// Prints the stored outcomes and ends; with --follow it prints later ones as they are stored.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions outcomes orders --follow --json")]
pub(crate) struct OutcomesArgs {
    /// Session id
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

/// Copy a session under a new id
///
/// A call without a result in the copy gets the result `E-TOOL-CANCELLED`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue sessions fork ops ops-2\n  \
    logue sessions fork ops ops-2 --messages 4")]
pub(crate) struct ForkArgs {
    /// Id of the existing session
    pub(crate) session: String,

    /// Id of the new session
    pub(crate) new: String,

    /// Copy only the first N messages
    #[arg(long, value_name = "N", conflicts_with = "step")]
    pub(crate) messages: Option<u64>,

    /// Copy only the messages up to step S of `sessions show --steps`
    #[arg(long, value_name = "S")]
    pub(crate) step: Option<u64>,

    /// Copy waiting turns too, and print the signals that the copies wait for
    #[arg(long)]
    pub(crate) with_pending: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Continue a turn from one of its steps in a new session
///
/// Prints the answer. The new session keeps the messages up to step S of `sessions show --steps`; the existing one does
/// not change. No tool runs whose result precedes S. A call at S runs again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue sessions rerun ops --step 3\n  \
    logue sessions rerun ops --step 4 --edit arguments.json --into ops-2")]
pub(crate) struct RerunArgs {
    /// Id of the existing session
    pub(crate) session: String,

    /// Step to continue from
    #[arg(long, value_name = "S")]
    pub(crate) step: u64,

    /// Replace the text of the step, or the arguments of a call, by FILE (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    pub(crate) edit: Option<PathBuf>,

    /// Id of the new session [default: a generated one, which is printed]
    #[arg(long, value_name = "NAME")]
    pub(crate) into: Option<String>,

    #[command(flatten)]
    pub(crate) crash: CrashArgs,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    /// Print events as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Try the latest turn of a session again and print the answer
///
/// A turn that failed after a tool ran continues from the calls and results in the history; no call
/// runs again. Another one begins with its message. A turn whose process died is finished.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions retry ops")]
pub(crate) struct RetryArgs {
    /// Session id
    pub(crate) session: String,

    #[command(flatten)]
    pub(crate) crash: CrashArgs,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    /// Print events as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Finish the turns of processes that died, and print how each ended
///
/// Messages and decisions that were accepted and did not run are processed too. A session that
/// another process works on is skipped. Exit status 4: a turn failed and can be tried again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions recover --all")]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,

    #[command(flatten)]
    pub(crate) crash: CrashArgs,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// The sessions of a command.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WhichArgs {
    /// Session ids
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,

    /// Recover every session with pending work
    #[arg(long)]
    pub(crate) all: bool,
}

/// Print a session's messages in another form
///
/// `json` is exact and can be imported again; losses of other forms are listed on standard error.
/// Placeholder messages of suspended turns are exported to `json` only.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions export ops --to openai > ops.json")]
pub(crate) struct ExportArgs {
    /// Session id
    pub(crate) session: String,

    /// Form of the output
    #[arg(long, value_name = "FORM", value_parser = Form::parser(), default_value = "json")]
    pub(crate) to: Form,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Create a session from the conversation in a file
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions import ops.json ops-copy")]
pub(crate) struct ImportArgs {
    /// File with the conversation; `-` is standard input
    pub(crate) file: PathBuf,

    /// Id of the new session
    pub(crate) session: String,

    /// Form of the file [default: by its content]
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) from: Option<Form>,

    /// Answer with this ChatMD prompt; the session stores its path
    #[arg(long, value_name = "FILE")]
    pub(crate) agent: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Remove sessions permanently
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions rm --yes greeting")]
pub(crate) struct RmArgs {
    /// Session ids
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,

    /// Remove without confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Remove sessions that have not changed for a time, or whose own time is over
///
/// A session with a turn that waits, runs or was interrupted is kept and reported. `send --ttl` gives
/// a session a time of its own. Prints the removed sessions.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[command(after_help = "Example:\n  \
    logue sessions prune --older-than 30d --dry-run")]
pub(crate) struct PruneArgs {
    /// Remove sessions unchanged for this time, such as `30d`, `12h`, `45m` or `90s`
    #[arg(long, value_name = "DURATION", value_parser = parse_age)]
    pub(crate) older_than: Option<Duration>,

    /// Remove the records of idempotency keys of `logue serve` that are older than this time
    #[arg(long, value_name = "DURATION", value_parser = parse_age, default_value = "30d")]
    pub(crate) keys_older_than: Duration,

    /// Keep the N most recently changed sessions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) keep: usize,

    /// Print what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Remove also sessions with a turn that waits, runs or was interrupted
    #[arg(long)]
    pub(crate) force: bool,

    /// Give the free space of the file back afterwards
    #[arg(long)]
    pub(crate) vacuum: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy the store to a file while others use it, and verify the copy
///
/// Exit status 8: the store has faults, and there is no copy.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions backup sessions-copy.db")]
pub(crate) struct BackupArgs {
    /// File of the copy; it must not exist
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Replace the sessions of the store by those of a backup, after verifying it
///
/// Exit status 8: the backup has faults, and nothing was changed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions restore sessions-copy.db --replace")]
pub(crate) struct RestoreArgs {
    /// File of the backup
    pub(crate) file: PathBuf,

    /// Replace the sessions of a store that is not empty
    #[arg(long)]
    pub(crate) replace: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Move damaged records to quarantine and rebuild indexes; exit with 8 if faults remain
///
/// A placeholder takes the place of a damaged message. Nothing sound is changed; the table
/// `quarantine` of the file keeps what was removed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue sessions repair")]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Move sessions to another store, each verified by its hash
///
/// A moved session is refused in the old store, which keeps its record. Interrupted at any point,
/// the same command continues. Sessions in use are left for a later run; exit status 7.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[command(after_help = "Examples:\n  \
    logue sessions migrate --from sqlite:old.db --to sqlite:new.db --dry-run\n  \
    logue sessions migrate --from sqlite:old.db --to sqlite:new.db\n  \
    logue sessions migrate --from sqlite:old.db --to sqlite:new.db --verify")]
pub(crate) struct MigrateArgs {
    /// Move only these sessions [default: all]
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,

    /// Store that has the sessions
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,

    /// Store that receives the sessions
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,

    /// Leave the sessions of the old store in use; each store continues its own
    #[arg(long)]
    pub(crate) copy: bool,

    /// Print what would be moved, and move nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Compare the sessions of both stores instead of moving; exit with 8 if one differs
    #[arg(long, conflicts_with_all = ["copy", "dry_run"])]
    pub(crate) verify: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Verify stored sessions; exit with 8 if one is damaged
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue sessions verify\n  \
    logue sessions verify ops --json")]
pub(crate) struct VerifyArgs {
    /// Verify only this session
    pub(crate) session: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
