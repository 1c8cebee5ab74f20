//! `logue run`: one turn of a prompt.
//!
//! The order is the promise. Everything that can be refused is refused before anything is written:
//! the prompt is read and checked, the tools and the model are set up. Then the user's words are
//! appended, the turn runs, and each completed part is appended before it is told.

pub(crate) mod demanding;
pub(crate) mod input;
pub(crate) mod kept;
pub(crate) mod output;
pub(crate) mod provider;
pub(crate) mod reading;
pub(crate) mod refining;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{
    Authority, Budget, Element, NoTranscript, Permission, PermissionRule, Permissions, Prompt,
    Routing, Ruling, SourceError, SuspendedTurn, TOOL_RESULT_REQUIRED, Transcript, TranscriptError,
    TranscriptFile, Turn, TurnEnd, TurnError, TurnReport, toolbox,
};
use logue_message::{ChatMessage, Role};
use logue_source::Source;
use logue_tools::{Roots, Toolbox};

use crate::arguments::{Asking, RunArgs};
use crate::config::{Config, require_price};
use crate::exit::{Exit, Failure};
use crate::permissions::{Desk, audit_of};
use crate::send::resume_command;
use crate::store::{new_id, open};
use crate::telemetry;
use crate::terminal::{error_style, write_failed};
use input::Input;
use kept::Waiting;
use output::Output;

