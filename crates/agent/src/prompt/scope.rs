//! The scope of a prompt: files below its roots, pages of allowed hosts, and agents.
//!
//! A [`PromptScope`] drives the evaluation of a prompt: it serves the requests of an evaluation
//! concurrently, agents included. The prompt of an agent has a scope of its own, one level deeper
//! and based on its own directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chatmd::{
    Config, DocumentText, Evaluation, EvaluationRequest, EvaluationResponse, Evaluator, RequestId,
    RequestKind, World as _, WorldError, WorldErrorKind, load,
};
use logue_message::ContentBlock;
use logue_model::SamplingSettings;
use logue_tools::{
    AccessScope, BoxFuture, FetchCategory, Fetcher, HiddenFiles, Roots, SearchEngine, ShellPolicy,
    ToolResult, ToolServers,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::prompt::confinement::Confinement;
use crate::prompt::document::{Prompt, settings_of};
use crate::prompt::file_loader::{FileLoader, network_is_off};
use crate::prompt::variables::{FilledVariables, VariableValues};
use crate::record::entry::{RecordEntry, RecordKind, entry_key, place_key};
use crate::record::evaluation_record::EvaluationRecord;
use crate::turn::budget::Budget;

/// The number of requests that are served at the same time.
const AT_ONCE: usize = 4;

/// The files, hosts, servers and agents that a prompt can reach.
#[derive(Clone, Debug)]
pub struct PromptScope {
    pub(crate) files: FileLoader,
    pub(crate) shell: ShellPolicy,
    pub(crate) network: Option<Arc<Fetcher>>,
    pub(crate) search: Option<Arc<SearchEngine>>,
    pub(crate) agents: Option<Arc<dyn AgentRunner>>,
    /// Connects to tool servers.
    pub(crate) servers: Option<Arc<dyn ToolServers>>,
    /// Files that tools cannot write, besides those of the prompts.
    pub(crate) kept: Vec<PathBuf>,
    /// The prompts of a server, which tools do not read.
    pub(crate) hidden: Option<HiddenFiles>,
    /// The prompts of the running agents, the outermost first.
    pub(crate) callers: Vec<PathBuf>,
    /// The number of enclosing agents.
    pub(crate) depth: usize,
    /// The model and settings of the caller, for an agent.
    pub(crate) inherited: Option<Arc<InheritedModel>>,
    /// The values of the prompt's variables.
    pub(crate) variables: Arc<VariableValues>,
    /// The record of earlier evaluations; `None` in the call of a tool.
    pub(crate) record: Option<Arc<EvaluationRecord>>,
    /// The identity of the agent's place in the prompts that lead to it.
    pub(crate) place: String,
    /// The restrictions of the callers.
    pub(crate) confinement: Arc<Confinement>,
    /// Whether the model of the prompt takes images.
    pub(crate) takes_images: bool,
}

/// The model and settings of a caller, for agents that name no model.
#[derive(Clone, Debug)]
pub(crate) struct InheritedModel {
    /// The model that the caller's prompt names.
    pub(crate) named: Option<String>,
    /// The directories that `named` may lead to.
    pub(crate) roots: Arc<Roots>,
    /// Whether the caller is the prompt that the user runs, for which flags take precedence.
    pub(crate) is_main: bool,
    pub(crate) settings: SamplingSettings,
}

/// A call of an agent.
pub(crate) struct AgentRequest<'a> {
    /// The path or the address of its prompt.
    pub(crate) src: &'a str,
    pub(crate) local: bool,
    pub(crate) input: Vec<ContentBlock>,
    pub(crate) freshness: CachePolicy,
    /// The tool call that runs it, if there is one.
    pub(crate) call_id: Option<&'a str>,
    /// The identity of the element that calls it; empty for a tool call.
    pub(crate) place: String,
}

/// The policy for using an agent's earlier response again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// It may be used: a document calls the agent each time that it is evaluated.
    MayRepeat,
    /// It may not be used: a model calls the agent and may need another response.
    Fresh,
}

/// The failure of an agent.
#[derive(Debug)]
pub(crate) struct AgentFailure {
    /// The failure for the user who runs the prompt. It may quote a model server or a prompt.
    pub(crate) error: WorldError,
    /// The description for the model that called the agent. It quotes nothing from outside.
    pub(crate) public: String,
}

impl AgentFailure {
    /// Creates a failure with another description for models.
    pub(crate) fn new(error: WorldError, public: impl Into<String>) -> Self {
        let public = public.into();
        Self { error, public }
    }

