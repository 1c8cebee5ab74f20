//! `logue run`: one turn of a prompt.
//!
//! The order is guaranteed. Every possible refusal precedes the first write: the command first
//! reads and checks the prompt and sets up the tools and the model. Then it appends the user's
//! message and runs the turn. Each completed part is appended before it is reported.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{
    AgentLog, Approvals, Environment, History, NoTranscript, Permission, Permissions, Prepared,
    PromptSource, TOOL_RESULT_REQUIRED, TranscriptWriter, Turn, TurnEnd, TurnError, TurnReport,
    TurnSuspension, prepare,
};
use logue_message::ChatMessage;
use logue_model::RequestCapture;
use logue_source::quote_word;

use crate::arguments::RunArgs;
use crate::exit::{CliError, Exit};
use crate::setup::dry_run::show_request;
use crate::setup::evaluation::{not_kept, record_beside, save};
use crate::setup::failures::transcript_failure;
use crate::setup::local_server;
use crate::setup::model::{ConfiguredModels, recorded};
use crate::setup::output::Output;
use crate::setup::permissions::audit_of;
use crate::setup::prepare_failure::{no_approver, prepare_failure};
use crate::setup::prompt::input::{self, Input};
use crate::setup::session_turn::{PART_KEPT, resume_command};
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal, until_stopped};
use crate::setup::store::{new_id, open};
use crate::setup::suspended::{SuspendedFileTurn, undecided_calls};
use crate::setup::transcript::transcript_of;
use crate::setup::turn_environment::TurnCommand;
use crate::telemetry;
use crate::terminal::write_failed;

pub(crate) fn run(arguments: &RunArgs) -> Result<Exit, CliError> {
    let output = Arc::new(Output::of_run(arguments.json));
    output.show_as(arguments.display);
    let settings = Settings::load(arguments.trust.trust).inspect(telemetry::start);
    let explained = |failure| {
        local_server::explained(failure, |flags| {
            format!("logue run {flags} {}", quote_word(&arguments.file))
        })
    };
    if arguments.dry_run {
        let shown = settings.and_then(|settings| dry_run(arguments, &settings, &output));
        return shown.map_err(explained);
    }
    let result = settings.and_then(|settings| turn(arguments, &settings, &output));
    let result = result.map_err(explained);
    output.finish();
    match result {
        Ok(Ended::Completed(report)) => {
            output.completed(&report);
            output.written().map_err(|error| write_failed(&error))?;
            Ok(Exit::Done)
        }
        Ok(Ended::Suspended(turn)) => {
            let base_url = arguments.model_args.base_url.as_deref();
            let command = resume_command(&turn.descriptor, &arguments.store, base_url);
            let pending = turn.pending.as_ref().map(ChatMessage::text);
            let id = turn.run.invocation_id();
            output.suspended(id, &turn.descriptor, pending.as_deref(), &command);
            output.written().map_err(|error| write_failed(&error))?;
            Ok(Exit::Suspended)
        }
        Ok(Ended::Signalled(exit, file)) => {
            output.cancelled(exit, file.as_deref());
            Ok(exit)
        }
        Err(failure) => {
            output.failed(&failure);
            Err(failure)
        }
    }
}

/// The end of a turn that did not fail.
enum Ended {
    Completed(TurnReport),
    /// The turn waits for a decision.
    Suspended(Box<TurnSuspension>),
    /// A signal cancelled the turn; the transcript file, if any, contains the completed parts.
    Signalled(Exit, Option<String>),
}

