//! Agents that are built in code, without a prompt file.

use std::sync::Arc;

use logue_graph::IdSource;
use logue_harness::chat::{ChatHarness, OnCrash, Redact};
use logue_harness::store::SharedStore;
use logue_harness::{Clock, RandomIds, SystemClock};
use logue_message::ChatMessage;
use logue_model::{Provider, SamplingSettings};
use logue_tools::{Tool, ToolboxError};

use crate::permission::approver::Approver;
use crate::permission::audit::AuditLog;
use crate::permission::rules::{Permission, PermissionRule};
use crate::transcript::item::TranscriptWriter;
use crate::turn::assistant::Assistant;
use crate::turn::budget::{Budget, SpendLimits};
use crate::turn::chat::chat;
use crate::turn::listener::TurnEvent;
use crate::turn::response_requirements::ResponseRequirements;
use crate::turn::run::{Turn, TurnError};

/// An agent that is built in code, without a prompt file.
///
/// It has the permissions, approvals, limits, sessions and events of an agent in a file.
///
/// ```
/// use std::sync::Arc;
///
/// use logue_agent::{Agent, Permission};
/// use logue_model::Echo;
///
/// let agent = Agent::builder(Arc::new(Echo), "echo")
///     .system("Answer in one sentence.")
///     .permission("*", Permission::Ask)
///     .build()?;
/// assert_eq!(agent.assistant().model, "echo");
/// # Ok::<(), logue_agent::AgentError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Agent {
    assistant: Assistant,
}

/// Builds an [`Agent`].
#[derive(Clone)]
#[must_use]
pub struct AgentBuilder {
    assistant: Assistant,
    tools: Vec<Arc<dyn Tool>>,
}

/// The error of an agent that cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A tool cannot be added.
    #[error(transparent)]
    Tool(#[from] ToolboxError),
    /// A cost limit is set and the price of the model is unknown.
    #[error("a cost limit requires the price of the model `{model}`")]
    NoPrice {
        /// The model.
        model: String,
    },
    /// The graph of the agent cannot be built.
    #[error(transparent)]
    Graph(#[from] TurnError),
}

impl Agent {
    /// Starts an agent that `model` of `provider` answers for.
    pub fn builder(provider: Arc<dyn Provider>, model: impl Into<String>) -> AgentBuilder {
        AgentBuilder {
            assistant: Assistant::new(provider, model),
            tools: Vec::new(),
        }
    }

    /// The model with its tools, permissions and limits.
    pub fn assistant(&self) -> &Assistant {
        &self.assistant
    }

    /// Opens the sessions of a store, with the clock of the machine and random ids.
    ///
    /// A turn that requires approval suspends, and a signal resumes it in any process.
    ///
    /// # Errors
    /// Returns an error if the graph of the agent cannot be built.
    pub fn sessions(&self, store: SharedStore) -> Result<ChatHarness<TurnEvent>, AgentError> {
        self.sessions_with(store, Arc::new(SystemClock), Arc::new(RandomIds))
    }

    /// Opens the sessions of a store with another clock and other ids.
    ///
    /// `ids` must differ in all processes that share the store.
    ///
    /// # Errors
    /// Returns an error if the graph of the agent cannot be built.
    pub fn sessions_with(
        &self,
        store: SharedStore,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Result<ChatHarness<TurnEvent>, AgentError> {
        Ok(chat(
            self.assistant.clone(),
            store,
            clock,
            ids,
            OnCrash::default(),
        )?)
    }

    /// Starts one turn without a session. Its messages are appended to `transcript`.
    pub fn turn(&self, history: Vec<ChatMessage>, transcript: Box<dyn TranscriptWriter>) -> Turn {
        let mut assistant = self.assistant.clone();
        let prefix = std::mem::take(&mut assistant.prefix);
        Turn {
            assistant,
            history: prefix.into_iter().chain(history).collect(),
            transcript,
        }
    }
}

impl From<Agent> for Assistant {
    fn from(agent: Agent) -> Self {
        agent.assistant
    }
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("assistant", &self.assistant)
            .field("tools", &self.tools.len())
            .finish()
    }
}

impl AgentBuilder {
    /// Adds an instruction of the system. Every request begins with the instructions.
    pub fn system(self, text: impl Into<String>) -> Self {
        self.message(ChatMessage::system(text.into()))
    }

    /// Adds a message that every request begins with.
    pub fn message(mut self, message: ChatMessage) -> Self {
        self.assistant.prefix.push(message);
        self
    }

    /// Sets the sampling settings.
    pub fn settings(mut self, settings: SamplingSettings) -> Self {
        self.assistant.settings = settings;
        self
    }

    /// Adds a tool. It may run unless a permission says otherwise.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// Adds a tool that other agents may share.
    pub fn shared_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets the permission of a tool. A `*` in its name matches any characters; the most exact
    /// rule takes precedence.
    pub fn permission(mut self, tool: impl Into<String>, permission: Permission) -> Self {
        let tool = tool.into();
        let rule = PermissionRule { tool, permission };
        self.assistant.permissions = self.assistant.permissions.with(rule);
        self
    }

    /// Denies a pending call after this number of seconds without a decision.
    pub fn approval_timeout(mut self, seconds: u64) -> Self {
        let permissions = self.assistant.permissions;
        self.assistant.permissions = permissions.with_timeout(Some(seconds));
        self
    }

    /// Sets who decides about calls at once; without one, a turn suspends.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.assistant.permissions = self.assistant.permissions.with_approver(approver);
        self
    }

    /// Records every decision about a call.
    pub fn audit(mut self, audit: Arc<dyn AuditLog>) -> Self {
        self.assistant.permissions = self.assistant.permissions.with_audit(audit);
        self
    }

    /// Limits what the agent's turns spend together.
    pub fn limits(mut self, limits: SpendLimits) -> Self {
        self.assistant.budget = Budget::new(limits);
        self
    }

    /// Limits the model requests of one turn, agents included.
    pub fn max_requests(mut self, max_requests: usize) -> Self {
        self.assistant.max_requests = max_requests;
        self
    }

    /// Sets the requirements on the responses of a turn.
    pub fn requirements(mut self, requirements: ResponseRequirements) -> Self {
        self.assistant.requirements = requirements;
        self
    }

    /// Removes secrets from everything that sessions store; only tools receive them.
    pub fn redaction(mut self, redaction: Arc<dyn Redact>) -> Self {
        self.assistant.redaction = Some(redaction);
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// Returns an error if two tools have the same name, or if a cost limit is set and the price of
    /// the model is unknown.
    pub fn build(self) -> Result<Agent, AgentError> {
        let mut assistant = self.assistant;
        for tool in self.tools {
            assistant.toolbox.add(tool)?;
        }
        let limits = assistant.budget.limits();
        let price = limits.price(assistant.provider.name(), &assistant.model);
        if limits.max_cost.is_some() && price.is_none() {
            let model = assistant.model;
            return Err(AgentError::NoPrice { model });
        }
        Ok(Agent { assistant })
    }
}