    /// Creates a failure whose sentence quotes nothing.
    pub(crate) fn own(message: impl Into<String>) -> Self {
        let public = message.into();
        let error = WorldError::new(WorldErrorKind::Agent, public.clone());
        Self { error, public }
    }

    /// Adds a remedy.
    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.error = self.error.with_help(help);
        self
    }

    /// Returns the result of the call that ran the agent.
    pub(crate) fn into_result(self) -> ToolResult {
        let code = self.error.kind.code().as_str();
        ToolResult::error(code, self.public).with_diagnostic(self.error.to_string())
    }
}

/// Runs the agents of a scope.
pub(crate) trait AgentRunner: Send + Sync + std::fmt::Debug {
    /// Returns the last message of an agent.
    ///
    /// # Errors
    /// Returns an error of the kind [`WorldErrorKind::Agent`] if agents are nested too deeply, or
    /// the agent's prompt or model failed.
    fn run<'a>(
        &'a self,
        caller: &'a PromptScope,
        request: AgentRequest<'a>,
    ) -> BoxFuture<'a, Result<String, AgentFailure>>;

    /// Returns the answer of a fork of the conversation whose call runs.
    ///
    /// # Errors
    /// Returns an error of the kind [`WorldErrorKind::Agent`] if the fork may not run or failed.
    fn fork<'a>(
        &'a self,
        caller: &'a PromptScope,
        call_id: &'a str,
        instruction: String,
    ) -> BoxFuture<'a, Result<String, AgentFailure>>;
}

/// One request with owned contents.
enum Errand {
    Document(String, bool, bool, bool),
    Image(String),
    /// The last field identifies the element.
    Agent(String, bool, Vec<ContentBlock>, String),
}

impl PromptScope {
    /// A scope of files alone: addresses and agents are refused.
    pub fn new(files: FileLoader, shell: impl Into<ShellPolicy>) -> Self {
        Self {
            shell: shell.into(),
            network: None,
            search: None,
            agents: None,
            servers: None,
            kept: Vec::new(),
            hidden: None,
            callers: files.file().map(PathBuf::from).into_iter().collect(),
            depth: 0,
            inherited: None,
            variables: Arc::default(),
            record: None,
            place: String::new(),
            confinement: Arc::default(),
            takes_images: true,
            files,
        }
    }

    /// Sets the model, settings and variables of the prompt as those that its agents inherit.
    #[must_use]
    pub(crate) fn passing_on(&self, config: &Config, filled: &FilledVariables) -> Self {
        let settings = settings_of(config);
        let inherited = match (&self.inherited, &config.model) {
            (Some(inherited), None) => InheritedModel {
                settings: settings.or(&inherited.settings),
                ..(**inherited).clone()
            },
            _ => InheritedModel {
                named: config.model.clone(),
                roots: Arc::clone(self.files.roots()),
                is_main: self.depth == 0,
                settings,
            },
        };
        Self {
            inherited: Some(Arc::new(inherited)),
            variables: Arc::clone(&filled.for_agents),
            ..self.clone()
        }
    }

    /// Sets the values of variables.
    #[must_use]
    pub(crate) fn with_variables(mut self, values: VariableValues) -> Self {
        self.variables = Arc::new(values);
        self
    }

    /// Limits and variables of the programs that tools start.
    pub fn shell(&self) -> &ShellPolicy {
        &self.shell
    }

    /// Returns the directory of the prompt; the first root if it has no file.
    pub(crate) fn prompt_folder(&self) -> PathBuf {
        let file = self.files.file().and_then(Path::parent);
        file.unwrap_or_else(|| self.files.roots().base()).to_owned()
    }

    /// Allows the hosts of a fetcher.
    #[must_use]
    pub fn with_network(mut self, network: Arc<Fetcher>) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets the search engine of `browser.search`; the fetcher must allow its host.
    #[must_use]
    pub fn with_search(mut self, engine: Arc<SearchEngine>) -> Self {
        self.search = Some(engine);
        self
    }

    /// Protects the file `path`, such as the transcript, from tools.
    #[must_use]
    pub fn keeping(mut self, path: &Path) -> Self {
        self.kept.push(path.to_owned());
        self
    }