/// Prepares the prompt, runs its turn, and stores the turn if it suspends.
fn turn(arguments: &RunArgs, settings: &Settings, output: &Arc<Output>) -> Result<Ended, CliError> {
    // Standard input is read before the lock, so that other runs do not wait for it.
    let message = input::message(&arguments.message)?;
    let has_message = message.is_some();
    let timeout = settings.run.lock_timeout;
    let input = Input::open(arguments, timeout, |path| output.waiting(path))?;
    let mut environment = environment(arguments, settings, output, &input)?;
    let agents = agent_log(&input, settings, &mut environment);
    let mut source = source(arguments, settings, &input, message)?;
    let record = source.record.clone();
    let runtime = runtime()?;
    source.undecided = runtime.block_on(undecided(arguments, settings, &input));
    // Documents of the prompt may call agents, so preparation can take as long as a turn.
    let prepared = match runtime.block_on(until_signal(prepare(&environment, source))) {
        Ok(prepared) => prepared.map_err(|error| prepare_failure(&error, &arguments.model_args))?,
        Err(exit) => {
            runtime.shutdown_background();
            return Ok(Ended::Signalled(exit, None));
        }
    };
    let (name, file) = (input.name.clone(), input.transcript_path());
    let written = file.is_some().then(|| name.clone());
    let connections = prepared.connections();
    let turn = start(prepared, input, arguments, settings)?;
    save(record.as_deref().filter(|_| written.is_some()));
    if let Some(agents) = &agents {
        agents.begin();
    }
    output.started(&turn.assistant.model, &name);
    let permissions = turn.assistant.permissions.clone();
    let running = turn.run(output.clone(), Some(new_id()));
    let stop = output.stop();
    let ended = match runtime.block_on(until_stopped(running, stop)) {
        Err(exit) => Ok(Ended::Signalled(exit, written.clone())),
        Ok(Ok(TurnEnd::Completed(report))) => Ok(Ended::Completed(total(report, &environment))),
        Ok(Ok(TurnEnd::Suspended(turn))) => match &file {
            Some(file) => {
                let keeping = keep(arguments, settings, file, &permissions, &turn);
                runtime.block_on(keeping).map(|()| Ended::Suspended(turn))
            }
            None => Ok(Ended::Suspended(turn)),
        },
        Ok(Ok(_)) => Err(unknown_end()),
        Ok(Err(error)) => {
            let failure = turn_failure(&error);
            let is_kept = written.is_some() && output.has_part();
            Err(if is_kept {
                failure.with_help(PART_KEPT)
            } else {
                failure
            })
        }
    };
    if let Some(error) = agents.and_then(|agents| agents.take_error()) {
        not_kept(&error);
    }
    runtime.block_on(connections.close());
    // Cancelled tools have been killed. The shutdown does not wait for reading threads.
    runtime.shutdown_background();
    ended.map_err(|failure| match &written {
        Some(file) if has_message => failure.with_help(format!(
            "run the same command again: {file} contains your message without a complete answer"
        )),
        _ => failure,
    })
}

/// Prepares the prompt and shows its first request.
fn dry_run(
    arguments: &RunArgs,
    settings: &Settings,
    output: &Arc<Output>,
) -> Result<Exit, CliError> {
    let message = input::message(&arguments.message)?;
    let input = Input::open(arguments, settings.run.lock_timeout, |path| {
        output.waiting(path);
    })?;
    let mut environment = environment(arguments, settings, output, &input)?;
    // No call is decided.
    environment.approvals = Approvals::Suspend;
    environment.is_dry_run = true;
    let capture = RequestCapture::default();
    let models = ConfiguredModels::new(&arguments.model_args, settings);
    environment.models = Arc::new(models.with_capture(capture.clone()));
    let mut source = source(arguments, settings, &input, message)?;
    let runtime = runtime()?;
    source.undecided = runtime.block_on(undecided(arguments, settings, &input));
    let prepared = match runtime.block_on(until_signal(prepare(&environment, source))) {
        Ok(prepared) => prepared.map_err(|error| prepare_failure(&error, &arguments.model_args))?,
        Err(exit) => {
            runtime.shutdown_background();
            return Ok(exit);
        }
    };
    let connections = prepared.connections();
    let shown = runtime.block_on(show_request(&prepared, &capture, arguments.json.is_some()));
    runtime.block_on(connections.close());
    runtime.shutdown_background();
    shown
}

/// Keeps the messages of agents beside the transcript, if there is one.
fn agent_log(
    input: &Input,
    settings: &Settings,
    environment: &mut Environment,
) -> Option<Arc<AgentLog>> {
    let file = input.transcript_path()?;
    let listener = Arc::clone(&environment.listener);
    let log = AgentLog::new(&file, settings.redaction.clone(), listener);
    let log = Arc::new(log);
    environment.listener = log.clone();
    Some(log)
}

