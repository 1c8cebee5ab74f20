//! The preparation of a turn.
//!
//! The order is a promise: everything that can be refused is refused before anything is written,
//! and trust is decided before the prompt is evaluated.

use std::collections::BTreeSet;
use std::sync::Arc;

use chatmd::{DocumentRequest, World as _};
use logue_graph::List;
use logue_message::{ChatMessage, ToolDefinition};
use logue_model::{ModelRequest, Provider, ToolChoice};
use logue_source::{Diagnostic, DiagnosticCode};
use logue_tools::{FileHasher, Toolbox};

use crate::permission::decision_source::DecisionSource;
use crate::permission::permissions::Permissions;
use crate::permission::rules::Permission;
use crate::prepare::conversation::Conversation;
use crate::prepare::environment::{Approvals, Environment, Refinement};
use crate::prepare::error::{InvalidPrompt, PrepareError};
use crate::prepare::models::Model;
use crate::prepare::rule_tools::require_tools;
use crate::prepare::source::{History, PromptLanguage, PromptOrigin, PromptSource};
use crate::prompt::document::Prompt;
use crate::prompt::refine::{RewriteMemory, refine_prompt};
use crate::prompt::scope::PromptScope;
use crate::prompt::toolbox::toolbox;
use crate::prompt::variables::FilledVariables;
use crate::transcript::item::{TranscriptError, TranscriptWriter};
use crate::trust::grant::PromptDeclarations;
use crate::turn::assistant::Assistant;
use crate::turn::budget::{Budget, SpendLimits};
use crate::turn::redacted::{RedactedListener, TurnRedaction};
use crate::turn::request::request_messages;
use crate::turn::response_requirements::ResponseRequirements;
use crate::turn::run::Turn;

/// A prompt that is ready to answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prepared {
    /// The model with its tools, permissions and limits.
    pub assistant: Assistant,
    /// The evaluated prompt.
    pub prompt: Prompt,
    pub(crate) scope: PromptScope,
    pub(crate) conversation: Conversation,
    /// The identity of the model, for caches of its responses.
    pub(crate) model_identity: String,
}

/// A prompt that was read and evaluated.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedPrompt {
    /// The evaluated prompt.
    pub prompt: Prompt,
    scope: PromptScope,
    permissions: Permissions,
    /// The requests of its rewriting and of the agents that its documents called.
    requests: u64,
}

/// Prepares a turn of a prompt: decides on trust, evaluates the prompt, connects to its tools and
/// finds its model.
///
/// Nothing is written. Dropping the future cancels it. Documents of the prompt may call agents,
/// which spend from the budget of the environment.
///
/// # Errors
/// Returns an error if the prompt is invalid, a tool or the model cannot be set up, or the
/// conversation has no message to answer.
pub async fn prepare(
    environment: &Environment,
    source: PromptSource,
) -> Result<Prepared, PrepareError> {
    let LoadedPrompt {
        prompt,
        scope,
        permissions,
        requests,
    } = Box::pin(load_prompt(environment, &source)).await?;
    let mut prepared = assemble(environment, &source, prompt, scope, permissions).await?;
    prepared.assistant.earlier_requests = requests;
    Ok(prepared)
}

