//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use logue_tools::HostRule;
use openchatml::{Dialect, FrameRole};

mod doctor;
mod limits;
mod mcp;
mod permission;
mod response;
mod sessions;

use logue_agent::PermissionRule;

use crate::conversion::form::Form;
use crate::language::Language;

pub(crate) use doctor::DoctorArgs;
pub(crate) use limits::LimitArgs;
pub(crate) use mcp::{McpCommand, McpListArgs, McpLoginArgs, McpServeArgs};
pub(crate) use permission::{TrustArgs, TrustCommand};
pub(crate) use response::ResponseArgs;
pub(crate) use sessions::{
    ExportArgs, ForkArgs, ImportArgs, ListArgs, OutcomesArgs, RmArgs, SendArgs, SessionsCommand,
    ShowArgs, SignalArgs, StoreArgs, VerifyArgs,
};

/// Run, check and view conversations with language models that live as plain text
#[derive(Debug, Parser)]
#[command(
    name = "logue",
    version,
    max_term_width = 80,
    after_help = "Answers go to standard output, progress and errors to standard error.\n\
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
    Run(RunArgs),
    Send(SendArgs),
    Signal(SignalArgs),
    /// List, show, follow, copy, export, import, remove and check sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Trust prompts, list them, or withdraw the trust
    #[command(subcommand)]
    Trust(TrustCommand),
    Check(CheckArgs),
    Fmt(FmtArgs),
    Fix(FixArgs),
    Convert(ConvertArgs),
    View(ViewArgs),
    /// Count, encode and decode tokens, and render prompts
    ///
    /// The vocabulary is `o200k_harmony` of the gpt-oss models; the program contains it.
    #[command(subcommand)]
    Tokens(TokensCommand),
    Scan(ScanArgs),
    /// Serve prompts over MCP, and inspect MCP servers
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Print the parsed form of a file as JSON
    #[command(subcommand)]
    Debug(DebugCommand),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    /// Write the manual pages
    ///
    /// Writes one page for each command to the directory, or without one the page of the program to
    /// standard output.
    Man {
        /// Directory for the pages
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

/// Run one turn of a prompt and append it to its file
///
/// The model answers the conversation in FILE, with the tools that FILE declares. Each completed
/// part is appended to FILE, so the next run continues from there. The answer is printed as it
/// arrives.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue run review.md\n  \
    logue run review.md \"And the tests?\"\n  \
    git diff | logue run review.md -\n  \
    logue run --no-save -m replay:session.ocml review.md")]
pub(crate) struct RunArgs {
    /// ChatMD prompt or OpenChatML transcript; `-` is standard input and implies --no-save
    pub(crate) file: String,

    /// User message to append first; `-` reads it from standard input
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: Vec<String>,

    #[command(flatten)]
    pub(crate) asking: ModelArgs,

    /// Form of FILE [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Start or continue this transcript instead of FILE
    #[arg(short, long, value_name = "TRANSCRIPT", conflicts_with = "no_save")]
    pub(crate) output: Option<PathBuf>,

    /// Leave FILE as it is
    #[arg(long)]
    pub(crate) no_save: bool,

    /// Record the model responses to a new file for -m replay:FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Allow, ask about or deny calls of a tool; `*` names all others
    #[arg(long = "permission", value_name = "TOOL=allow|ask|deny")]
    pub(crate) permissions: Vec<PermissionRule>,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    /// The store of a suspended turn.
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print events as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// The model, its limits, and the access of the prompt.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArgs {
    /// Use this model instead of the prompt's: NAME, openai:NAME, harmony:NAME, replay:FILE or echo:
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Allow tools and documents to read this directory too
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,

    /// Allow documents, agents and tools to connect to this host
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<HostRule>,

    #[command(flatten)]
    pub(crate) demanding: ResponseArgs,

    /// Limit the requests to the model in this turn [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_requests: Option<u32>,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// Run the agents of the prompt again instead of using cached answers
    #[arg(long)]
    pub(crate) no_cache: bool,

    /// Base URL of the model server, including `/v1`, for the provider of -m [default
    /// provider: openai]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,

    /// API key; `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` keeps it out of the process list
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
}

/// Check prompts and transcripts for errors
///
/// Directories are searched for ChatMD files and transcripts in any dialect. Exit status 8 if there is
/// an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue check prompts/\n  \
    logue check --json review.md session.ocml\n  \
    logue check --deny warnings --format sarif prompts/ > findings.sarif")]