/// Returns the source of the turn, with the record of earlier evaluations.
fn source(
    arguments: &RunArgs,
    settings: &Settings,
    input: &Input,
    message: Option<String>,
) -> Result<PromptSource, CliError> {
    let message = message.map(ChatMessage::user);
    let mut source = input.source(History::Prompt { message })?;
    let file = input.recorded_file();
    let started = arguments.output.as_ref().and(input.started_from());
    let model_args = &arguments.model_args;
    source.record = file.and_then(|file| {
        let transcript = input.recorded_text(&file);
        record_beside(transcript, started.as_deref(), false, model_args, settings)
    });
    Ok(source)
}

/// Returns the ids of calls of the conversation that wait for a decision.
async fn undecided(arguments: &RunArgs, settings: &Settings, input: &Input) -> Vec<String> {
    let Some(transcript) = input.recorded_file() else {
        return Vec::new();
    };
    undecided_calls(&transcript, &arguments.store, settings).await
}

/// Builds the environment of the turn. Only a turn with a transcript can suspend.
fn environment(
    arguments: &RunArgs,
    settings: &Settings,
    output: &Arc<Output>,
    input: &Input,
) -> Result<Environment, CliError> {
    let has_file = input.transcript.is_some();
    let approvals = if has_file {
        Approvals::Suspend
    } else {
        Approvals::Immediate
    };
    let rules = arguments.permissions.iter().cloned();
    let flags = rules.fold(Permissions::new(), Permissions::with);
    let mut rules = flags.rules();
    if !has_file && !output.asks() && rules.any(|rule| rule.permission == Permission::Ask) {
        return Err(no_approver());
    }
    drop(rules);
    let command = TurnCommand {
        settings,
        model_args: &arguments.model_args,
        trust: &arguments.trust,
        output,
        approvals,
        rules: &arguments.permissions,
    };
    let audit = audit_of(&input.conversation(), has_file, settings);
    command.environment(flags, audit)
}

/// Opens the recording and the transcript, and appends the user's message.
fn start(
    mut prepared: Prepared,
    input: Input,
    arguments: &RunArgs,
    settings: &Settings,
) -> Result<Turn, CliError> {
    if let Some(path) = &arguments.record {
        let provider = &mut prepared.assistant.provider;
        *provider = recorded(Arc::clone(provider), path, settings)?;
    }
    let transcript: Box<dyn TranscriptWriter> = match input.transcript {
        Some(file) => Box::new(transcript_of(file, &prepared.prompt, settings)),
        None => Box::new(NoTranscript),
    };
    let turn = prepared.into_turn(transcript);
    turn.map_err(|error| transcript_failure(&error))
}

/// Reports an end of a turn that this program does not handle.
fn unknown_end() -> CliError {
    let message = "cannot report the end of the turn: unknown kind of end";
    CliError::new(Exit::Internal, "internal", message)
}

/// Adds the spend and the requests of agents, also of those before the turn.
fn total(mut report: TurnReport, environment: &Environment) -> TurnReport {
    let spent = environment.budget.spent();
    (report.usage, report.cost) = (spent.usage, spent.cost);
    let requests = usize::try_from(environment.budget.requests()).unwrap_or(usize::MAX);
    report.requests = report.requests.max(requests);
    report
}

/// Writes a suspended turn to the store.
async fn keep(
    arguments: &RunArgs,
    settings: &Settings,
    transcript: &Path,
    permissions: &Permissions,
    turn: &TurnSuspension,
) -> Result<(), CliError> {
    let prompt = PathBuf::from(&arguments.file);
    let waiting = SuspendedFileTurn {
        transcript,
        prompt: &std::path::absolute(&prompt).unwrap_or(prompt),
        model: arguments.model_args.model.as_deref(),
        permissions,
        turn,
    };
    let store = open(&arguments.store, settings)?;
    waiting.keep(&store).await
}

fn turn_failure(error: &TurnError) -> CliError {
    let exit = match error.category.as_str() {
        "transcript_locked" => Exit::Busy,
        "internal" => Exit::Internal,
        TOOL_RESULT_REQUIRED => Exit::Suspended,
        _ => Exit::from(error.bucket),
    };
    let mut failure = CliError::new(exit, error.category.clone(), error.message.clone());
    failure.retry_after = error.retry_after;
    if let Some(help) = &error.help {
        failure = failure.with_help(help.clone());
    }
    failure
}