/// Reads and evaluates a prompt, as the first part of [`prepare`]: no tool is set up and no model
/// is required, except for the agents that documents of the prompt call.
///
/// # Errors
/// Returns an error if trust cannot be determined or the prompt is invalid.
pub async fn load_prompt(
    environment: &Environment,
    source: &PromptSource,
) -> Result<LoadedPrompt, PrepareError> {
    let mut scope = environment.scope(source)?;
    let mut source = source.clone();
    // The rewrite and all agents that documents call, at any depth, share one limit.
    let documents = environment.budget.part(0, environment.max_requests as u64);
    refine(environment, &scope, &mut source, &documents).await?;
    let grant = scope.grant(&source.name, &source.text);
    scope.kept.extend(grant.protected().cloned());
    require_tools(environment, &scope, &source, None)?;
    let permissions = environment.permissions.clone();
    let judged = environment.trust.judge(&source, &grant, &permissions);
    let trust = judged.await?;
    let permissions = permissions.with_trust(trust);
    let permissions = match environment.approvals {
        Approvals::Never => permissions.without_asking(),
        _ => permissions,
    };
    let mut agents = environment.for_agents(&permissions);
    agents.budget = documents.clone();
    if matches!(source.history, History::Session | History::Suspended)
        && !environment.redaction.is_empty()
    {
        let redact = Arc::new(environment.redaction.clone());
        agents.listener = Arc::new(RedactedListener {
            listener: agents.listener,
            redaction: TurnRedaction::of_session(Some(redact)),
        });
    }
    let scope = scope.with_runner(Arc::new(agents));
    let mut prompt = evaluate(&scope, &source).await?;
    if let Some(name) = prompt.variables.undeclared.take() {
        return Err(PrepareError::UnknownVariable { name });
    }
    if source.history == History::Suspended {
        let waiting = prompt.unanswered_calls();
        let ids = waiting
            .iter()
            .filter_map(|item| item.to_message()?.tool_call_id);
        let ids: Vec<String> = ids.map(|id| format!("{id:?}")).collect();
        // Calls that wait for the decision have no response yet.
        prompt.diagnostics.retain(|found| {
            found.code != DiagnosticCode::CallWithoutResponse
                || !ids.iter().any(|id| found.message.contains(id))
        });
    }
    // Agents that documents call have run since, and their commands may have written files.
    let permissions = if source.language == PromptLanguage::ChatMd
        && !grant.is_empty()
        && !grant.has_own(&declarations(&prompt, &scope))
    {
        let trust = permissions.trust.clone().withdrawn();
        permissions.with_trust(trust)
    } else {
        permissions
    };
    for name in &prompt.variables.replaced {
        environment.progress.variable_replaced(name);
    }
    environment.progress.loaded(&prompt, scope.shell());
    Ok(LoadedPrompt {
        prompt,
        scope,
        permissions,
        requests: documents.requests(),
    })
}

/// Prepares an agent in the scope that its caller gives it.
pub(crate) async fn prepare_agent(
    environment: &Environment,
    source: PromptSource,
    scope: PromptScope,
) -> Result<Prepared, PrepareError> {
    let prompt = evaluate(&scope, &source).await?;
    let path = match &source.origin {
        PromptOrigin::File(path) => path.clone(),
        _ => source.name.clone().into(),
    };
    let declared = declarations(&prompt, &scope).with_prompt(&path, &source.text);
    let permissions = environment.permissions.clone().for_agent(&path, &declared);
    assemble(environment, &source, prompt, scope, permissions).await
}

/// Returns the declarations of a prompt and its imports, with the current files.
fn declarations(prompt: &Prompt, scope: &PromptScope) -> PromptDeclarations {
    let folder = scope.files.roots().base();
    let hasher = &mut FileHasher::default();
    PromptDeclarations::from_tools(prompt.tools.iter(), folder, &scope.shell, hasher)
        .with_imports(prompt.parts(), folder)
}

impl LoadedPrompt {
    /// Closes the connections to tool servers.
    pub async fn close(&self) {
        self.scope.close().await;
    }
}

impl Prepared {
    /// The messages that the turn answers; empty for the conversation of a session.
    pub fn history(&self) -> &[ChatMessage] {
        &self.conversation.messages
    }