pub(crate) struct CheckArgs {
    /// Files and directories; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Form of the files [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Choose the output format
    #[arg(long, value_enum, default_value_t = FindingFormat::Human)]
    pub(crate) format: FindingFormat,

    /// Print JSON lines, as with --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Exit with 8 for these findings too
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) deny: Option<DenyLevel>,

    /// Skip the check that the files named by a document exist
    #[arg(long)]
    pub(crate) no_file_checks: bool,
}

impl CheckArgs {
    /// Returns the output format that either flag selects.
    pub(crate) const fn format(&self) -> FindingFormat {
        if self.json {
            FindingFormat::Json
        } else {
            self.format
        }
    }
}

/// The output format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindingFormat {
    /// Reports for people, on standard error.
    Human,
    /// JSON lines.
    Json,
    /// One SARIF 2.1.0 log, for code scanners and editors.
    Sarif,
    /// Annotations as GitHub Actions reads them.
    Github,
}

/// The severities that fail a check besides errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DenyLevel {
    /// Warnings.
    Warnings,
}

/// Format ChatMD files
///
/// Changes the layout only: white space between elements and the spelling of tags. The model input
/// stays the same, byte by byte. Files with errors and files in other languages stay unchanged. Exit
/// status 8 if a file has errors.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue fmt prompts/\n  \
    logue fmt --check --diff prompts/\n  \
    logue fmt - < draft.md > review.md")]
pub(crate) struct FmtArgs {
    /// Files and directories; `-` filters standard input to standard output
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Print the names of files to format without writing; exit with 8 if any
    #[arg(long)]
    pub(crate) check: bool,

    /// Print a diff without writing; exit with 8 if it is not empty
    #[arg(long)]
    pub(crate) diff: bool,

    /// Form of the files [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Repair transcripts that an earlier program wrote and that cannot be read back
///
/// Writes the repaired files and prints each change with its reason. Stubs get their slash, quoted
/// tags go into RAW blocks, added indentation and empty messages are removed; the words of messages
/// stay the same, byte by byte. The original is kept as NAME.orig. Exit status 8 if an error cannot
/// be repaired, and with --check or --diff if there is something to repair.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue fix --diff session.md\n  \
    logue fix transcripts/\n  \
    logue fix - < session.md > repaired.md")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct FixArgs {
    /// Files and directories; `-` filters standard input to standard output
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Print the repairs without writing; exit with 8 if there are any
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the repairs as a diff without writing; exit with 8 if there are any
    #[arg(long)]
    pub(crate) diff: bool,

    /// Keep no originals
    #[arg(long, conflicts_with_all = ["check", "diff"])]
    pub(crate) no_backup: bool,

    /// Form of the files [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Convert conversations between dialects and forms
///
/// Losses are listed on standard error, frame by frame; with --strict a conversion with losses fails.
/// JSON lines are converted line by line, directories file by file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue convert session.ocml --to openai\n  \
    logue convert --from sharegpt --to chatml -o train.jsonl data.jsonl\n  \
    logue convert --to ocml2.2 --strict -o new/ old/")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ConvertArgs {
    /// Files and directories; `-` is standard input [default: -]
    #[arg(value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write to this file, or to this directory for several inputs
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Form of the input [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) from: Option<Form>,

    /// Form of the output
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) to: Form,

    /// Fail if content would be lost
    #[arg(long)]
    pub(crate) strict: bool,

    /// Keep reasoning in `thinking` (json) or `reasoning_content` (openai)
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    /// Read the input as JSON lines
    #[arg(long)]
    pub(crate) jsonl: bool,

    /// Print JSON lines with the losses of each conversation
    #[arg(long)]
    pub(crate) json: bool,
}

/// Find control tokens in message text
///
/// An unescaped token such as `<|im_start|>` in a message forges another message. Tokens that the file
/// itself escapes are reported as notes. Exit status 8 if unescaped tokens are found.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue scan data.jsonl\n  curl -s https://example.org/page | logue scan -"
)]
pub(crate) struct ScanArgs {
    /// Files and directories; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Form of the files, `text` for plain text [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::parser_with_text())]
    pub(crate) from: Option<Form>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the visible part of a conversation
///
/// Instructions, reasoning and tool traffic stay hidden. Long texts are folded to their first lines
/// and a count of the omitted ones. For a directory, every conversation in it is shown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue view review.md\n  logue view --show-hidden --full session.ocml | less"
)]
pub(crate) struct ViewArgs {
    /// File or directory; `-` is standard input
    pub(crate) file: PathBuf,

