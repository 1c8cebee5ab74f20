//! Everything that a prompt may reach while it is read and run: files below the roots, pages of
//! allowed hosts, agents.
//!
//! A [`Surroundings`] drives the evaluation of a prompt: it takes what the evaluation needs and gets
//! all of it at once, agents included. An agent's own prompt has surroundings of its own, one level
//! deeper and based on its own folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chatmd::{
    DocumentText, EvaluationRequest, EvaluationResponse, Evaluator, RequestId, RequestKind,
    World as _, WorldError, WorldErrorKind, load,
};
use logue_message::ContentBlock;
use logue_tools::{AccessScope, FetchCategory, Fetcher, SearchEngine, ShellPolicy, ToolServers};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::agents::run_agent::{Agents, Freshness};
use crate::prompt::document::Prompt;
use crate::prompt::file_loader::{FileWorld, network_is_off};
use crate::turn::budget::Budget;

/// Things that a prompt needs and that are fetched at the same time.
const AT_ONCE: usize = 4;

/// What a prompt may reach.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub(crate) world: FileWorld,
    pub(crate) shell: ShellPolicy,
    pub(crate) network: Option<Arc<Fetcher>>,
    pub(crate) search: Option<Arc<SearchEngine>>,
    pub(crate) agents: Option<Arc<Agents>>,
    /// Servers that offer tools.
    pub(crate) servers: Option<Arc<dyn ToolServers>>,
    /// Files that no tool writes, beside those of the prompts.
    pub(crate) kept: Vec<PathBuf>,
    /// The prompts of the agents that are being run, the outermost first.
    pub(crate) callers: Vec<PathBuf>,
    /// How many agents these are within.
    pub(crate) depth: usize,
}

/// One request, with everything in it owned.
enum Errand {
    Document(String, bool, bool, bool),
    Image(String),
    Agent(String, bool, Vec<ContentBlock>),
}

impl Surroundings {
    /// The disk alone: addresses and agents are refused.
    pub fn new(world: FileWorld, shell: impl Into<ShellPolicy>) -> Self {
        Self {
            shell: shell.into(),
            network: None,
            search: None,
            agents: None,
            servers: None,
            kept: Vec::new(),
            callers: world_file(&world),
            depth: 0,
            world,
        }
    }

    /// What the programs of tools may cost and reach.
    pub fn shell(&self) -> &ShellPolicy {
        &self.shell
    }

    /// The same with the hosts that the fetcher may ask.
    #[must_use]
    pub fn with_network(mut self, network: Arc<Fetcher>) -> Self {
        self.network = Some(network);
        self
    }

    /// The same with the engine that `browser.search` asks, among the hosts of the fetcher.
    #[must_use]
    pub fn with_search(mut self, engine: Arc<SearchEngine>) -> Self {
        self.search = Some(engine);
        self
    }

    /// The same, and no tool writes the file `path`: it is the transcript, for example.
    #[must_use]
    pub fn keeping(mut self, path: &Path) -> Self {
        self.kept.push(path.to_owned());
        self
    }

    /// What the built-in tools of a prompt in these surroundings can get at: what the surroundings
    /// themselves can, but the prompts that are being run, what they import and the agents that
    /// they may call stay as they are.
    pub(crate) fn reach(&self, prompt: &Prompt) -> AccessScope {
        let roots = self.world.roots();
        let reach = AccessScope::new(Arc::clone(roots))
            .with_write_log(self.world.written().clone())
            .with_python(self.shell.of("python").clone());
        let own = self.callers.iter().chain(&self.kept).cloned();
        let named = prompt.prompt_files().into_iter();
        let named = named.filter_map(|name| roots.find(name).ok().map(|found| found.path));
        let reach = own
            .chain(named)
            .fold(reach, AccessScope::with_protected_file);
        let network = self.network.iter().cloned();
        let reach = network.fold(reach, AccessScope::with_network);
        let search = self.search.iter().cloned();
        search.fold(reach, AccessScope::with_search)
    }

    /// The same with servers that offer tools.
    #[must_use]
    pub fn with_tool_servers(mut self, servers: Arc<dyn ToolServers>) -> Self {
        self.servers = Some(servers);
        self
    }

    /// Ends the connections to servers that offer tools. Dropping the surroundings does so as well,
    /// without telling the servers.
    pub async fn close(&self) {
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
    }

