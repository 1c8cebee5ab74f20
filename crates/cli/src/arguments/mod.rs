//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use logue_tools::HostRule;
use openchatml::{Dialect, FrameRole};

mod demanding;
mod doctor;
mod limits;
mod mcp;
mod permission;
mod sessions;

use logue_agent::PermissionRule;

use crate::conversion::form::Form;
use crate::language::Language;

pub(crate) use demanding::Demanding;
pub(crate) use doctor::DoctorArgs;
pub(crate) use limits::LimitArgs;
pub(crate) use mcp::{McpCommand, McpListArgs, McpLoginArgs, McpServeArgs};
pub(crate) use permission::{TrustArgs, TrustCommand};
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
                  4 try again later, 5 the conversation cannot go on, 6 a person has to\n\
                  decide, 7 busy, 8 findings."
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
    /// Count tokens, turn text into token ids and back, render prompts
    ///
    /// The vocabulary is `o200k_harmony`, that of gpt-oss models; it is part of the program.
    #[command(subcommand)]
    Tokens(TokensCommand),
    Scan(ScanArgs),
    /// Offer prompts to other programs, and look at servers that offer tools
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Show what the readers see
    #[command(subcommand)]
    Debug(DebugCommand),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    /// Write the manual pages
    ///
    /// With a folder, one page for each command is written there; without, the page of the program
    /// goes to standard output.
    Man {
        /// Folder for the pages
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

/// Run a prompt for one turn and append what happened to its file
///
/// The model answers the conversation in FILE, with the tools that FILE declares. Each completed
/// part is appended to FILE, so the next run goes on from there. The answer is printed as it comes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue run review.md\n  \
    logue run review.md \"And the tests?\"\n  \
    git diff | logue run review.md -\n  \
    logue run --no-save -m replay:session.ocml review.md")]
pub(crate) struct RunArgs {
    /// ChatMD prompt or OpenChatML transcript; `-` reads it from standard input and implies
    /// --no-save
    pub(crate) file: String,

    /// What to say first; `-` reads it from standard input
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: Vec<String>,

    #[command(flatten)]
    pub(crate) asking: Asking,

    /// Form of FILE [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Start or continue this transcript instead of FILE
    #[arg(short, long, value_name = "TRANSCRIPT", conflicts_with = "no_save")]
    pub(crate) output: Option<PathBuf>,

    /// Leave FILE as it is
    #[arg(long)]
    pub(crate) no_save: bool,

    /// Record the session to this new file, for -m replay:FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Allow, ask about or deny calls of a tool; `*` names all others
    #[arg(long = "permission", value_name = "TOOL=allow|ask|deny")]
    pub(crate) permissions: Vec<PermissionRule>,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    /// Where a turn is kept that waits for a person
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print one JSON event a line instead of the answer
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which model is asked, how, and what the prompt may reach.
#[derive(Clone, Debug, Args)]
pub(crate) struct Asking {
    /// Model to ask, over the one in the prompt: NAME, openai:NAME, harmony:NAME, replay:FILE or
    /// echo:
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// A further folder that tools and documents may be read from
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,

    /// A host that documents and agents of the prompt may be fetched from
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<HostRule>,

    #[command(flatten)]
    pub(crate) demanding: Demanding,

    /// Limit the requests to the model in this turn [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_requests: Option<u32>,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// Ask every agent that the prompt names, also what was asked before
    #[arg(long)]
    pub(crate) no_cache: bool,

    /// Address of the server of the model that -m names (without -m: of Chat Completions), up to
    /// and with `/v1`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,

    /// Key of that server; `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` keeps it out of the process list
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
}

/// Check prompts and transcripts for errors
///
/// Folders are searched for ChatMD files and transcripts in any dialect. Exit status 8 if there is an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue check prompts/\n  \
    logue check --json review.md session.ocml\n  \
    logue check --deny warnings --format sarif prompts/ > findings.sarif")]
pub(crate) struct CheckArgs {
    /// Files and folders; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Form of the files [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// How findings are told
    #[arg(long, value_enum, default_value_t = FindingFormat::Human)]
    pub(crate) format: FindingFormat,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Findings that make the exit status 8 as errors do
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) deny: Option<Denied>,

