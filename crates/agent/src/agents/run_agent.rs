//! Agents: prompts that other prompts and models call for a response (ChatMD §5.3, §8.3).
//!
//! An agent has a history of its own: its prompt, and its input as one message of the user. Paths
//! are resolved against its own directory, and its tools are those that its own prompt declares.
//! Its last message is the response. The caller's transcript contains nothing else of it.

use std::path::PathBuf;
use std::sync::Arc;

use chatmd::{WorldError, WorldErrorKind};
use logue_harness::ErrorBucket;
use logue_message::ChatMessage;
use logue_source::DiagnosticCode;
use logue_tools::BoxFuture;

use crate::agents::fork::run_fork;
use crate::agents::response_cache::key_of;
use crate::prepare::environment::Environment;
use crate::prepare::error::PrepareError;
use crate::prepare::prepared::{Prepared, prepare_agent};
use crate::prepare::source::{History, PromptOrigin, PromptSource};
use crate::prompt::scope::{AgentFailure, AgentRequest, AgentRunner, CachePolicy, PromptScope};
use crate::public_error::public_detail;
use crate::record::entry::{RecordEntry, RecordKind, entry_key};
use crate::transcript::item::NoTranscript;
use crate::turn::assistant::MAX_TURNS;
use crate::turn::budget::Budget;
use crate::turn::listener::{AgentCallPath, Listener, TurnEvent};
use crate::turn::run::{TurnEnd, TurnError};

/// The remedy for agents that call agents beyond the limit.
pub const AGENT_DEPTH_HELP: &str =
    "let one of them do its part itself, or raise `[run] max_agent_depth` or --max-agent-depth";

impl AgentRunner for Environment {
    fn run<'a>(
        &'a self,
        caller: &'a PromptScope,
        request: AgentRequest<'a>,
    ) -> BoxFuture<'a, Result<String, AgentFailure>> {
        // Boxed, because an agent may call agents.
        Box::pin(run_agent(self, caller, request))
    }

    fn fork<'a>(
        &'a self,
        caller: &'a PromptScope,
        call_id: &'a str,
        instruction: String,
    ) -> BoxFuture<'a, Result<String, AgentFailure>> {
        Box::pin(run_fork(self, caller, call_id, instruction))
    }
}

impl PromptScope {
    /// Allows agents, which are prepared with `environment`.
    #[must_use]
    pub fn with_agents(self, environment: Arc<Environment>) -> Self {
        self.with_runner(environment)
    }
}

async fn run_agent(
    environment: &Environment,
    caller: &PromptScope,
    request: AgentRequest<'_>,
) -> Result<String, AgentFailure> {
    let AgentRequest {
        src,
        local,
        input,
        freshness,
        call_id,
        place: element,
    } = request;
    let budget = Budget::current().unwrap_or_else(|| environment.budget.clone());
    // Agents that call agents are refused before they are prepared: the number of calls grows with
    // the depth, and only requests are counted.
    let allowed = budget.require_request();
    allowed.map_err(|error| AgentFailure::own(format!("{error} ({MAX_TURNS})")))?;
    let read = read_agent(caller, src, local, freshness).await;
    let (text, path) = read.map_err(|error| {
        // A server may have answered with anything.
        let public = if local {
            error.message.clone()
        } else {
            "the prompt of the agent cannot be read".to_owned()
        };
        AgentFailure::new(error, public)
    })?;
    require_depth(caller, environment.max_agent_depth, &path, freshness)?;
    // A prompt from the network has no directory, and nothing of this machine.
    let folder = path.parent().filter(|_| local);
    let mut scope = caller.inside(folder, &path).map_err(|error| {
        AgentFailure::new(failed(error), "the directory of the agent cannot be opened")
    })?;
    scope.place = element;
    if freshness == CachePolicy::Fresh {
        scope.record = None;
    }
    let origin = if local {
        PromptOrigin::File(path)
    } else {
        PromptOrigin::Network
    };
    let message = (!input.is_empty()).then(|| ChatMessage::user(input));
    let source = PromptSource::new(src, text)
        .with_origin(origin)
        .with_history(History::Prompt { message });
    let place = AgentCallPath {
        src: src.to_owned(),
        call_id: call_id.map(str::to_owned),
        depth: scope.depth,
    };
    let environment = Environment {
        budget,
        ..environment.clone()
    };
    let prepared = prepare_agent(&environment, source, scope).await;
    let prepared = prepared.map_err(|error| not_prepared(&error, src, local))?;
    answer(&environment, prepared, freshness, place).await
}

