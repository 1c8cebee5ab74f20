//! `logue run`: one turn of a prompt.
//!
//! The order is the promise. Everything that can be refused is refused before anything is written:
//! the prompt is read and checked, the tools and the model are set up. Then the user's words are
//! appended, the turn runs, and each completed part is appended before it is told.

use std::path::PathBuf;
use std::sync::Arc;

use logue_agent::{
    Authority, Budget, Element, NoTranscript, Permission, PermissionRule, Permissions, Prompt,
    Ruling, SuspendedTurn, TOOL_RESULT_REQUIRED, Transcript, Turn, TurnEnd, TurnError, TurnReport,
    toolbox,
};
use logue_message::{ChatMessage, Role};
use logue_tools::Toolbox;

use crate::arguments::RunArgs;
use crate::exit::{Exit, Failure};
use crate::setup::config::Config;
use crate::setup::config::limits::require_price;
use crate::setup::failures::transcript_failure;
use crate::setup::output::Output;
use crate::setup::permissions::{Desk, audit_of};
use crate::setup::prompt::input::{self, Input};
use crate::setup::prompt::{reading, refining};
use crate::setup::roots::roots;
use crate::setup::session_turn::resume_command;
use crate::setup::signals::signalled;
use crate::setup::store::{new_id, open};
use crate::setup::suspended::Waiting;
use crate::setup::transcript::{routing_of, transcript_of};
use crate::setup::{model, requirements};
use crate::telemetry;
use crate::terminal::write_failed;

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
    let demands = requirements::demands(&arguments.asking.demanding, offered.definitions())?;
    let chosen = model::choose(
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