    /// Skip the check that the files named by a document exist
    #[arg(long)]
    pub(crate) no_file_checks: bool,
}

impl CheckArgs {
    /// How findings are told, by either flag.
    pub(crate) const fn format(&self) -> FindingFormat {
        if self.json {
            FindingFormat::Json
        } else {
            self.format
        }
    }
}

/// How findings are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindingFormat {
    /// Reports for people, on standard error.
    Human,
    /// One JSON object a finding.
    Json,
    /// One SARIF 2.1.0 log, for code scanners and editors.
    Sarif,
    /// Annotations as GitHub Actions reads them.
    Github,
}

/// What is denied beyond errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Denied {
    /// Warnings.
    Warnings,
}

/// Lay out ChatMD files
///
/// Only layout changes: white space between elements, the spelling of tags. What the model sees stays
/// the same, byte by byte. A file with errors is left alone, and so is one in another language. Of a
/// folder, every ChatMD file in it is laid out. Exit status 8 if a file has errors.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue fmt prompts/\n  \
    logue fmt --check --diff prompts/\n  \
    logue fmt - < draft.md > review.md")]
pub(crate) struct FmtArgs {
    /// Files and folders; `-` is standard input, which goes to standard output
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Write nothing; name the files that would change, and exit with 8 if there are any
    #[arg(long)]
    pub(crate) check: bool,

    /// Write nothing; show what would change, and exit with 8 if anything would
    #[arg(long)]
    pub(crate) diff: bool,

    /// Form of the files [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Print one JSON object a file
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
    /// Files and folders; `-` is standard input, which goes to standard output
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

    /// Print one JSON object a file
    #[arg(long)]
    pub(crate) json: bool,
}

/// Convert conversations between dialects and forms
///
/// What the new form cannot hold is listed on standard error, frame by frame; with --strict it is
/// refused instead. A file or input of JSON lines is converted line by line, a folder file by file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue convert session.ocml --to openai\n  \
    logue convert --from sharegpt --to chatml -o train.jsonl data.jsonl\n  \
    logue convert --to ocml2.2 --strict -o new/ old/")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ConvertArgs {
    /// Files and folders; `-`, or none, is standard input
    #[arg(value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,

    /// File to write, or folder for several; replaced as a whole
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Form of the input, where its content does not say it
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) from: Option<Form>,

    /// Form of the output
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) to: Form,

    /// Refuse whatever would lose something
    #[arg(long)]
    pub(crate) strict: bool,

    /// Keep private reasoning in `thinking` (json) or `reasoning_content` (openai) of its message
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    /// Read the input as JSON lines
    #[arg(long)]
    pub(crate) jsonl: bool,

    /// Print one JSON object a conversation, with what was lost
    #[arg(long)]
    pub(crate) json: bool,
}

/// Find control tokens hidden in what people say
///
/// A token such as `<|im_start|>` in a message forges another one wherever nothing escapes it.
/// Tokens that their own file escapes are noted and do no harm. Exit status 8 if others are found.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue scan data.jsonl\n  curl -s https://example.org/page | logue scan -"
)]
pub(crate) struct ScanArgs {
    /// Files and folders; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Form of the files, where their content does not say it; `text` is none of them
    #[arg(long, value_name = "FORM", value_parser = Form::parser_with_text())]
    pub(crate) from: Option<Form>,

    /// Print one JSON object a finding
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what a person may see of a conversation
///
/// Instructions, private reasoning and tool traffic stay hidden. Long texts are folded: their
/// first lines are shown, and how much more there is. Of a folder, every conversation in it is
/// shown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue view review.md\n  logue view --show-hidden --full session.ocml | less"
)]
pub(crate) struct ViewArgs {
    /// File in any dialect, or folder; `-` is standard input
    pub(crate) file: PathBuf,