    /// Show instructions, reasoning and tool traffic too
    #[arg(long)]
    pub(crate) show_hidden: bool,

    /// Show long texts completely
    #[arg(long)]
    pub(crate) full: bool,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// The subcommands of `logue tokens`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    Count(CountArgs),
    Encode(EncodeArgs),
    Decode(DecodeArgs),
    Render(RenderArgs),
}

/// Count the tokens of files
///
/// Memory use does not depend on the length of a file. Exit status 3 if a file cannot be read; the
/// other files are counted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue tokens count review.md notes/*.md\n  \
    git diff | logue tokens count")]
pub(crate) struct CountArgs {
    /// Files of text; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Encode names of control tokens, such as <|start|>, as control tokens
    #[arg(long)]
    pub(crate) special_tokens: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the token ids of a text
///
/// Names of control tokens are encoded as text unless --special-tokens is given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    echo -n \"Hello, world!\" | logue tokens encode\n  \
    logue tokens encode --special-tokens --json prompt.txt")]
pub(crate) struct EncodeArgs {
    /// File of text; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Encode names of control tokens, such as <|start|>, as control tokens
    #[arg(long)]
    pub(crate) special_tokens: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the text of token ids
///
/// The ids are a JSON array, or numbers separated by white space. No newline is added to the text.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  echo 13225 11 2375 0 | logue tokens decode\n  logue tokens decode --raw ids.json > text"
)]
pub(crate) struct DecodeArgs {
    /// File of token ids; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print the exact bytes instead of U+FFFD for invalid UTF-8
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Print the Harmony prompt of a transcript
///
/// Prints the token ids of a request to a gpt-oss model. Losses are listed on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue tokens render --next-role assistant --json session.ocml\n  \
    logue tokens render --training --text session.ocml")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct RenderArgs {
    /// File with the transcript; `-` is standard input
    pub(crate) file: PathBuf,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::dialect_parser(&Dialect::ALL))]
    pub(crate) from: Option<Dialect>,

    /// Begin the next message with this role
    #[arg(long, value_enum, value_name = "ROLE", conflicts_with = "training")]
    pub(crate) next_role: Option<StartRole>,

    /// End the last answer with <|return|>, as in training data
    #[arg(long)]
    pub(crate) training: bool,

    /// Keep the reasoning of completed turns
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    /// Print text instead of ids; fails if a body contains a control token
    #[arg(long, conflicts_with = "json")]
    pub(crate) text: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// The subcommands of `logue debug`.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    Frames(FramesArgs),
    Tree(TreeArgs),
}

/// Print the messages and diagnostics of a transcript as JSON
///
/// Prints one object with `messages`, hidden ones included, and `diagnostics`; spans count bytes from
/// 0. Malformed input is recovered, so the exit status is 0 for any content.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue debug frames session.ocml\n  \
    logue debug frames --from harmony --start-role assistant answer.txt")]
pub(crate) struct FramesArgs {
    /// Transcript; `-` is standard input
    pub(crate) file: PathBuf,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::dialect_parser(FRAME_DIALECTS))]
    pub(crate) from: Option<Dialect>,

    /// Read the text as starting in the header of a message of this role
    #[arg(long, value_enum, value_name = "ROLE")]
    pub(crate) start_role: Option<StartRole>,

    /// Read token ids of `o200k_harmony`; implies --from harmony
    #[arg(long)]
    pub(crate) tokens: bool,
}

/// Print the elements and texts of a ChatMD file as JSON
///
/// Prints one list of `{"tag", "attrs", "children"}` and `{"text"}`; named files are not read.
/// Malformed input is recovered; errors go to standard error and set the exit status to 8.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue debug tree review.md\n  git show HEAD:review.md | logue debug tree -"
)]
pub(crate) struct TreeArgs {
    /// ChatMD file; `-` is standard input
    pub(crate) file: PathBuf,

    /// Replace each import by the elements of its file
    #[arg(long)]
    pub(crate) expand_imports: bool,
}

/// The dialects that `debug frames` reads.
const FRAME_DIALECTS: &[Dialect] = &[Dialect::Harmony, Dialect::V2_2, Dialect::V2_0];

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

/// Print the completions for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
