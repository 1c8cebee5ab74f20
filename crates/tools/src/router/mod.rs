//! The way of a call to its tool (OpenChatML 2.2 §8): several at once but not too many, with
//! deadlines, and cancelled on demand.
//!
//! A [`Router`] stands before a [`Toolbox`]. [`Router::call`] is the whole way of one call: the tool
//! is looked up, `deadline_ms` is taken out of the arguments, what is left is held to the tool's
//! schema, and then the tool runs until it ends, its time is up or somebody cancels it. A [`Batch`]
//! runs the calls of one answer side by side. Whatever happens is an [`ToolResult`]; what was started by
//! a call that does not end by itself dies with its future.

mod batch;
mod cancel;
mod deadline;
mod schemas;

use std::borrow::Cow;
use std::time::Duration;

use logue_message::ToolCall;

pub use batch::Batch;
pub use cancel::RouterHandle;
pub use schemas::SchemaWarning;

use crate::{BoxFuture, Preview, ToolInvocation, ToolResult, Toolbox};
use cancel::InFlightCall;
use deadline::{SplitArguments, split};
use schemas::Schemas;

/// Calls that run side by side where nothing else is said.
pub const DEFAULT_CONCURRENCY: usize = 8;

/// Tools, and how calls get to them. Cloning is cheap; clones share what runs.
#[derive(Clone, Debug)]
pub struct Router {
    toolbox: Toolbox,
    concurrency: usize,
    running: RouterHandle,
    schemas: Schemas,
}

/// One call, and what else is known of it.
#[derive(Clone, Copy, Debug)]
pub struct ToolRequest<'a> {
    /// The call as the model made it.
    pub call: &'a ToolCall,
    /// The fingerprint of the preview that somebody approved, if anybody was asked.
    pub approved: Option<&'a str>,
    /// The conversation that it is made in, for whoever cancels calls of one conversation only.
    pub conversation: Option<&'a str>,
}

impl<'a> From<&'a ToolCall> for ToolRequest<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self {
            call,
            approved: None,
            conversation: None,
        }
    }
}

impl Router {
    /// A router that runs [`DEFAULT_CONCURRENCY`] calls of an answer at once.
    pub fn new(toolbox: Toolbox) -> Self {
        Self {
            toolbox,
            concurrency: DEFAULT_CONCURRENCY,
            running: RouterHandle::default(),
            schemas: Schemas::default(),
        }
    }

    /// The same with another number of calls that run at once, at least one.
    #[must_use]
    pub fn with_concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls.max(1);
        self
    }

    /// The same, and `handle` cancels its calls: so one handle can be for several routers, or be there
    /// before them.
    #[must_use]
    pub fn with_handle(mut self, handle: RouterHandle) -> Self {
        self.running = handle;
        self
    }

    /// The same router for the tools of this moment, where some of them may change.
    pub async fn current(&self) -> Cow<'_, Self> {
        match self.toolbox.current().await {
            Cow::Borrowed(_) => Cow::Borrowed(self),
            Cow::Owned(toolbox) => Cow::Owned(Self {
                toolbox,
                ..self.clone()
            }),
        }
    }

    /// The tools.
    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// What cancels calls while they run.
    pub fn handle(&self) -> RouterHandle {
        self.running.clone()
    }

    /// The calls of one answer: none yet.
    pub fn batch<'a>(&self) -> Batch<'a> {
        Batch::new(self.concurrency)
    }

    /// Whether no other call may run beside this one.
    pub fn is_exclusive(&self, call: &ToolCall) -> bool {
        let tool = self.toolbox.get(&call.name);
        tool.is_some_and(|tool| tool.is_exclusive())
    }

    /// The tools that were found to have a schema that is of no use, each once: what they are called
    /// with is not checked.
    pub fn take_schema_warnings(&self) -> Vec<SchemaWarning> {
        self.schemas.take_notes()
    }

    /// Runs one call. It can be cancelled from now on, whether or not the future is polled.
    pub fn call<'a>(&'a self, request: ToolRequest<'a>) -> BoxFuture<'a, ToolResult> {
        let in_flight = self.running.enter(request.conversation, &request.call.id);
        Box::pin(self.run(request, in_flight))
    }

    /// What a call would do, if its tool says more than its arguments do.
    pub async fn preview(&self, call: &ToolCall) -> Option<Preview> {
        let tool = self.toolbox.get(&call.name)?;
        let given = split(&call.arguments, tool.definition()).ok()?;
        let arguments = given.arguments.as_ref().unwrap_or(&call.arguments);
        tool.preview(ToolInvocation::new(&call.id, arguments)).await
    }

    async fn run(&self, request: ToolRequest<'_>, mut in_flight: InFlightCall) -> ToolResult {
        let ToolRequest { call, approved, .. } = request;
        let Some(tool) = self.toolbox.get(&call.name) else {
            return self.toolbox.undeclared(&call.name);
        };
        let SplitArguments {
            arguments,
            deadline,
        } = match split(&call.arguments, tool.definition()) {
            Ok(given) => given,
            Err(why) => return ToolResult::error("E-CALL-SCHEMA", why),
        };
        let arguments = arguments.as_ref().unwrap_or(&call.arguments);
        if !tool.checks_arguments()
            && let Err(why) = self.schemas.check(call, arguments, tool.definition())
        {
            return ToolResult::error("E-CALL-SCHEMA", why);
        }
        if let Some(reason) = in_flight.is_cancelled() {
            let what = format!("the call was cancelled before it began ({reason}); it was not run");
            return ToolResult::error("E-TOOL-CANCELLED", what);
        }
        let running = tool.call(ToolInvocation::new(&call.id, arguments).with_approval(approved));
        tokio::select! {
            biased;
            reason = in_flight.cancelled() => ToolResult::error(
                "E-TOOL-CANCELLED",
                format_args!(
                    "the call was cancelled while it ran ({reason}); what it had done by then is \
                     not undone"
                ),
            ),
            outcome = within(deadline, running) => outcome,
        }
    }
}

/// The outcome of a call that may take so long.
async fn within(deadline: Option<Duration>, running: BoxFuture<'_, ToolResult>) -> ToolResult {
    let Some(deadline) = deadline else {
        return running.await;
    };
    match tokio::time::timeout(deadline, running).await {
        Ok(outcome) => outcome,
        Err(_) => ToolResult::error(
            "E-TOOL-TIMEOUT",
            format_args!(
                "the call took longer than its deadline_ms, {}, and was ended; what it had done by \
                 then is not undone",
                deadline.as_millis()
            ),
        ),
    }
}