    /// Show instructions, reasoning and tool traffic too
    #[arg(long)]
    pub(crate) show_hidden: bool,

    /// Show long texts whole
    #[arg(long)]
    pub(crate) full: bool,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Print one JSON object a message
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is done with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    Count(CountArgs),
    Encode(EncodeArgs),
    Decode(DecodeArgs),
    Render(RenderArgs),
}

/// Count the tokens of files
///
/// Files of any length are read part by part. Exit status 3 if one cannot be read; the others are
/// counted all the same.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue tokens count review.md notes/*.md\n  \
    git diff | logue tokens count")]
pub(crate) struct CountArgs {
    /// Files of text; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Names of control tokens, such as <|start|>, are those tokens
    #[arg(long)]
    pub(crate) special_tokens: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the token ids of a text
///
/// What looks like a control token is text, unless --special-tokens says otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    echo -n \"Hello, world!\" | logue tokens encode\n  \
    logue tokens encode --special-tokens --json prompt.txt")]
pub(crate) struct EncodeArgs {
    /// File of text; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Names of control tokens, such as <|start|>, are those tokens
    #[arg(long)]
    pub(crate) special_tokens: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the text of token ids
///
/// The ids are a JSON array, or numbers with white space between them. The text is printed as it
/// is, without a newline of its own.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  echo 13225 11 2375 0 | logue tokens decode\n  logue tokens decode --raw ids.json > text"
)]
pub(crate) struct DecodeArgs {
    /// File of token ids; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print the exact bytes, instead of U+FFFD for what is no character
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Print the Harmony prompt of a transcript
///
/// The ids that a gpt-oss model is sent. What Harmony cannot say of the transcript is told on
/// standard error.
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

    /// End the last answer as the model is to learn it, in <|return|>
    #[arg(long)]
    pub(crate) training: bool,

    /// Keep the reasoning of turns that are finished
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    /// Print text instead of ids; refused where a body spells a control token
    #[arg(long, conflicts_with = "json")]
    pub(crate) text: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the readers see, for those who look for a fault.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    Frames(FramesArgs),
    Tree(TreeArgs),
}

/// Print the messages of an envelope, hidden ones included, and what is wrong with it
///
/// Prints one JSON object with `messages` and `diagnostics`; spans count bytes from 0. Malformed
/// input is read as far as it goes, so the exit status is 0 whatever is found.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue debug frames session.ocml\n  \
    logue debug frames --from harmony --start-role assistant answer.txt")]
pub(crate) struct FramesArgs {
    /// File with the envelope; `-` is standard input
    pub(crate) file: PathBuf,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::dialect_parser(FRAME_DIALECTS))]
    pub(crate) from: Option<Dialect>,

    /// The text begins inside the header of a message of this role
    #[arg(long, value_enum, value_name = "ROLE")]
    pub(crate) start_role: Option<StartRole>,

    /// The file holds token ids of `o200k_harmony`, so the envelope is Harmony
    #[arg(long)]
    pub(crate) tokens: bool,
}

/// Print the elements and texts of a ChatMD file
///
/// Prints one JSON list of `{"tag", "attrs", "children"}` and `{"text"}`; nothing that the file
/// names is read. Malformed input is read as far as it goes; what is wrong is told on standard
/// error, and the exit status is then 8.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue debug tree review.md\n  git show HEAD:review.md | logue debug tree -"
)]
pub(crate) struct TreeArgs {
    /// File with the document; `-` is standard input
    pub(crate) file: PathBuf,

    /// Replace each import by the elements of its file
    #[arg(long)]
    pub(crate) expand_imports: bool,
}

/// The dialects that `debug frames` reads.
const FRAME_DIALECTS: &[Dialect] = &[Dialect::Harmony, Dialect::V2_2, Dialect::V2_0];

/// The role of a message whose header began before the text.
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
