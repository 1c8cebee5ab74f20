//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

mod ask;
mod check;
mod convert;
mod data;
mod data_mask;
mod debug;
mod display;
mod doctor;
mod explain;
mod help;
mod init;
mod limits;
mod losses;
mod mcp;
mod model;
mod models;
mod permission;
mod plain_error;
mod replay;
mod response;
mod rewrite;
mod run;
mod scan;
mod search;
mod send;
mod serve;
mod sessions;
mod signal;
mod start_role;
mod tokens;
mod variables;
mod view;

pub(crate) use ask::AskArgs;
pub(crate) use check::{CheckArgs, DenyLevel, FindingFormat};
pub(crate) use convert::ConvertArgs;
pub(crate) use data::{
    DataCheckArgs, DataCommand, DataConvertArgs, DataExamineArgs, DataFileArgs,
    DataFromSessionsArgs, DataStatsArgs, DecontaminateArgs, DedupArgs, SampleArgs, SessionRows,
    SplitArgs,
};
pub(crate) use data_mask::{DataMaskArgs, MaskTarget};
pub(crate) use debug::{DebugCommand, FramesArgs, TreeArgs};
pub(crate) use display::DisplayArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use explain::ExplainArgs;
pub(crate) use help::{HelpArgs, command, parse};
pub(crate) use init::InitArgs;
pub(crate) use limits::LimitArgs;
pub(crate) use losses::LossArgs;
pub(crate) use mcp::{McpCommand, McpListArgs, McpLoginArgs, McpServeArgs, ServerAccessArgs};
pub(crate) use model::ModelArgs;
pub(crate) use models::ModelsArgs;
pub(crate) use permission::{TrustAddArgs, TrustArgs, TrustCommand};
pub(crate) use plain_error::plain_error;
pub(crate) use replay::ReplayArgs;
pub(crate) use response::ResponseArgs;
pub(crate) use rewrite::{FixArgs, FmtArgs};
pub(crate) use run::{JsonEvents, RunArgs};
pub(crate) use scan::ScanArgs;
pub(crate) use search::SearchArgs;
pub(crate) use send::{Busy, SendArgs};
pub(crate) use serve::{
    ServeArgs, ServeCommand, ServeLimitArgs, TokenCommand, TokenCreateArgs, TokenListArgs,
    TokenRevokeArgs,
};
pub(crate) use sessions::{
    BackupArgs, CrashArgs, ExportArgs, ForkArgs, ImportArgs, ListArgs, MigrateArgs, OutcomesArgs,
    PruneArgs, RecoverArgs, RepairArgs, RerunArgs, RestoreArgs, RetryArgs, RmArgs, SessionsCommand,
    ShowArgs, StoreArgs, VerifyArgs,
};
pub(crate) use signal::SignalArgs;
pub(crate) use start_role::StartRole;
pub(crate) use tokens::{CountArgs, DecodeArgs, EncodeArgs, RenderArgs, TokensCommand};
pub(crate) use variables::VariableArgs;
pub(crate) use view::ViewArgs;

/// Run, check and view conversations with language models that live as plain text
#[derive(Debug, Parser)]
#[command(
    name = "logue",
    version,
    max_term_width = 80,
    disable_help_subcommand = true,
    after_help = "Example: logue ask \"What is a monad?\"",
    after_long_help = "Examples:\n  \
                       logue ask \"What is a monad?\"\n  \
                       logue run prompt.md\n\n\
                       Answers go to standard output, progress and errors to standard error.\n\
                       Exit status: 0 done, 1 internal error, 2 wrong usage, 3 you can correct it,\n\
                       4 try again later, 5 the conversation cannot continue, 6 suspended for a\n\
                       decision, 7 busy, 8 findings."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(InitArgs),
    Ask(AskArgs),
    Run(RunArgs),
    Replay(ReplayArgs),
    Send(SendArgs),
    Signal(SignalArgs),
    /// List, search, copy, remove and check sessions
    #[command(subcommand, after_help = "Example: logue sessions list")]
    Sessions(SessionsCommand),
    /// Trust prompts and settings of directories, or withdraw the trust
    #[command(subcommand, after_help = "Example: logue trust add prompt.md")]
    Trust(TrustCommand),
    Check(CheckArgs),
    Fmt(FmtArgs),
    Fix(FixArgs),
    Convert(ConvertArgs),
    /// Convert, mask, check, deduplicate, split and sample data sets
    #[command(
        subcommand,
        after_help = "Example: logue data convert --to openai -o out.jsonl in.jsonl"
    )]
    Data(DataCommand),
    View(ViewArgs),
    /// Count, encode and decode tokens, and render prompts
    ///
    /// The vocabulary is `o200k_harmony` of the gpt-oss models; the program contains it.
    #[command(subcommand, after_help = "Example: logue tokens count prompt.md")]
    Tokens(TokensCommand),
    Scan(ScanArgs),
    Serve(Box<ServeArgs>),
    /// Serve prompts over MCP, and inspect MCP servers
    #[command(subcommand, after_help = "Example: logue mcp serve prompts/")]
    Mcp(McpCommand),
    /// Print the parsed form of a file as JSON
    #[command(subcommand, after_help = "Example: logue debug tree prompt.md")]
    Debug(DebugCommand),
    Models(ModelsArgs),
    Doctor(DoctorArgs),
    Explain(ExplainArgs),
    Help(HelpArgs),
    Completions(CompletionsArgs),
    /// Write the manual pages
    ///
    /// Writes one page for each command to the directory, or without one the page of the program to
    /// standard output.
    #[command(after_help = "Example: logue man ~/.local/share/man/man1")]
    Man {
        /// Directory for the pages
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

/// Print the completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue completions bash > ~/.local/share/bash-completion/completions/logue")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