    /// The same with agents.
    #[must_use]
    pub fn with_agents(mut self, agents: Arc<Agents>) -> Self {
        self.agents = Some(agents);
        self
    }

    /// Reads a document with its imports and evaluates it; reports call it `name`. Never fails:
    /// what is wrong is among the diagnostics, and a document that does not parse is not
    /// evaluated. Documents and agents that do not depend on one another are fetched together.
    ///
    /// Dropping the future cancels what was started.
    pub async fn load(&self, name: &str, text: &str) -> Prompt {
        let loaded = load(name, text, &mut self.world.clone());
        if loaded.has_errors() {
            return Prompt::unevaluated(loaded);
        }
        let document = loaded.document().clone();
        let mut evaluator = Evaluator::new(&document);
        loop {
            let requests = evaluator.requests();
            if requests.is_empty() {
                break;
            }
            for (id, answer) in self.fetch(&requests).await {
                evaluator.resolve(id, answer);
            }
        }
        Prompt::evaluated(loaded, evaluator.finish())
    }

    /// The model that a document or what it imports names, nothing evaluated.
    pub fn model_named(&self, name: &str, text: &str) -> Option<String> {
        let loaded = load(name, text, &mut self.world.clone());
        loaded.document().config()?.model.clone()
    }

    async fn fetch(
        &self,
        requests: &[EvaluationRequest<'_>],
    ) -> Vec<(RequestId, Result<EvaluationResponse, WorldError>)> {
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut running = JoinSet::new();
        for request in requests {
            let Some(errand) = Errand::of(&request.kind) else {
                continue;
            };
            let (this, id, permits) = (self.clone(), request.id, Arc::clone(&permits));
            let errand = async move {
                // The semaphore is never closed.
                let _permit = permits.acquire_owned().await.ok();
                (id, this.run(errand).await)
            };
            // What an agent does and spends belongs to the turn and the span that it was asked in.
            let errand = errand.in_current_span();
            match Budget::of_turn() {
                Some(budget) => running.spawn(budget.for_agents(errand)),
                None => running.spawn(errand),
            };
        }
        let mut answers = Vec::with_capacity(requests.len());
        while let Some(ended) = running.join_next().await {
            // A task that did not end well leaves its request unanswered, which is reported.
            answers.extend(ended.ok());
        }
        answers
    }

    async fn run(self, errand: Errand) -> Result<EvaluationResponse, WorldError> {
        match errand {
            Errand::Document(src, false, ..) => {
                self.page(&src).await.map(EvaluationResponse::Document)
            }
            Errand::Document(src, local, strip, markdown) => {
                let mut request = chatmd::DocumentRequest::local(&src);
                (request.local, request.strip, request.markdown) = (local, strip, markdown);
                self.world
                    .clone()
                    .document(&request)
                    .map(EvaluationResponse::Document)
            }
            Errand::Image(src) => {
                let request = chatmd::ImageRequest::local(&src);
                self.world
                    .clone()
                    .image(&request)
                    .map(EvaluationResponse::Image)
            }
            Errand::Agent(src, local, input) => {
                let asked = self.ask_agent(&src, local, input, Freshness::MayRepeat, None);
                asked.await.map(EvaluationResponse::Agent)
            }
        }
    }
}

impl Surroundings {
    /// The text at an address.
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
            let message = format!("{src}: is no text, but of the type {kind}");
            return Err(WorldError::new(WorldErrorKind::NotUtf8, message));
        }
        Ok(DocumentText {
            text: fetched.text().into_owned(),
            media_type: if fetched.is_html() {
                Some("text/html".to_owned())
            } else {
                fetched.media_type
            },
        })
    }
}

fn world_file(world: &FileWorld) -> Vec<PathBuf> {
    world.file().map(PathBuf::from).into_iter().collect()
}

impl Errand {
    fn of(kind: &RequestKind<'_>) -> Option<Self> {
        match kind {
            RequestKind::Document(asked) => Some(Self::Document(
                asked.src.to_owned(),
                asked.local,
                asked.strip,
                asked.markdown,
            )),
            RequestKind::Image(asked) => Some(Self::Image(asked.src.to_owned())),
            RequestKind::Agent(asked) => Some(Self::Agent(
                asked.src.to_owned(),
                asked.local,
                asked.input.clone(),
            )),
            _ => None,
        }
    }
}