    /// Returns the access of the prompt's built-in tools.
    ///
    /// It is the access of the scope without the running prompts, their imports and the agents that
    /// they may call: tools cannot write those.
    pub(crate) fn reach(&self, prompt: &Prompt) -> AccessScope {
        let roots = self.files.roots();
        let reach = AccessScope::new(Arc::clone(roots))
            .with_write_log(self.files.written().clone())
            .with_python(self.program_options("python"))
            .with_python_roots(self.program_roots())
            .with_images(self.takes_images);
        let named = prompt.prompt_files().into_iter();
        let named = named.filter_map(|name| roots.open_file(name).ok().map(|opened| opened.path));
        let prompts: Vec<PathBuf> = self.callers.iter().cloned().chain(named).collect();
        let protected = prompts.iter().chain(&self.kept);
        let mut reach = protected.fold(reach, AccessScope::with_protected_file);
        if let Some(hidden) = &self.hidden {
            for prompt in &prompts {
                hidden.hide(prompt);
            }
            reach = reach.with_hidden_files(hidden);
        }
        let network = self.network.iter().cloned();
        let reach = network.fold(reach, AccessScope::with_network);
        let search = self.search.iter().cloned();
        search.fold(reach, AccessScope::with_search)
    }

    /// Sets the port to tool servers.
    #[must_use]
    pub fn with_tool_servers(mut self, servers: Arc<dyn ToolServers>) -> Self {
        self.servers = Some(servers);
        self
    }

    /// Closes the connections to tool servers.
    ///
    /// Dropping the scope closes them without notice to the servers.
    pub async fn close(&self) {
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
    }

    /// Allows agents.
    #[must_use]
    pub(crate) fn with_runner(mut self, agents: Arc<dyn AgentRunner>) -> Self {
        self.agents = Some(agents);
        self
    }

    /// Reads a document with its imports and evaluates it; reports call it `name`.
    ///
    /// It never fails: errors are among the diagnostics, and a document that does not parse is not
    /// evaluated. Independent documents and agents are requested together.
    ///
    /// Dropping the future cancels all requests.
    pub async fn load(&self, name: &str, text: &str) -> Prompt {
        let loaded = load(name, text, &mut self.files.clone());
        if loaded.has_errors() {
            return Prompt::unevaluated(loaded);
        }
        let mut document = loaded.document().clone();
        let (mut filled, mut missing) = self.variables.fill(&mut document);
        let none = Config::default();
        let mut scope = self.passing_on(document.config().unwrap_or(&none), &filled);
        match scope.confining(document.tools()) {
            Ok(confining) => scope = confining,
            Err(refused) => missing.push(*refused),
        }
        if self.depth == 0 {
            missing.extend(scope.check_agents(&document, &self.variables, &mut filled));
        }
        if filled.undeclared.is_some() || !missing.is_empty() {
            let evaluation = Evaluation::default();
            let prompt = Prompt::evaluated(loaded, evaluation).with_findings(missing);
            return prompt.with_variables(filled);
        }
        let mut evaluator = Evaluator::new(&document);
        let mut failures = Vec::new();
        let mut numbers = BTreeMap::new();
        loop {
            let requests = evaluator.requests();
            if requests.is_empty() {
                break;
            }
            for (id, answer) in scope.fetch(&requests, &mut numbers).await {
                if let Err(error) = &answer
                    && error.kind == WorldErrorKind::Agent
                {
                    failures.push(error.is_transient);
                }
                evaluator.resolve(id, answer);
            }
        }
        let is_transient = !failures.is_empty() && failures.iter().all(|transient| *transient);
        Prompt::evaluated(loaded, evaluator.finish())
            .with_transience(is_transient)
            .with_variables(filled)
    }

    /// Returns the model that a document or its imports name, without evaluation.
    pub fn model_named(&self, name: &str, text: &str) -> Option<String> {
        let loaded = load(name, text, &mut self.files.clone());
        loaded.document().config()?.model.clone()
    }

