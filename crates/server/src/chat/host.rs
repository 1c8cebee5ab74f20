//! The port through which a chat server reaches its program.

use logue_agent::{HostError, TurnEvent, TurnStop};
use logue_harness::chat::{ChatHarness, SendOptions, TurnStream};
use logue_harness::events::ListenState;
use logue_harness::store::{SessionInfo, SharedStore, Suspension};
use logue_harness::{BoxFuture, Timestamp};
use logue_message::ChatMessage;

use super::parameters::TurnParameters;
use super::trace_context::TraceContexts;

/// An agent that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentInfo {
    /// The name by which clients select it.
    pub name: String,
    /// The title for people.
    pub title: String,
    /// The error of its current prompt.
    pub fault: Option<PromptFault>,
}

/// The error of the current prompt of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptFault {
    /// The error. Its message is the whole report, which may quote the prompt.
    pub error: HostError,
    /// Whether an earlier version of the prompt answers.
    pub serves_earlier: bool,
}

impl AgentInfo {
    /// Creates the description of an agent whose title is its name.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let title = name.clone();
        Self {
            name,
            title,
            fault: None,
        }
    }

    /// Sets the error of its current prompt.
    #[must_use]
    pub fn with_fault(mut self, serves_earlier: bool, error: HostError) -> Self {
        self.fault = Some(PromptFault {
            error,
            serves_earlier,
        });
        self
    }
}

/// A turn that failed, without its contents.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TurnFailure<'a> {
    /// The stable code.
    pub code: &'a str,
    /// The agent.
    pub agent: &'a str,
    /// The session; `None` if nothing is kept of the turn.
    pub session: Option<&'a str>,
    /// The status of the model server's answer, if it caused the failure.
    pub status: Option<u16>,
}

/// The chat of a session, ready for one turn.
#[derive(Debug)]
pub struct SessionChat {
    /// The chat.
    pub chat: ChatHarness<TurnEvent>,
    /// The name of its agent.
    pub agent: String,
    /// Whether the session had no agent before this chat.
    pub begins: bool,
    /// The time of creation of its session, if that existed.
    pub created_at: Option<Timestamp>,
    /// Stops the turn of the chat at the end of the program.
    pub stop: TurnStop,
}

impl SessionChat {
    /// Sends a message to the session from which the chat was prepared.
    ///
    /// A session that has taken its id since gets no message: its token and its agent may be others.
    pub(crate) fn send(
        self,
        session: &str,
        message: ChatMessage,
        mut options: SendOptions,
    ) -> TurnStream<TurnEvent> {
        options.only_created_at = self.created_at;
        self.chat.send_streaming_with(session, message, options)
    }
}

/// The agent of a turn, with the session by which its request was judged.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TurnAgent<'a> {
    /// The agent of a session, as it was read.
    Own(&'a SessionInfo),
    /// The agent that a session without one gets.
    First {
        /// The name of the agent.
        name: &'a str,
        /// The session, as it was read; `None` if it did not exist.
        session: Option<&'a SessionInfo>,
    },
    /// The agent of a session that is to be read.
    Stored,
}

impl<'a> TurnAgent<'a> {
    /// Returns the agent of a session that does not exist yet.
    pub(crate) const fn of_new(name: &'a str) -> Self {
        let session = None;
        Self::First { name, session }
    }
}

/// A textual form of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportForm {
    /// A `ChatMD` document.
    ChatMd,
    /// An `OpenChatML` transcript.
    OpenChatMl,
}

/// The program that a chat server is part of.
pub trait ChatHost: Send + Sync {
    /// Returns the agents in a stable order. Called repeatedly, because files appear and disappear.
    fn agents(&self) -> Vec<AgentInfo>;

    /// Returns the store of the sessions.
    fn store(&self) -> &SharedStore;

    /// Returns the agent of a session, if it is one of this server.
    ///
    /// Sessions of others are not shown and not continued.
    fn agent_of(&self, session: &SessionInfo) -> Option<String>;

    /// Returns the connection of spans with traces of other programs, if spans are exported.
    fn traces(&self) -> Option<&dyn TraceContexts> {
        None
    }

    /// Reports a turn of this server that failed, for example in a log. It must not block.
    fn turn_failed(&self, failure: &TurnFailure<'_>) {
        let _ = failure;
    }

    /// Reports whether notifications of other nodes arrive, after each change. It must not block.
    fn listening_changed(&self, state: &ListenState) {
        let _ = state;
    }

    /// Returns messages as a text.
    ///
    /// # Errors
    /// Returns an error if the form cannot contain them.
    fn write_messages(
        &self,
        messages: &[ChatMessage],
        form: ExportForm,
    ) -> Result<String, HostError>;

    /// Prepares one turn of a session.
    ///
    /// Approvals suspend the turn: see [`Approvals::Suspend`](logue_agent::Approvals::Suspend).
    ///
    /// # Errors
    /// Returns an error if the agent is unknown or cannot be prepared.
    fn chat<'a>(
        &'a self,
        session: &'a str,
        agent: TurnAgent<'a>,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>> {
        self.chat_with(session, agent, TurnParameters::default())
    }

    /// Prepares one turn of a session with the parameters of its client.
    ///
    /// # Errors
    /// Returns an error if the agent is unknown or cannot be prepared.
    fn chat_with<'a>(
        &'a self,
        session: &'a str,
        agent: TurnAgent<'a>,
        parameters: TurnParameters,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>>;

    /// Prepares one turn over a store of which nothing is kept.
    ///
    /// No person can be asked: see [`Approvals::Never`](logue_agent::Approvals::Never).
    ///
    /// # Errors
    /// Returns an error if the agent is unknown or cannot be prepared.
    fn stateless_chat<'a>(
        &'a self,
        agent: &'a str,
        store: SharedStore,
        session: &'a str,
        parameters: TurnParameters,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>>;

    /// Prepares a turn that resumes a suspended one.
    ///
    /// # Errors
    /// Returns an error if the agent cannot be prepared.
    fn resumed_chat<'a>(
        &'a self,
        session: &'a str,
        waiting: &'a Suspension,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>>;
}
