//! A ChatMD file as a runnable graph.
//!
//! A run is one way through this crate: [`read_bytes`] and [`into_text`] read a prompt,
//! [`Surroundings::load`] turns it into settings, tools and messages, [`Turn::run`] lets the model and
//! its tools answer on the graph engine of `logue-harness`, and each completed part goes to a
//! [`Transcript`] before anybody is told of it. [`TranscriptFile`] is the one that keeps it: in the
//! prompt's own file, in ChatMD.
//!
//! The graph is an [`Assistant`]'s, whoever keeps the conversation: a transcript, or a session of a
//! [`ChatHarness`](logue_harness::chat::ChatHarness) ([`chat`]). A tool that a person is to be asked
//! about ([`Permissions`]) suspends the turn until they have decided.
//!
//! Durability order: what the model decided is in the transcript before a tool runs, a tool's
//! result before the model is asked again, and both before a [`Listener`] hears of them.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agents;
mod files;
mod permission;
mod prepare;
mod prompt;
mod transcript;
mod trust;
mod turn;

pub use agents::code_agent::{Agent, AgentBuilder, AgentError};
pub use agents::response_cache::AnswerCache;
pub use permission::approval::{APPROVAL, NOTE, check_approval, deadline, is_pending};
pub use permission::approver::{Answer, Asker, Question};
pub use permission::audit::{
    AUDIT_FAILED, AuditError, AuditLog, AuditRecord, NoAudit, SessionAudit,
};
pub use permission::audit_file::AuditFile;
pub use permission::decision_source::{Authority, Ruling};
pub use permission::permissions::{
    Permission, PermissionFile, PermissionRule, PermissionRuleError, PermissionRules, Permissions,
};
pub use prepare::environment::{
    Approvals, Environment, MAX_AGENT_CALLS, MAX_REQUESTS, Model, Models, NoPrepareObserver,
    OwnPrompts, PrepareObserver, Refinement, TrustPolicy,
};
pub use prepare::error::{HostError, InvalidPrompt, PrepareError};
pub use prepare::prepared::{Connections, LoadedPrompt, Prepared, load_prompt, prepare};
pub use prepare::source::{History, PromptForm, PromptOrigin, PromptSource};
pub use prompt::document::{Prompt, toolbox};
pub use prompt::environment::Surroundings;
pub use prompt::file_loader::FileWorld;
pub use prompt::refine::{RefineError, refined};
pub use prompt::source_file::{MAX_SOURCE_BYTES, SourceError, into_text, read_all, read_bytes};
pub use transcript::file::TranscriptFile;
pub use transcript::file_session::FileSession;
pub use transcript::format::DEFAULT_INLINE_BYTES;
pub use transcript::item::{Element, NoTranscript, Transcript, TranscriptError};
pub use transcript::redaction::{Redaction, RedactionError};
pub use trust::grant::Grant;
pub use trust::prompt_trust::Standing;
pub use trust::trust_file::{TrustFile, Trusted};
pub use turn::assistant::{Assistant, TOOL_RESULT_REQUIRED};
pub use turn::budget::{Budget, BudgetExceeded, Limits, Price, Spent};
pub use turn::chat::chat;
pub use turn::listener::{AgentPlace, Listener, ListenerSink, NoListener, TurnEvent};
pub use turn::response_requirements::Demands;
pub use turn::routing::Routing;
pub use turn::run::{SuspendedTurn, Turn, TurnEnd, TurnError, TurnReport};
