//! `logue replay`: plays a prompt against a recording.

use std::sync::Arc;

use chatmd::{Child, ElementNode, Tag};
use logue_agent::{Approvals, History, Permissions, Prepared, PromptSource, prepare, read_bytes};
use logue_message::{ChatMessage, Role};
use logue_model::{Category, ModelRequest, Provider, ProviderError, Recording};

use crate::arguments::ReplayArgs;
use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::language::Language;
use crate::setup::failures::source_failure;
use crate::setup::model::provider_failure;
use crate::setup::output::Output;
use crate::setup::permissions::audit_of;
use crate::setup::prepare_failure::prepare_failure;
use crate::setup::prompt::input::Input;
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal};
use crate::setup::turn_environment::TurnCommand;
use crate::terminal::{ignore_broken_pipe, print, print_error};

pub(crate) fn replay(arguments: &ReplayArgs) -> Result<Exit, CliError> {
    if arguments.model_args.model.is_some() {
        return Err(
            CliError::new(Exit::Usage, "usage", "the recording replaces the model")
                .with_help("leave out -m"),
        );
    }
    let settings = Settings::load(arguments.trust.trust)?;
    let name = arguments.recording.display().to_string();
    let bytes = read_bytes(&arguments.recording).map_err(|error| source_failure(&error))?;
    let recording = Recording::parse(&name, &bytes).map_err(|error| {
        CliError::user(Category::RecordingInvalid.as_str(), error.to_string())
            .with_help("`logue check` on the recording shows the place")
    })?;
    let input = Input::for_agent(&arguments.prompt)?;
    let runtime = runtime()?;
    let played = runtime.block_on(until_signal(play(arguments, &settings, &input, &recording)));
    runtime.shutdown_background();
    match played {
        Ok(played) => report(played?, &name),
        Err(exit) => Ok(exit),
    }
}

/// The recorded turn, or the difference from it.
type Played = Result<Vec<ChatMessage>, ProviderError>;

fn report(played: Played, recording: &str) -> Result<Exit, CliError> {
    let turn = match played {
        Ok(turn) => turn,
        Err(error) => {
            return Err(CliError {
                exit: Exit::Findings,
                ..provider_failure(&error)
            });
        }
    };
    let answer = turn
        .iter()
        .rev()
        .find(|message| message.role == Role::Assistant);
    let mut text = answer.map(ChatMessage::text).unwrap_or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let exit = ignore_broken_pipe(print(&text))?;
    let count = |role| turn.iter().filter(|message| message.role == role).count();
    let mut parts = counted(count(Role::Assistant), "answer");
    if count(Role::Tool) > 0 {
        parts.push_str(&format!(", {}", counted(count(Role::Tool), "tool result")));
    }
    print_error(&format!("the request equals {recording} ({parts})\n"));
    Ok(exit)
}

/// Compares the request of each part of the prompt, the longest first.
///
/// A prompt that grew after the recording has parts that the recording does not contain.
async fn play(
    arguments: &ReplayArgs,
    settings: &Settings,
    input: &Input,
    recording: &Recording,
) -> Result<Played, CliError> {
    let output = Arc::new(Output::new(false));
    let mut model_args = arguments.model_args.clone();
    model_args.model = Some(format!("replay:{}", arguments.recording.display()));
    let command = TurnCommand {
        settings,
        model_args: &model_args,
        trust: &arguments.trust,
        output: &output,
        approvals: Approvals::Suspend,
        rules: &[],
    };
    let mut last = None;
    for end in parts(&input.text, input.language) {
        let audit = audit_of(&input.conversation(), false, settings);
        let mut environment = command.environment(Permissions::new(), audit)?;
        environment.is_dry_run = true;
        let mut source: PromptSource = input.source(History::Prompt { message: None })?;
        source.text.truncate(end);
        let prepared = prepare(&environment, source).await;
        let prepared = prepared.map_err(|error| prepare_failure(&error, &model_args))?;
        let turn = turn_after(&prepared, recording).await;
        prepared.connections().close().await;
        match turn {
            Err(error) if error.category == Category::ReplayExhausted => last = Some(error),
            played => return Ok(played),
        }
    }
    match last {
        Some(error) => Ok(Err(error)),
        None => Err(
            CliError::user("no_user_input", "the prompt has no message of a user")
                .with_help("add a <user> element, and record again"),
        ),
    }
}

async fn turn_after(prepared: &Prepared, recording: &Recording) -> Played {
    let turn = async |_: &dyn Provider, request: &ModelRequest<'_>| recording.turn_after(request);
    prepared.with_first_request(turn).await
}

/// Returns the ends of the parts of a prompt: those of its user messages, the last one first.
fn parts(text: &str, language: Language) -> Vec<usize> {
    let mut ends = match language {
        Language::Chatmd => user_ends(text),
        _ => openchatml::parse(text.as_bytes())
            .frames()
            .iter()
            .filter(|frame| frame.role() == openchatml::FrameRole::User)
            .map(|frame| frame.span().end)
            .collect(),
    };
    if ends.is_empty() {
        // An import may have the message.
        ends.push(text.len());
    }
    ends.reverse();
    ends
}

/// Returns the ends of the user messages of a ChatMD text.
fn user_ends(text: &str) -> Vec<usize> {
    let tree = chatmd::parse(text);
    let ends = tree.children().filter_map(|child| match child {
        Child::Node(node) if is_user(node) => Some(node.span().end),
        _ => None,
    });
    ends.collect()
}

fn is_user(node: ElementNode<'_>) -> bool {
    let has_role = || {
        let mut attributes = node.attributes();
        attributes.any(|attribute| attribute.name() == "role" && attribute.value() == "user")
    };
    node.tag() == Tag::User || (node.tag() == Tag::Msg && has_role())
}