/// Returns the text of an agent's prompt, and its canonical path or its address.
async fn read_agent(
    caller: &PromptScope,
    src: &str,
    local: bool,
    freshness: CachePolicy,
) -> Result<(String, PathBuf), WorldError> {
    let read = if local {
        caller.files.prompt(src)
    } else {
        let page = match freshness {
            CachePolicy::MayRepeat => caller.recorded_page(src).await,
            CachePolicy::Fresh => caller.page(src).await,
        };
        page.map(|page| (page.text, PathBuf::from(src)))
    };
    read.map_err(|mut error| {
        if error.kind != WorldErrorKind::Denied {
            error.kind = WorldErrorKind::Agent;
        }
        error
    })
}

/// Refuses agents that would never end.
fn require_depth(
    caller: &PromptScope,
    max_depth: usize,
    path: &PathBuf,
    freshness: CachePolicy,
) -> Result<(), AgentFailure> {
    let chain = || {
        let paths = caller.callers.iter().chain([path]);
        let names: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        names.join(" > ")
    };
    // A document calls its agents each time that it is evaluated, so this would never end.
    if freshness == CachePolicy::MayRepeat && caller.callers.contains(path) {
        let error = failed(format!("it calls itself: {}", chain()))
            .with_help("remove the agent that calls its own prompt");
        return Err(AgentFailure::new(error, "the agent calls itself"));
    }
    if caller.depth >= max_depth {
        let public = too_deep(max_depth);
        let error = failed(format!("{public}: {}", chain())).with_help(AGENT_DEPTH_HELP);
        return Err(AgentFailure::new(error, public));
    }
    Ok(())
}

/// Returns the error of agents that call agents beyond the limit.
pub fn too_deep(max_depth: usize) -> String {
    format!("agents call agents more than {max_depth} deep, the limit `max_agent_depth`")
}

/// Runs the turn of an agent, unless its response is recorded or cached.
async fn answer(
    environment: &Environment,
    prepared: Prepared,
    freshness: CachePolicy,
    place: AgentCallPath,
) -> Result<String, AgentFailure> {
    let key = {
        let offered = prepared.assistant.toolbox.current().await;
        let (identity, settings) = (&prepared.model_identity, &prepared.assistant.settings);
        key_of(
            identity,
            settings,
            offered.definitions(),
            prepared.history(),
        )
    };
    // The key does not cover the results of tools, so an agent that has some is not cached.
    let may_repeat = freshness == CachePolicy::MayRepeat && prepared.prompt.tools.is_empty();
    let cache = environment.agent_responses.as_ref();
    let cache = cache.filter(|_| may_repeat);
    let record = prepared.scope.record.clone();
    let entry = entry_key(RecordKind::Agent, &[&prepared.scope.place, &key]);
    let recorded = record.as_ref();
    if let Some(recorded) = recorded.and_then(|record| record.answer(&entry, &place.src)) {
        return Ok(recorded.text);
    }
    let src = place.src.clone();
    let keep = |text: String| match record {
        Some(record) => {
            let (kind, key) = (RecordKind::Agent, entry);
            record
                .keep(RecordEntry {
                    kind,
                    src,
                    key,
                    text,
                    media_type: None,
                })
                .text
        }
        None => text,
    };
    let known = cache.filter(|_| !environment.is_fresh);
    if let Some(answer) = known.and_then(|cache| cache.get(&key)) {
        return Ok(keep(answer));
    }
    if environment.is_dry_run {
        let src = &place.src;
        let skipped =
            format!("the agent {src} is not asked: the request names it in place of its answer");
        environment.progress.not_asked(&skipped);
        return Ok(format!("[the answer of the agent {src}]"));
    }
    let turn = prepared.into_turn(Box::new(NoTranscript));
    let turn = turn.map_err(|error| {
        AgentFailure::new(failed(error.to_string()), "the agent cannot be prepared")
    })?;
    let listener = Arc::new(AgentListener::new(Arc::clone(&environment.listener), place));
    let ended = turn.run(listener, None).await.map_err(turn_failed)?;
    let TurnEnd::Completed(report) = ended else {
        return Err(AgentFailure::own(
            "a tool call requires approval, which agents cannot get",
        ));
    };
    if let Some(cut) = report.truncated {
        let reason = cut.as_str();
        return Err(AgentFailure::own(format!("its answer is cut ({reason})"))
            .with_help("raise `max_tokens` in its `<config>`"));
    }
    let last = report.replies.last();
    let answer = last.map(ChatMessage::text).unwrap_or_default();
    if let Some(cache) = cache {
        cache.put(&key, &answer);
    }
    Ok(keep(answer))
}