pub(crate) fn run(arguments: &RunArgs) -> Result<Exit, Failure> {
    let output = Arc::new(Output::new(arguments.json));
    let result = Config::load()
        .inspect(telemetry::start)
        .and_then(|config| turn(arguments, &config, &output));
    output.finish();
    match result {
        Ok(Ended::Completed(report)) => {
            output.completed(&report);
            output.written().map_err(|error| write_failed(&error))?;
            Ok(Exit::Done)
        }
        Ok(Ended::Suspended(turn)) => {
            let command = resume_command(&turn.descriptor.signal_id, &arguments.store);
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

/// How a turn ended that did not fail.
enum Ended {
    Completed(TurnReport),
    /// A person has to decide.
    Suspended(Box<SuspendedTurn>),
    /// By a signal; what was completed is in the file, if there is one.
    Signalled(Exit, Option<String>),
}

fn turn(arguments: &RunArgs, config: &Config, output: &Arc<Output>) -> Result<Ended, Failure> {
    // Nobody else waits for a file while this run waits for its message.
    let message = input::message(&arguments.message)?;
    let mut input = Input::open(arguments, config.patience(), |path| output.waiting(path))?;
    let prompt_folder = input.prompt_folder();
    let rules = arguments.approve.iter().cloned();
    let flags = rules.fold(Permissions::new(), Permissions::with);
    let desk = Desk {
        config,
        arguments: &arguments.trust,
        output,
        can_wait: input.transcript.is_some(),
    };
    let asks = |rule: &PermissionRule| rule.permission == Permission::Ask;
    if !desk.can_wait && !output.asks() && flags.rules().any(|rule| asks(&rule)) {
        return Err(nobody_to_ask());
    }
    let audit = audit_of(&input.conversation(), desk.can_wait, config);
    let permissions = desk.rules(flags, audit);
    let roots = roots(&prompt_folder, &arguments.asking, config)?;
    let budget = Budget::new(config.spending(&arguments.asking.limits));
    let surroundings = reading::surroundings(&input, roots, &arguments.asking, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, "internal", error.to_string()))?;
    // Agents that the prompt names are asked while it is read, so this may take long as well.
    let prompt = runtime.block_on(async {
        tokio::select! {
            biased;
            exit = signalled() => Err(exit),
            prompt = async {
                refining::refine(&mut input, &surroundings, &arguments.asking, config, output).await?;
                // Agents that the prompt names run while it is read.
                let permissions = desk.judged(permissions, &input, &surroundings).await?;
                let asking = &arguments.asking;
                let spending = (&budget, Arc::clone(output) as _);
                let surroundings =
                    reading::with_agents(surroundings, asking, &permissions, config, spending);
                let prompt = reading::load(&input, &surroundings).await?;
                Ok::<_, Failure>((prompt, surroundings, permissions))
            } => Ok(prompt),
        }
    });
    let (prompt, surroundings, permissions) = match prompt {
        Ok(prompt) => prompt?,
        Err(exit) => {
            runtime.shutdown_background();
            return Ok(Ended::Signalled(exit, None));
        }
    };
    let toolbox = runtime.block_on(async {
        tokio::select! {
            biased;
            exit = signalled() => Err(exit),
            toolbox = toolbox(&prompt, &surroundings, &permissions) => Ok(toolbox),
        }
    });
    let toolbox = match toolbox {
        Ok(toolbox) => toolbox,
        Err(exit) => {
            runtime.shutdown_background();
            return Ok(Ended::Signalled(exit, None));
        }
    };
    let toolbox =
        toolbox.map_err(|diagnostic| reading::rendered_in(&prompt.source_map(), [&*diagnostic]))?;
    let offered = runtime.block_on(toolbox.current()).into_owned();
    if !desk.can_wait && !output.asks() {
        require_no_question(&offered, &permissions, &input.name)?;
    }
    let written = input.transcript.is_some().then(|| input.name.clone());
    let mut elements = prompt.unanswered_calls();
    let mut history = prompt.messages.clone();
    history.extend(elements.iter().filter_map(Element::to_message));
    let said = message.is_some();
    if !said {
        require_replies(&prompt, &input.name)?;
    }
    if let Some(message) = message {
        // The same words again after a failure are the words that wait for their answer already;
        // the file may have placeholders in them.
        let written = config.redaction().text(&message).into_owned();
        let again = ChatMessage::user(message.clone());
        if history.last() == Some(&ChatMessage::user(written)) {
            history.pop();
            history.push(again);
        } else {
            history.push(again);
            elements.push(Element::User(message));
        }
    }
    require_question(&history)?;
    let demands = demanding::demands(&arguments.asking.demanding, offered.definitions())?;
    let chosen = provider::choose(
        &arguments.asking,
        arguments.record.as_deref(),
        config,
        prompt.config.model.as_deref(),
        &prompt_folder,
    )?;
    require_price(budget.limits(), &chosen)?;

    let place = input.transcript.as_ref().map(|file| file.path().to_owned());
    let mut transcript: Box<dyn Transcript> = match input.transcript {
        Some(file) => Box::new(transcript_of(file, &prompt, config)),
        None => Box::new(NoTranscript),
    };
    let prepared = transcript
        .prepare()
        .and_then(|()| transcript.append(&elements));
    prepared.map_err(|error| transcript_failure(&error))?;

    let turn = Turn {
        provider: chosen.provider,
        model: chosen.name,
        settings: prompt.settings(),
        toolbox,
        permissions: permissions.clone(),
        history,
        transcript,
        listener: output.clone(),
        max_requests: config.max_turns(arguments.asking.max_turns),
        routing: routing_of(&prompt, config),
        budget: budget.clone(),
        demands,
        invocation_id: Some(new_id()),
    };
    output.started(&turn.model, &input.name);
    let prompt_file = PathBuf::from(&arguments.file);
    let ended = runtime.block_on(async {
        tokio::select! {
            biased;
            exit = signalled() => Ok(Ended::Signalled(exit, written.clone())),
            result = turn.run() => match result {
                Ok(TurnEnd::Completed(report)) => {
                    // With the agents that the prompt named, which were asked before the turn.
                    let spent = budget.spent();
                    let (usage, cost) = (spent.usage, spent.cost);
                    Ok(Ended::Completed(TurnReport { usage, cost, ..report }))
                }
                Ok(TurnEnd::Suspended(turn)) => Ok(Ended::Suspended(turn)),
                Err(error) => Err(turn_failure(&error)),
            },
        }
    });
    let ended = match (ended, &place) {
        (Ok(Ended::Suspended(turn)), Some(place)) => {
            let waiting = Waiting {
                transcript: place,
                prompt: &std::path::absolute(&prompt_file).unwrap_or(prompt_file),
                model: arguments.asking.model.as_deref(),
                permissions: &permissions,
                turn: &turn,
            };
            let kept = open(&arguments.store, config)
                .and_then(|store| runtime.block_on(waiting.keep(&store)));
            kept.map(|()| Ended::Suspended(turn))
        }
        (ended, _) => ended,
    };
    runtime.block_on(surroundings.close());
    // A tool that a signal cancelled has been killed; reading threads are not waited for.
    runtime.shutdown_background();
    ended.map_err(|failure| match &written {
        Some(file) if said => failure.with_help(format!(
            "your message is in {file} and waits for its answer: run the same command again"
        )),
        _ => failure,
    })
}

/// Refuses a turn that could have to wait for a person and has nowhere to wait.
fn require_no_question(
    toolbox: &Toolbox,
    permissions: &Permissions,
    name: &str,
) -> Result<(), Failure> {
    let tools = toolbox.definitions().iter();
    let rulings = tools.map(|tool| (&tool.name, permissions.decide(&tool.name)));
    let asked = rulings.filter(|(_, ruling)| ruling.permission == Permission::Ask);
    let asked: Vec<_> = asked.collect();
    let is_untrusted = |ruling: &Ruling| matches!(ruling.by, Authority::NotTrusted { .. });
    if let Some((tool, _)) = asked.iter().find(|(_, ruling)| is_untrusted(ruling)) {
        let message = format!(
            "{name} is not trusted, and nobody can be asked about its tool `{tool}`: the turn has no \
             file to wait in"
        );
        return Err(Failure::user("prompt_not_trusted", message)
            .with_help("look at what it declares, then `logue trust FILE`, or --trust for this run")
            .with_help("--approve TOOL=allow or =deny decides about one tool"));
    }
    if asked.is_empty() {
        Ok(())
    } else {
        Err(nobody_to_ask())
    }
}

fn nobody_to_ask() -> Failure {
    let message = "a tool can only be asked about if the turn has a file to go on in";
    Failure::new(Exit::Usage, "usage", message)
        .with_help("use =allow or =deny, or write a transcript with -o")
}

/// A transcript that is written as the prompt and the configuration want it.
pub(crate) fn transcript_of(
    mut file: TranscriptFile,
    prompt: &Prompt,
    config: &Config,
) -> TranscriptFile {
    if prompt.is_openchatml() {
        file.write_openchatml();
    }
    if !prompt.config.show_tool_call {
        file.externalise_payloads();
    }
    file.set_inline_bytes(config.inline_bytes());
    file.redact(config.redaction().clone());
    file.set_reasoning_count(prompt.reasoning_count());
    file
}

/// How calls are run. A transcript of OpenChatML holds results in their envelope.
pub(crate) fn routing_of(prompt: &Prompt, config: &Config) -> Routing {
    let mut routing = config.routing();
    routing.envelope |= prompt.is_openchatml();
    routing
}

/// Nobody but the caller can run a function that is only declared, so nothing is made up for it.
fn require_replies(prompt: &Prompt, name: &str) -> Result<(), Failure> {
    let waiting = prompt.waiting_calls();
    let Some((id, tool)) = waiting.first() else {
        return Ok(());
    };
    let message = format!("the call of `{tool}` ({id}) in {name} waits for its reply");
    Err(
        Failure::new(Exit::Suspended, TOOL_RESULT_REQUIRED, message).with_help(format!(
            "append it, and run again: `<|start|>tool name=functions.{tool} call_id={id} \
         to=assistant<|channel|>commentary<|message|>…<|end|>`"
        )),
    )
}

/// The folders that may be read: the prompt's own, then flags, then configuration.
pub(crate) fn roots(
    folder: &Path,
    asking: &Asking,
    config: &Config,
) -> Result<Arc<Roots>, Failure> {
    let folders = std::iter::once(folder.to_owned())
        .chain(asking.roots.iter().cloned())
        .chain(config.roots());
    let folders: Vec<PathBuf> = folders.collect();
    Roots::new(folders).map(Arc::new).map_err(|error| {
        Failure::user("E-SOURCE-READ", format!("a root cannot be used: {error}"))
            .with_help("--root and `[tools] roots` name folders that exist")
    })
}

/// A turn answers somebody: the last message is the user's or a tool's.
fn require_question(history: &[ChatMessage]) -> Result<(), Failure> {
    match history.last().map(|message| message.role) {
        Some(Role::User | Role::Tool) => Ok(()),
        Some(Role::Assistant) => Err(Failure::user(
            "no_user_input",
            "the conversation ends with the assistant's answer: there is nothing to answer",
        )
        .with_help("say something: `logue run FILE \"…\"`, or add a <user> element to the file")),
        _ => Err(Failure::user(
            "no_user_input",
            "the prompt says nothing that a model could answer",
        )
        .with_help("add a <user> element to the file, or say something: `logue run FILE \"…\"`")),
    }
}

/// Waits for a signal that ends the program. Without a handler the system's own would end it at
/// once, and leave the tools running that it has started.
pub(crate) async fn signalled() -> Exit {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind: SignalKind| async move {
            match signal(kind) {
                Ok(mut signals) => signals.recv().await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = listen(SignalKind::hangup()) => Exit::HungUp,
            _ = listen(SignalKind::interrupt()) => Exit::Interrupted,
            _ = listen(SignalKind::quit()) => Exit::Quit,
            _ = listen(SignalKind::terminate()) => Exit::Terminated,
        }
    }
    #[cfg(not(unix))]
    match tokio::signal::ctrl_c().await {
        Ok(()) => Exit::Interrupted,
        Err(_) => std::future::pending().await,
    }
}

pub(crate) fn source_failure(error: &SourceError) -> Failure {
    let diagnostic = &error.diagnostic;
    if error.text.is_empty() {
        let failure = Failure::user(diagnostic.code.as_str(), diagnostic.message.clone());
        return diagnostic
            .help
            .iter()
            .fold(failure, |failure, help| failure.with_help(help.clone()));
    }
    rendered(&error.name, &error.text, std::slice::from_ref(diagnostic))
}

/// A failure from diagnostics of a text: all of them are reported, the first one names it.
pub(crate) fn rendered(name: &str, text: &[u8], errors: &[logue_source::Diagnostic]) -> Failure {
    let source = Source::new(name, text);
    let reports: Vec<String> = errors
        .iter()
        .map(|error| source.render(error, error_style()))
        .collect();
    let (code, message) = errors
        .first()
        .map_or(("E-SOURCE-READ", String::new()), |first| {
            let place = source.place(first.primary.start);
            (first.code.as_str(), format!("{place}: {}", first.message))
        });
    Failure {
        report: Some(reports.join("\n")),
        ..Failure::user(code, message)
    }
}

pub(crate) fn transcript_failure(error: &TranscriptError) -> Failure {
    let exit = match error.category() {
        "transcript_locked" => Exit::Busy,
        "transcript_write_failed" => Exit::SessionTerminating,
        _ => Exit::UserCorrectable,
    };
    Failure::new(exit, error.category(), error.to_string()).with_help(error.help())
}

fn turn_failure(error: &TurnError) -> Failure {
    let exit = match error.category.as_str() {
        "transcript_locked" => Exit::Busy,
        "internal" => Exit::Internal,
        TOOL_RESULT_REQUIRED => Exit::Suspended,
        _ => Exit::from(error.bucket),
    };
    let mut failure = Failure::new(exit, error.category.clone(), error.message.clone());
    failure.retry_after = error.retry_after;
    if let Some(help) = &error.help {
        failure = failure.with_help(help.clone());
    }
    failure
}
