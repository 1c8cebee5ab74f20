//! Agents from prompt files or code: a model, its tools, permissions, approvals and transcripts.
//!
//! An [`Assistant`] is a model with its tools on the graph engine. There are two ways to one:
//! [`Agent::builder`] in code, and [`prepare`] from a prompt file and an [`Environment`]. A [`Turn`]
//! runs it on a conversation, whose completed parts go to a [`TranscriptWriter`]; [`chat`] runs it
//! on the sessions of a store. A call that requires approval ([`Permissions`]) suspends the turn.
//!
//! Durability order: the model's response is in the transcript before a tool runs, a tool's result
//! before the next model request, and both before a [`Listener`] receives them.
//!
//! # Examples
//! ```
//! use std::sync::Arc;
//!
//! use logue_agent::{Agent, NoListener, NoTranscript, TurnEnd};
//! use logue_message::ChatMessage;
//! use logue_model::Echo;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder(Arc::new(Echo), "echo").system("Be brief.").build()?;
//! let turn = agent.turn(vec![ChatMessage::user("hello")], Box::new(NoTranscript));
//! let TurnEnd::Completed(report) = turn.run(Arc::new(NoListener), None).await? else {
//!     return Err("a tool call requires approval".into());
//! };
//! assert_eq!(report.replies[0].text(), "hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! The crate has no optional features.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agents;
mod files;
mod permission;
mod prepare;
mod prompt;
mod public_error;
mod record;
mod transcript;
mod trust;
mod turn;

pub use agents::code_agent::{Agent, AgentBuilder, AgentError};
pub use agents::response_cache::ResponseCache;
pub use agents::run_agent::{AGENT_DEPTH_HELP, too_deep};
pub use permission::approval::{
    APPROVAL, CONNECTION, DECIDED_BY, NOTE, approval_payload, check_approval, deadline,
    deadline_after, is_pending, rename_pending,
};
pub use permission::approver::{ApprovalRequest, ApprovalResponse, Approver};
pub use permission::audit::{
    AUDIT_FAILED, AuditEdit, AuditError, AuditLog, AuditRecord, NoAudit, SessionAudit,
};
pub use permission::audit_file::AuditFile;
pub use permission::decision_source::{DecisionSource, PermissionDecision};
pub use permission::edit::{ArgumentsEditError, EDITS, EditedCall, edited_approval_payload};
pub use permission::permissions::Permissions;
pub use permission::rules::{
    Permission, PermissionFile, PermissionRule, PermissionRuleError, PermissionRules,
};
pub use prepare::environment::{
    Approvals, Environment, MAX_AGENT_CALLS, NoPrepareObserver, OwnPrompts, PrepareObserver,
    Refinement, TrustPolicy,
};
pub use prepare::error::{InvalidPrompt, PrepareError};
pub use prepare::host_error::HostError;
pub use prepare::models::{Model, Models};
pub use prepare::prepared::{Connections, LoadedPrompt, Prepared, load_prompt, prepare};
pub use prepare::source::{History, PromptLanguage, PromptOrigin, PromptSource};
pub use prompt::call_schemas::{builtin_schemas, declared_schemas};
pub use prompt::document::Prompt;
pub use prompt::file_loader::FileLoader;
pub use prompt::openchatml_prompt::unknown_builtins;
pub use prompt::read_roots::named_roots;
pub use prompt::refine::{RefineError, RewriteMemory, refine_prompt};
pub use prompt::scope::PromptScope;
pub use prompt::source_file::{MAX_SOURCE_BYTES, SourceError, into_text, read_all, read_bytes};
pub use prompt::toolbox::toolbox;
pub use prompt::variables::{VariableValues, environment_name};
pub use public_error::public_detail;
pub use record::agent_log::{AgentLog, AgentMessage, agent_messages};
pub use record::entry::{RecordEntry, RecordKind};
pub use record::evaluation_record::EvaluationRecord;
pub use record::origin::OriginRefusal;
pub use record::record_key::RecordKey;
pub use transcript::file::TranscriptFile;
pub use transcript::file_session::FileSession;
pub use transcript::format::DEFAULT_INLINE_BYTES;
pub use transcript::item::{NoTranscript, TranscriptError, TranscriptItem, TranscriptWriter};
pub use transcript::redaction::{Redaction, RedactionError};
pub use trust::changes::GrantChange;
pub use trust::folder_trust::{TrustedFolder, content_id};
pub use trust::form::{DeclarationForm, GrantForm, PowerForm, PowerKind, path_text};
pub use trust::grant::{Grant, GrantFile};
pub use trust::prompt_trust::PromptTrust;
pub use trust::trust_file::{TrustEntries, TrustFile, Trusted};
pub use turn::answer_parts::TurnStop;
pub use turn::assistant::{Assistant, MAX_REQUESTS, TOOL_RESULT_REQUIRED};
pub use turn::budget::{Budget, BudgetExceeded, Price, Spend, SpendLimits};
pub use turn::chat::chat;
pub use turn::listener::{AgentCallPath, Listener, ListenerSink, NoListener, TurnEvent};
pub use turn::response_requirements::ResponseRequirements;
pub use turn::responses::ResponseProjection;
pub use turn::routing::Routing;
pub use turn::run::{Turn, TurnEnd, TurnError, TurnReport, TurnSuspension};
pub use turn::spans::{AgentSpan, RequestSpan};