/// Forwards the events of an agent with its place.
pub(crate) struct AgentListener {
    listener: Arc<dyn Listener>,
    place: Arc<AgentCallPath>,
}

impl AgentListener {
    pub(crate) fn new(listener: Arc<dyn Listener>, place: AgentCallPath) -> Self {
        let place = Arc::new(place);
        Self { listener, place }
    }
}

impl Listener for AgentListener {
    fn event(&self, event: TurnEvent) {
        // Agents that an agent calls report to the same listener themselves.
        self.listener.event(TurnEvent::OfAgent {
            agent: Arc::clone(&self.place),
            event: Box::new(event),
        });
    }
}

/// Returns the failure of an agent whose turn failed.
pub(crate) fn turn_failed(error: TurnError) -> AgentFailure {
    let (bucket, category) = (error.bucket, &error.category);
    let public = public_detail(bucket, category, &error.message);
    let public = format!("{public} ({category})");
    let is_transient = bucket == ErrorBucket::RetryableTransient;
    let failure = failed(format!("{} ({category})", error.message)).with_transience(is_transient);
    let failure = error.help.into_iter().fold(failure, WorldError::with_help);
    AgentFailure::new(failure, public)
}

fn not_prepared(error: &PrepareError, src: &str, local: bool) -> AgentFailure {
    let public = match error {
        PrepareError::NoInput { .. } => "agent input is empty".to_owned(),
        PrepareError::NoPrice { .. } => error.to_string(),
        error => format!("the agent cannot be prepared ({})", error.category()),
    };
    AgentFailure::new(unprepared(error, src, local), public)
}

fn unprepared(error: &PrepareError, src: &str, local: bool) -> WorldError {
    let is_transient = error.bucket() == ErrorBucket::RetryableTransient;
    let failure = match error {
        PrepareError::Invalid(invalid) if !is_transient => {
            let mut errors = invalid.errors().iter();
            let variable = errors.find(|error| error.code == DiagnosticCode::MdVariable);
            let help = if let Some(help) = variable.and_then(|error| error.help.first()) {
                help.clone()
            } else if local {
                format!("`logue check {src}` shows what is wrong with it")
            } else {
                "save it to a file; `logue check` shows what is wrong with it".to_owned()
            };
            failed(format!("{error} ({})", error.category())).with_help(help)
        }
        PrepareError::NoInput { .. } => failed("agent input is empty")
            .with_help("write the task of the agent between `<agent …>` and `</agent>`"),
        _ => {
            let help = error.help().into_iter();
            help.fold(failed(error.to_string()), WorldError::with_help)
        }
    };
    failure.with_transience(is_transient)
}

fn failed(message: impl Into<String>) -> WorldError {
    WorldError::new(WorldErrorKind::Agent, message)
}
