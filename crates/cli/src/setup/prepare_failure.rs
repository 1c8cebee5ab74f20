//! Failures of commands from the errors of a preparation.

use logue_agent::{HostError, InvalidPrompt, PrepareError, TOOL_RESULT_REQUIRED};
use logue_harness::ErrorBucket;
use logue_source::quote_words;

use crate::arguments::ModelArgs;
use crate::exit::{CliError, ErrorReport, Exit};
use crate::setup::failures::{PLACES_HELP, place_line};
use crate::setup::model::provider_failure;
use crate::terminal::report_style;

/// The failure of a command whose turn could not be prepared.
pub(crate) fn prepare_failure(error: &PrepareError, model_args: &ModelArgs) -> CliError {
    let message = error.to_string();
    let failure = CliError::new(error.bucket().into(), error.category(), message.clone());
    match error {
        PrepareError::Invalid(invalid) => CliError {
            exit: failure.exit,
            ..rendered_in(invalid)
        },
        PrepareError::Roots(_) => {
            failure.with_help("--root and `[tools] roots` name directories that exist")
        }
        PrepareError::Refine(_) => failure.with_help(
            "run without the META_REFINE comment and variable to use the prompt as it is",
        ),
        PrepareError::NotTrusted { .. } => failure
            .with_help(
                "review its declarations, then run `logue trust add FILE`, or use --trust for this run",
            )
            .with_help("--permission TOOL=allow or =deny decides about one tool"),
        PrepareError::UnknownTool { suggestion, .. } => {
            let failure = CliError::new(Exit::Usage, "usage", message);
            match suggestion {
                Some(name) => failure.with_help(format!("did you mean `{name}`?")),
                None => failure.with_help(
                    "name a tool of the prompt, or a pattern with `*`; rules for several prompts belong \
                     in your own logue/config.toml",
                ),
            }
        }
        PrepareError::UnknownVariable { name } => CliError::new(Exit::Usage, "usage", message)
            .with_help(format!(
                "declare it in the prompt, or in the prompt of an agent: `<var name=\"{name}\"/>`"
            )),
        PrepareError::NoApprover => no_approver(),
        PrepareError::ResultRequired { tool, call_id, .. } => {
            CliError::new(Exit::Suspended, TOOL_RESULT_REQUIRED, message).with_help(format!(
                "append it, and run again: `<|start|>tool name=functions.{tool} call_id={call_id} \
                 to=assistant<|channel|>commentary<|message|>…<|end|>`"
            ))
        }
        PrepareError::NoInput { .. } => failure
            .with_help(format!("ask with a message: {} \"…\"", this_command()))
            .with_help("or add a <user> element at the end of the file"),
        PrepareError::Requirements(error) => {
            let failure = provider_failure(error);
            match &model_args.response.schema {
                Some(file) if error.message.contains("schema") => {
                    failure.with_help(format!("the schema is in {}", file.display()))
                }
                _ => failure,
            }
        }
        PrepareError::NoPrice { model } => {
            CliError::new(Exit::Usage, "usage", message).with_help(format!(
                "set the price of a million tokens in US dollars in logue.toml: [prices.{model:?}] \
                 input_per_mtok = …, output_per_mtok = …; or limit the tokens with --max-total-tokens instead"
            ))
        }
        PrepareError::Host(error) => {
            let help = error.help.iter().cloned();
            help.fold(failure, CliError::with_help)
        }
        _ => failure,
    }
}

/// The failure of a turn that may require approval and cannot suspend.
pub(crate) fn no_approver() -> CliError {
    let message = "a call can wait for approval only if the turn has a transcript";
    CliError::new(Exit::Usage, "usage", message)
        .with_help("use =allow or =deny, or write a transcript with -o")
}

/// Reports all errors of a prompt; the first one names the failure.
fn rendered_in(invalid: &InvalidPrompt) -> CliError {
    let map = invalid.source_map();
    let reports = invalid.errors().iter();
    let reports: Vec<String> = reports
        .map(|error| map.render(error, report_style()))
        .collect();
    let places = invalid.errors().iter();
    let places: String = places
        .map(|error| place_line(&map.place(error.primary.start), error))
        .collect();
    let first = invalid.errors().first();
    let code = first.map_or("E-SOURCE-READ", |first| first.code.as_str());
    CliError {
        report: Some(Box::new(ErrorReport {
            text: reports.join("\n"),
            places: Some(places + PLACES_HELP),
        })),
        help: first.map_or_else(Vec::new, |first| first.help.clone()),
        ..CliError::user(code, invalid.to_string())
    }
}

impl From<CliError> for HostError {
    fn from(failure: CliError) -> Self {
        let bucket = match failure.exit {
            Exit::Retryable | Exit::Busy => ErrorBucket::RetryableTransient,
            Exit::SessionTerminating | Exit::Internal => ErrorBucket::SessionTerminating,
            _ => ErrorBucket::UserCorrectable,
        };
        let error = Self::new(failure.code, failure.message).with_bucket(bucket);
        failure.help.into_iter().fold(error, Self::with_help)
    }
}

/// Returns the command line of this process, quoted for a shell.
fn this_command() -> String {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    quote_words(std::iter::once("logue".to_owned()).chain(arguments))
}