    async fn fetch(
        &self,
        requests: &[EvaluationRequest<'_>],
        numbers: &mut BTreeMap<String, usize>,
    ) -> Vec<(RequestId, Result<EvaluationResponse, WorldError>)> {
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut running = JoinSet::new();
        for request in requests {
            let Some(errand) = self.errand(&request.kind, numbers) else {
                continue;
            };
            let (this, id, permits) = (self.clone(), request.id, Arc::clone(&permits));
            let errand = async move {
                // The semaphore is never closed.
                let _permit = permits.acquire_owned().await.ok();
                (id, this.run(errand).await)
            };
            // The events and the spend of an agent belong to the turn and the span of its caller.
            let errand = errand.in_current_span();
            match Budget::current() {
                Some(budget) => running.spawn(budget.for_agents(errand)),
                None => running.spawn(errand),
            };
        }
        let mut answers = Vec::with_capacity(requests.len());
        while let Some(ended) = running.join_next().await {
            // A task that panicked leaves its request unanswered, which is reported.
            answers.extend(ended.ok());
        }
        answers
    }

    async fn run(self, errand: Errand) -> Result<EvaluationResponse, WorldError> {
        match errand {
            Errand::Document(src, false, ..) => {
                let page = self.recorded_page(&src).await;
                page.map(EvaluationResponse::Document)
            }
            Errand::Document(src, local, strip, markdown) => {
                let mut request = chatmd::DocumentRequest::local(&src);
                (request.local, request.strip, request.markdown) = (local, strip, markdown);
                self.files
                    .clone()
                    .document(&request)
                    .map(EvaluationResponse::Document)
            }
            Errand::Image(src) => {
                let request = chatmd::ImageRequest::local(&src);
                self.files
                    .clone()
                    .image(&request)
                    .map(EvaluationResponse::Image)
            }
            Errand::Agent(src, local, input, place) => {
                let request = AgentRequest {
                    src: &src,
                    local,
                    input,
                    freshness: CachePolicy::MayRepeat,
                    call_id: None,
                    place,
                };
                let answer = self.ask_agent(request).await;
                let answer = answer.map_err(|failure| failure.error);
                answer.map(EvaluationResponse::Agent)
            }
        }
    }
}

impl PromptScope {
    /// Runs an agent and returns its last message.
    ///
    /// # Errors
    /// Returns an error if agents are off, and those of [`AgentRunner::run`].
    pub(crate) async fn ask_agent(
        &self,
        request: AgentRequest<'_>,
    ) -> Result<String, AgentFailure> {
        let Some(agents) = &self.agents else {
            return Err(AgentFailure::own("agents are not run here"));
        };
        agents.run(self, request).await
    }

    /// Runs a fork of the conversation and returns its answer.
    ///
    /// # Errors
    /// Returns an error if agents are off, and those of [`AgentRunner::fork`].
    pub(crate) async fn fork(
        &self,
        call_id: &str,
        instruction: String,
    ) -> Result<String, AgentFailure> {
        let Some(agents) = &self.agents else {
            return Err(AgentFailure::own("agents are not run here"));
        };
        agents.fork(self, call_id, instruction).await
    }

    /// Returns the text at an address, as an earlier evaluation fetched it.
    pub(crate) async fn recorded_page(&self, src: &str) -> Result<DocumentText, WorldError> {
        let Some(record) = &self.record else {
            return self.page(src).await;
        };
        let key = entry_key(RecordKind::Document, &[src]);
        let entry = if let Some(entry) = record.find(&key) {
            entry
        } else {
            let page = self.page(src).await?;
            record.keep(RecordEntry {
                kind: RecordKind::Document,
                src: src.to_owned(),
                key,
                text: page.text,
                media_type: page.media_type,
            })
        };
        Ok(entry.into_page())
    }

    /// Fetches the text at an address.
    pub(crate) async fn page(&self, src: &str) -> Result<DocumentText, WorldError> {
        let Some(network) = &self.network else {
            return Err(network_is_off(src));
        };
        let fetched = network.get(src).await.map_err(|error| {
            let kind = match error.category {
                FetchCategory::Denied | FetchCategory::Private => WorldErrorKind::Denied,
                FetchCategory::TooLarge => WorldErrorKind::TooLarge,
                _ => WorldErrorKind::Other,
            };
            let failed = WorldError::new(kind, error.message);
            error.help.into_iter().fold(failed, WorldError::with_help)
        })?;
        if !fetched.is_html() && !fetched.is_text() {
            let kind = fetched.media_type.as_deref().unwrap_or("unknown");
            let message = format!("{src}: is not text, but of the type {kind}");
            return Err(WorldError::new(WorldErrorKind::NotUtf8, message));
        }
        let mut text = DocumentText::from(fetched.text().into_owned());
        text.media_type = if fetched.is_html() {
            Some("text/html".to_owned())
        } else {
            fetched.media_type
        };
        Ok(text)
    }
}

impl PromptScope {
    /// Returns the errand of a request. `numbers` counts the calls of equal agents.
    fn errand(
        &self,
        kind: &RequestKind<'_>,
        numbers: &mut BTreeMap<String, usize>,
    ) -> Option<Errand> {
        match kind {
            RequestKind::Document(asked) => Some(Errand::Document(
                asked.src.to_owned(),
                asked.local,
                asked.strip,
                asked.markdown,
            )),
            RequestKind::Image(asked) => Some(Errand::Image(asked.src.to_owned())),
            RequestKind::Agent(asked) => {
                let (src, local, input) = (asked.src, asked.local, asked.input.clone());
                let first = place_key(&self.place, src, local, &input, 0);
                let number = numbers.entry(first).or_default();
                let place = place_key(&self.place, src, local, &input, *number);
                *number += 1;
                Some(Errand::Agent(src.to_owned(), local, input, place))
            }
            _ => None,
        }
    }
}
