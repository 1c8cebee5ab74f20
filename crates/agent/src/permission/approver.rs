//! The port for decisions that a person makes while a turn runs.

use logue_harness::BoxFuture;
use logue_message::ToolCall;
use logue_tools::{Preview, Router};

use crate::permission::decision_source::DecisionSource;
use crate::permission::edit::{ArgumentsEditError, EditedCall};
use crate::permission::permissions::Permissions;

/// Decides about calls while the turn runs.
pub trait Approver: Send + Sync {
    /// Returns the decision, or `None` to suspend the turn until a signal.
    ///
    /// Dropping the future withdraws the request.
    fn ask<'a>(&'a self, question: ApprovalRequest<'a>) -> BoxFuture<'a, Option<ApprovalResponse>>;
}

/// A call that requires approval.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ApprovalRequest<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// The effect of the call, if its arguments do not describe it completely.
    pub preview: Option<&'a Preview>,
    /// The source of the permission that requires approval.
    pub why: &'a DecisionSource,
    pub(crate) router: &'a Router,
    pub(crate) permissions: &'a Permissions,
}

impl ApprovalRequest<'_> {
    /// Checks arguments that replace those of the call.
    ///
    /// The result has the preview of the edited call, for the person who approves it with
    /// [`ApprovalResponse::with_edit`].
    ///
    /// # Errors
    /// Returns an error if the arguments are not what the tool takes, or if a rule denies the tool.
    pub async fn edited(&self, arguments: &str) -> Result<EditedCall, ArgumentsEditError> {
        EditedCall::check(self.router, self.permissions, self.call, arguments).await
    }
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalResponse {
    /// Whether it may run.
    pub approved: bool,
    /// Text for the model.
    pub note: String,
    /// Whether the decision was made for this call only, not for its tool.
    pub asked: bool,
    /// The arguments with which an approved call runs instead of its own.
    pub edited: Option<EditedCall>,
}

impl ApprovalResponse {
    /// Creates a decision about one call, without a note.
    pub const fn new(approved: bool) -> Self {
        Self {
            approved,
            note: String::new(),
            asked: true,
            edited: None,
        }
    }

    /// Replaces the arguments of the call.
    #[must_use]
    pub fn with_edit(mut self, edited: EditedCall) -> Self {
        self.edited = Some(edited);
        self
    }

    /// Sets the text for the model.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Marks the decision as one about all calls of the tool, with their own arguments.
    #[must_use]
    pub fn for_tool(mut self) -> Self {
        self.asked = false;
        self.edited = None;
        self
    }
}