    /// Calls `ask` with the first request of the turn. Nothing is written.
    pub async fn with_first_request<T>(
        &self,
        ask: impl AsyncFnOnce(&dyn Provider, &ModelRequest<'_>) -> T,
    ) -> T {
        let assistant = &self.assistant;
        let conversation = List::from(self.conversation.messages.clone());
        let messages = request_messages(&assistant.prefix, &conversation);
        assistant.toolbox.refresh().await;
        let toolbox = assistant.toolbox.current().await;
        let request = ModelRequest::new(&assistant.model, &messages, &assistant.settings)
            .with_tools(toolbox.definitions());
        let request = assistant.requirements.applied(request);
        ask(&*assistant.provider, &request).await
    }

    /// Returns a handle that closes the connections to the prompt's tool servers.
    pub fn connections(&self) -> Connections {
        Connections(self.scope.clone())
    }

    /// Starts the turn of a prompt: appends the user's message, and the results of calls that were
    /// interrupted, to `transcript`.
    ///
    /// # Errors
    /// Returns an error if the transcript cannot be written. Nothing was appended.
    pub fn into_turn(
        self,
        mut transcript: Box<dyn TranscriptWriter>,
    ) -> Result<Turn, TranscriptError> {
        transcript.prepare()?;
        transcript.append(&self.conversation.additions)?;
        Ok(Turn {
            assistant: self.assistant,
            history: self.conversation.messages,
            transcript,
        })
    }
}

/// The connections to the tool servers of a prompt.
#[derive(Clone, Debug)]
pub struct Connections(PromptScope);

impl Connections {
    /// Closes the connections. Dropping the last handle closes them without notice to the servers.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// Replaces the text with one that a model has rewritten, if requested.
///
/// A prompt with errors is left for [`evaluate`] to report.
async fn refine(
    environment: &Environment,
    scope: &PromptScope,
    source: &mut PromptSource,
    budget: &Budget,
) -> Result<(), PrepareError> {
    if source.language != PromptLanguage::ChatMd || environment.refinement == Refinement::Never {
        return Ok(());
    }
    let tree = chatmd::parse(&source.text);
    let is_requested =
        environment.refinement == Refinement::Always || chatmd::refine::is_requested(&tree);
    if !is_requested || tree.has_errors() {
        return Ok(());
    }
    let named = scope.model_named(&source.name, &source.text);
    let model = environment
        .models
        .find_main(named.as_deref(), scope.files.roots())?;
    let memory = RewriteMemory {
        cache: environment.refined_prompts.as_ref(),
        record: scope.record.as_deref(),
        is_fresh: environment.is_fresh,
        is_dry_run: environment.is_dry_run,
    };
    let refined = refine_prompt(&source.name, &source.text, &model, memory, budget);
    let Some(rewritten) = refined.await? else {
        let name = &source.name;
        let skipped = format!("{name} is not rewritten: the request shows it as it is written");
        environment.progress.not_asked(&skipped);
        return Ok(());
    };
    let length = chatmd::refine::prompt_length(&chatmd::parse(&rewritten));
    let prompt = rewritten.get(..length).unwrap_or(&rewritten);
    environment
        .progress
        .refined(&source.name, prompt.trim_end());
    source.text = rewritten;
    Ok(())
}

/// Reads and evaluates the text of a prompt.
async fn evaluate(scope: &PromptScope, source: &PromptSource) -> Result<Prompt, PrepareError> {
    let prompt = match source.language {
        PromptLanguage::ChatMd => scope.load(&source.name, &source.text).await,
        PromptLanguage::OpenChatMl => {
            let undeclared = scope.variables.undeclared(&BTreeSet::new());
            let variables = FilledVariables {
                undeclared: undeclared.map(str::to_owned),
                ..FilledVariables::default()
            };
            Prompt::from_openchatml(&source.name, &source.text).with_variables(Box::new(variables))
        }
    };
    let errors = prompt.diagnostics.iter().filter(|found| found.is_error());
    let errors: Vec<Diagnostic> = errors.cloned().collect();
    if errors.is_empty() {
        Ok(prompt)
    } else {
        Err(PrepareError::Invalid(Box::new(InvalidPrompt::new(
            prompt, errors,
        ))))
    }
}

/// Connects an evaluated prompt to its tools and its model.
async fn assemble(
    environment: &Environment,
    source: &PromptSource,
    prompt: Prompt,
    mut scope: PromptScope,
    permissions: Permissions,
) -> Result<Prepared, PrepareError> {
    if source.origin == PromptOrigin::Network && !prompt.tools.is_empty() {
        return Err(PrepareError::ToolsFromNetwork);
    }
    // The errors of tools are reported before that of the model.
    let model = find_model(environment, &prompt, &scope);
    if let Ok(model) = &model {
        scope.takes_images = model.provider.takes_images();
    }
    let toolbox = match toolbox(&prompt, &scope, &permissions).await {
        Ok(toolbox) => toolbox,
        Err(error) => {
            let invalid = InvalidPrompt::new(prompt, vec![*error]);
            return Err(PrepareError::Invalid(Box::new(invalid)));
        }
    };
    let offered = toolbox.current().await.into_owned();
    require_tools(environment, &scope, source, Some(&offered))?;
    require_approver(environment, source, &offered, &permissions)?;
    let redaction = &environment.redaction;
    let conversation = Conversation::from_prompt(&prompt, source, redaction)?;
    let requirements = match requirements_of(&prompt, &scope) {
        Ok(requirements) => environment.requirements.clone().or(requirements),
        Err(error) => {
            let invalid = InvalidPrompt::new(prompt, vec![*error]);
            return Err(PrepareError::Invalid(Box::new(invalid)));
        }
    };
    let checked = requirements.check(offered.definitions());
    checked.map_err(PrepareError::Requirements)?;
    let model = model?;
    if scope.depth == 0 {
        require_price(environment.budget.limits(), &model)?;
    }
    let prefix = match source.history {
        History::Session => prompt.messages.clone(),
        _ => Vec::new(),
    };
    let mut routing = environment.routing.clone();
    // Transcripts of OpenChatML contain results in their envelope.
    routing.envelope |= prompt.is_openchatml();
    let assistant = Assistant {
        provider: model.provider,
        model: model.name,
        settings: match &scope.inherited {
            Some(caller) if prompt.config.model.is_none() => prompt.settings().or(&caller.settings),
            _ => prompt.settings(),
        },
        toolbox,
        permissions,
        prefix,
        max_requests: environment.max_requests,
        earlier_requests: 0,
        routing,
        budget: environment.budget.clone(),
        requirements,
        redaction: (!redaction.is_empty()).then(|| Arc::new(redaction.clone()) as _),
        stop: environment.stop.clone(),
    };
    Ok(Prepared {
        assistant,
        prompt,
        scope,
        conversation,
        model_identity: model.identity,
    })
}

/// Returns the requirements on responses that a prompt states.
fn requirements_of(
    prompt: &Prompt,
    scope: &PromptScope,
) -> Result<ResponseRequirements, Box<Diagnostic>> {
    let choice = prompt.config.tool_choice.as_deref();
    let choice = choice.map(|choice| match choice {
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        "none" => ToolChoice::None,
        tool => ToolChoice::Tool(tool.to_owned()),
    });
    let schema = match &prompt.config.response_schema {
        Some(src) => Some(Arc::new(schema_in(src, prompt, scope)?)),
        None => None,
    };
    Ok(ResponseRequirements::default()
        .with_tool_choice(choice)
        .with_response_schema(schema))
}

/// Reads the schema that a prompt names.
fn schema_in(
    src: &str,
    prompt: &Prompt,
    scope: &PromptScope,
) -> Result<serde_json::Value, Box<Diagnostic>> {
    let at = prompt.config.opener;
    let mut files = scope.files.clone();
    let read = files.document(&DocumentRequest::local(src));
    let text = read.map_err(|error| {
        let message = format!("cannot read the schema {src:?}: {error}");
        Box::new(Diagnostic::error(error.kind.code(), message, at))
    })?;
    serde_json::from_str(&text.text).map_err(|error| {
        let message = format!("the schema {src:?} is not JSON: {error}");
        let invalid = Diagnostic::error(DiagnosticCode::MdInvalidAttribute, message, at);
        Box::new(invalid.with_help("write a JSON Schema with an object at its root"))
    })
}

fn find_model(
    environment: &Environment,
    prompt: &Prompt,
    scope: &PromptScope,
) -> Result<Model, PrepareError> {
    let named = prompt.config.model.as_deref();
    let models = &environment.models;
    Ok(match (&scope.inherited, named) {
        _ if scope.depth == 0 => models.find_main(named, scope.files.roots())?,
        (Some(caller), None) if caller.is_main => {
            models.find_main(caller.named.as_deref(), &caller.roots)?
        }
        (Some(caller), None) => models.find(caller.named.as_deref(), &caller.roots)?,
        _ => models.find(named, scope.files.roots())?,
    })
}

/// Refuses a prompt with tools that require approval where approval cannot be given.
fn require_approver(
    environment: &Environment,
    source: &PromptSource,
    offered: &Toolbox,
    permissions: &Permissions,
) -> Result<(), PrepareError> {
    if environment.approvals != Approvals::Immediate || permissions.approver.is_some() {
        return Ok(());
    }
    let decide = |tool: &ToolDefinition| (tool.name.clone(), permissions.decide(&tool.name));
    let decisions = offered.definitions().iter().map(decide);
    let asked: Vec<_> = decisions
        .filter(|(_, decision)| decision.permission == Permission::Ask)
        .collect();
    let untrusted = asked
        .iter()
        .find(|(_, decision)| matches!(decision.by, DecisionSource::NotTrusted { .. }));
    match untrusted {
        Some((tool, _)) => Err(PrepareError::NotTrusted {
            name: source.name.clone(),
            tool: tool.clone(),
        }),
        None if asked.is_empty() => Ok(()),
        None => Err(PrepareError::NoApprover),
    }
}

/// Refuses a cost limit that cannot be enforced.
fn require_price(limits: &SpendLimits, model: &Model) -> Result<(), PrepareError> {
    let is_known = limits.price(model.provider.name(), &model.name).is_some();
    if limits.max_cost.is_none() || is_known {
        return Ok(());
    }
    Err(PrepareError::NoPrice {
        model: model.name.clone(),
    })
}
