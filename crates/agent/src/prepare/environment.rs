//! The settings and ports that prompts are prepared with.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use logue_tools::{
    BoxFuture, Fetcher, HiddenFiles, RootError, Roots, SearchEngine, ShellOptions, ShellPolicy,
    ToolServers,
};

use crate::agents::response_cache::ResponseCache;
use crate::permission::permissions::Permissions;
use crate::prepare::error::PrepareError;
use crate::prepare::host_error::HostError;
use crate::prepare::models::Models;
use crate::prepare::source::PromptSource;
use crate::prompt::document::Prompt;
use crate::prompt::file_loader::FileLoader;
use crate::prompt::scope::PromptScope;
use crate::prompt::variables::VariableValues;
use crate::transcript::redaction::Redaction;
use crate::trust::grant::Grant;
use crate::trust::prompt_trust::PromptTrust;
use crate::turn::answer_parts::TurnStop;
use crate::turn::assistant::MAX_REQUESTS;
use crate::turn::budget::Budget;
use crate::turn::listener::{Listener, NoListener};
use crate::turn::response_requirements::ResponseRequirements;
use crate::turn::routing::Routing;

/// The default limit of nested agent calls.
pub const MAX_AGENT_CALLS: usize = 4;

/// The settings and ports that prompts are prepared with.
///
/// It holds everything that comes from outside a prompt, resolved: [`prepare`](crate::prepare())
/// reads no configuration and no environment variables. Agents of a prompt are prepared with the
/// same environment.
#[derive(Clone)]
#[non_exhaustive]
pub struct Environment {
    /// Finds the models that prompts name.
    pub models: Arc<dyn Models>,
    /// Directories that prompts may read besides their own.
    pub roots: Vec<PathBuf>,
    /// Limits and variables of the programs that tools start.
    pub shell: ShellPolicy,
    /// Fetches pages from the allowed hosts; with `None`, the network is off.
    pub network: Option<Arc<Fetcher>>,
    /// The search engine of `browser.search`; requires `network`.
    pub search: Option<Arc<SearchEngine>>,
    /// Connects to tool servers.
    pub servers: Option<Arc<dyn ToolServers>>,
    /// Permission rules, approver and audit log of tool calls.
    pub permissions: Permissions,
    /// Decides whether a prompt is trusted.
    pub trust: Arc<dyn TrustPolicy>,
    /// The policy for tool calls that require approval.
    pub approvals: Approvals,
    /// The spend limits, shared with the agents of the prompt.
    pub budget: Budget,
    /// The limit of model requests of one prompt, its turn and its agents together.
    pub max_requests: usize,
    /// The limit of nested agent calls; with 0, agents are off.
    pub max_agent_depth: usize,
    /// Options for running tool calls.
    pub routing: Routing,
    /// Requirements on the responses of the turn, before those of its prompt; agents have none.
    pub requirements: ResponseRequirements,
    /// The values of the variables of the prompt; agents have their defaults.
    pub variables: Arc<VariableValues>,
    /// The condition for rewriting a prompt with a model before it runs.
    pub refinement: Refinement,
    /// Whether no request is sent: prompts are not rewritten, and agents are not asked.
    pub is_dry_run: bool,
    /// Whether caches are not used: agents are asked and prompts are rewritten again.
    pub is_fresh: bool,
    /// Keeps rewritten prompts.
    pub refined_prompts: Option<ResponseCache>,
    /// Keeps responses of agents that documents call.
    pub agent_responses: Option<ResponseCache>,
    /// The tools that permission rules of this command name.
    ///
    /// The prompt or one of its agents must have them. Patterns with `*` are not checked.
    pub rule_tools: Vec<String>,
    /// Patterns that a transcript does not contain.
    pub redaction: Redaction,
    /// The prompts of a server, which tools do not read. Prepared ones are added.
    pub hidden: Option<HiddenFiles>,
    /// A request to stop the turn; agents have none.
    pub stop: TurnStop,
    /// Receives the events of agents.
    pub listener: Arc<dyn Listener>,
    /// Receives the progress of a preparation.
    pub progress: Arc<dyn PrepareObserver>,
}

/// The condition for rewriting a prompt with a model before it runs (ChatMD §10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refinement {
    /// Prompts run as written.
    Never,
    /// A prompt is rewritten if it requests so.
    #[default]
    OnRequest,
    /// Every prompt is rewritten.
    Always,
}

/// The policy for tool calls that require approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approvals {
    /// The turn suspends unless the approver decides at once.
    #[default]
    Suspend,
    /// The approver decides at once; without one, such a prompt is refused.
    Immediate,
    /// The call is denied.
    Never,
}

