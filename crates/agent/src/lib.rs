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

mod agent_tool;
mod agents;
mod answers;
mod approval;
mod asker;
mod assistant;
mod audit;
mod audit_file;
mod authority;
mod budget;
mod chat;
mod decision;
mod declared;
mod demands;
mod durable;
mod element;
mod file_session;
mod frames;
mod grant;
mod identity;
mod listener;
mod notes;
mod payload;
mod permission;
mod progress;
mod prompt;
mod redaction;
mod refine;
mod relay;
mod replace;
mod request;
mod routing;
mod source_file;
mod spans;
mod standing;
mod surroundings;
mod transcribed;
mod transcript_file;
mod trust_file;
mod turn;
mod world;
mod writing;

pub use agents::{Agents, MAX_AGENT_CALLS, Model, Models};
pub use answers::AnswerCache;
pub use approval::{APPROVAL, NOTE, check_approval, deadline, is_pending};
pub use asker::{Answer, Asker, Question};
pub use assistant::{Assistant, TOOL_CALL_WAITS};
pub use audit::{AUDIT_FAILED, AuditError, AuditLog, AuditRecord, NoAudit, SessionAudit};
pub use audit_file::AuditFile;
pub use authority::{Authority, Ruling};
pub use budget::{Budget, BudgetExceeded, Limits, Price, Spent};
pub use chat::chat;
pub use demands::Demands;
pub use element::{Element, NoTranscript, Transcript, TranscriptError};
pub use file_session::FileSession;
pub use grant::Grant;
pub use listener::{AgentPlace, Listener, NoListener, TurnEvent};
pub use permission::{
    Permission, PermissionFile, PermissionRule, PermissionRuleError, PermissionRules, Permissions,
};
pub use prompt::{Prompt, toolbox};
pub use redaction::{Redaction, RedactionError};
pub use refine::{RefineError, refined};
pub use relay::Relay;
pub use routing::Routing;
pub use source_file::{MAX_SOURCE_BYTES, SourceError, into_text, read_all, read_bytes};
pub use standing::Standing;
pub use surroundings::Surroundings;
pub use transcript_file::TranscriptFile;
pub use trust_file::{TrustFile, Trusted};
pub use turn::{SuspendedTurn, Turn, TurnEnd, TurnError, TurnReport};
pub use world::FileWorld;
pub use writing::DEFAULT_INLINE_BYTES;