/// Decides whether a prompt is trusted. It is asked before the prompt is evaluated.
pub trait TrustPolicy: Send + Sync {
    /// Returns the trust level of `source`, which grants its model `grant`.
    ///
    /// # Errors
    /// Returns an error if trust cannot be determined.
    fn judge<'a>(
        &'a self,
        source: &'a PromptSource,
        grant: &'a Grant,
        permissions: &'a Permissions,
    ) -> BoxFuture<'a, Result<PromptTrust, HostError>>;
}

/// Treats every prompt as the caller's own: the tools that it declares may run.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnPrompts;

impl TrustPolicy for OwnPrompts {
    fn judge<'a>(
        &'a self,
        _: &'a PromptSource,
        _: &'a Grant,
        _: &'a Permissions,
    ) -> BoxFuture<'a, Result<PromptTrust, HostError>> {
        Box::pin(std::future::ready(Ok(PromptTrust::own())))
    }
}

/// Receives the progress of a preparation.
pub trait PrepareObserver: Send + Sync {
    /// A model rewrote the prompt; `prompt` is its new text.
    fn refined(&self, name: &str, prompt: &str) {
        let _ = (name, prompt);
    }

    /// A dry run has omitted a request; `what` describes its purpose.
    fn not_asked(&self, what: &str) {
        let _ = what;
    }

    /// A value of the environment has replaced the recorded value of a variable.
    fn variable_replaced(&self, name: &str) {
        let _ = name;
    }

    /// A rule of the command has a pattern that matches no tool.
    fn unused_pattern(&self, pattern: &str) {
        let _ = pattern;
    }

    /// The prompt was read without errors; `prompt.diagnostics` may contain warnings.
    fn loaded(&self, prompt: &Prompt, shell: &ShellPolicy) {
        let _ = (prompt, shell);
    }
}

/// Ignores the progress of a preparation.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrepareObserver;

impl PrepareObserver for NoPrepareObserver {}

impl Environment {
    /// An environment with `models` and nothing else: no network, no servers, no limits on spend.
    pub fn new(models: Arc<dyn Models>) -> Self {
        Self {
            models,
            roots: Vec::new(),
            shell: ShellOptions::default().into(),
            network: None,
            search: None,
            servers: None,
            permissions: Permissions::new(),
            trust: Arc::new(OwnPrompts),
            approvals: Approvals::default(),
            budget: Budget::default(),
            max_requests: MAX_REQUESTS,
            max_agent_depth: MAX_AGENT_CALLS,
            routing: Routing::default(),
            requirements: ResponseRequirements::default(),
            variables: Arc::default(),
            refinement: Refinement::default(),
            is_dry_run: false,
            is_fresh: false,
            refined_prompts: None,
            agent_responses: None,
            rule_tools: Vec::new(),
            redaction: Redaction::default(),
            hidden: None,
            stop: TurnStop::default(),
            listener: Arc::new(NoListener),
            progress: Arc::new(NoPrepareObserver),
        }
    }

    /// The files, hosts and servers that a prompt can reach. Agents are off.
    pub(crate) fn scope(&self, source: &PromptSource) -> Result<PromptScope, PrepareError> {
        let folders = std::iter::once(source.folder()).chain(self.roots.iter().cloned());
        let roots = Roots::new(folders).map_err(PrepareError::Roots)?;
        require_same_base(source, &roots)?;
        let mut files = FileLoader::new(Arc::new(roots), &source.transcript_folder());
        if let Some(path) = source.base_file() {
            files = files.with_file(path);
        }
        let mut scope = PromptScope::new(files, self.shell.clone());
        scope.kept.extend(source.transcript.clone());
        scope.variables.clone_from(&self.variables);
        scope.record.clone_from(&source.record);
        scope.network.clone_from(&self.network);
        scope.search.clone_from(&self.search);
        scope.servers.clone_from(&self.servers);
        scope.hidden.clone_from(&self.hidden);
        Ok(scope)
    }

    /// The environment in which the agents of a prompt with these permissions are prepared.
    pub(crate) fn for_agents(&self, permissions: &Permissions) -> Self {
        Self {
            permissions: permissions.clone(),
            requirements: ResponseRequirements::default(),
            stop: TurnStop::default(),
            refinement: Refinement::Never,
            rule_tools: Vec::new(),
            approvals: Approvals::Never,
            ..self.clone()
        }
    }
}

/// Refuses an opened directory that a link replaced after the origin was verified.
fn require_same_base(source: &PromptSource, roots: &Roots) -> Result<(), PrepareError> {
    let folder = source.folder();
    if source.base.is_none() || roots.base() == folder {
        return Ok(());
    }
    let error = io::Error::other("a link leads to it");
    let name = folder.display().to_string();
    Err(PrepareError::Roots(RootError::Unreadable(name, error)))
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("roots", &self.roots)
            .field("permissions", &self.permissions)
            .field("approvals", &self.approvals)
            .field("max_requests", &self.max_requests)
            .field("max_agent_depth", &self.max_agent_depth)
            .finish_non_exhaustive()
    }
}
