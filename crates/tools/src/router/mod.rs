//! Execution of calls (OpenChatML 2.2 §8): validation, concurrency, deadlines and cancellation.
//!
//! [`Router::call`] processes one call: it looks up the tool in the [`Toolbox`], removes
//! `deadline_ms` from the arguments, validates the remaining arguments against the schema of the
//! tool, and runs the tool until it ends, its deadline passes or the call is cancelled. A [`Batch`]
//! runs the calls of one response concurrently. Every outcome is a [`ToolResult`]; dropping the
//! future of a call ends everything that the call started.

mod batch;
mod cancel;
mod schemas;

use std::borrow::Cow;
use std::time::Duration;

use logue_message::{CallKind, ToolCall};

pub use batch::Batch;
pub use cancel::RouterHandle;
pub use schemas::SchemaWarning;

use crate::{BoxFuture, Preview, ToolInvocation, ToolResult, Toolbox};
use cancel::InFlightCall;
use schemas::Schemas;

/// Default number of concurrent calls.
pub const DEFAULT_CONCURRENCY: usize = 8;

/// Runs calls of the tools of a toolbox. Cloning is cheap; clones share the running calls.
#[derive(Clone, Debug)]
pub struct Router {
    toolbox: Toolbox,
    concurrency: usize,
    running: RouterHandle,
    schemas: Schemas,
}

/// A call with its approval and conversation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolRequest<'a> {
    /// The call as the model wrote it.
    pub call: &'a ToolCall,
    /// The fingerprint of the approved call, if approval was needed.
    ///
    /// It is the result of [`Router::fingerprint`] when the call was shown. A call with another
    /// fingerprint is not run.
    pub approved: Option<&'a str>,
    /// The conversation of the call, for cancellation within one conversation.
    pub conversation: Option<&'a str>,
    /// The call of the model, if a person has replaced its arguments, with its fingerprint.
    ///
    /// The files of both calls must be as they were when the person decided.
    pub edited_from: Option<(&'a ToolCall, Option<&'a str>)>,
}

impl<'a> From<&'a ToolCall> for ToolRequest<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self {
            call,
            approved: None,
            conversation: None,
            edited_from: None,
        }
    }
}

impl<'a> ToolRequest<'a> {
    /// Sets the fingerprint of the approved call.
    #[must_use]
    pub fn with_approval(mut self, fingerprint: Option<&'a str>) -> Self {
        self.approved = fingerprint;
        self
    }

    /// Sets the call whose arguments were replaced, with its fingerprint when it was shown.
    #[must_use]
    pub fn with_original(mut self, call: &'a ToolCall, fingerprint: Option<&'a str>) -> Self {
        self.edited_from = Some((call, fingerprint));
        self
    }

    /// Sets the conversation of the call.
    #[must_use]
    pub fn with_conversation(mut self, conversation: Option<&'a str>) -> Self {
        self.conversation = conversation;
        self
    }
}

impl Router {
    /// Creates a router with [`DEFAULT_CONCURRENCY`] concurrent calls per response.
    pub fn new(toolbox: Toolbox) -> Self {
        Self {
            toolbox,
            concurrency: DEFAULT_CONCURRENCY,
            running: RouterHandle::default(),
            schemas: Schemas::default(),
        }
    }

    /// Sets the number of concurrent calls, at least one.
    #[must_use]
    pub fn with_concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls.max(1);
        self
    }

    /// Sets the handle that cancels the calls; several routers may share it.
    #[must_use]
    pub fn with_handle(mut self, handle: RouterHandle) -> Self {
        self.running = handle;
        self
    }

    /// Returns a router for the tools that are offered now.
    pub async fn current(&self) -> Cow<'_, Self> {
        match self.toolbox.current().await {
            Cow::Borrowed(_) => Cow::Borrowed(self),
            Cow::Owned(toolbox) => Cow::Owned(Self {
                toolbox,
                ..self.clone()
            }),
        }
    }

    /// Returns the toolbox.
    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// Returns the handle that cancels running calls.
    pub fn handle(&self) -> RouterHandle {
        self.running.clone()
    }

    /// Creates an empty batch for the calls of one response.
    pub fn batch<'a>(&self) -> Batch<'a> {
        Batch::new(self.concurrency)
    }

    /// Returns whether the call must not run concurrently with other calls.
    pub fn is_exclusive(&self, call: &ToolCall) -> bool {
        let tool = self.toolbox.get(&call.name);
        tool.is_some_and(|tool| tool.is_exclusive())
    }

    /// Removes and returns the warnings about unusable schemas, one per tool.
    ///
    /// Arguments of these tools are not validated.
    pub fn take_schema_warnings(&self) -> Vec<SchemaWarning> {
        self.schemas.take_warnings()
    }

    /// Runs one call. It can be cancelled from now on, even before the future is polled.
    pub fn call<'a>(&'a self, request: ToolRequest<'a>) -> BoxFuture<'a, ToolResult> {
        let in_flight = self.running.enter(request.conversation, &request.call.id);
        Box::pin(self.run(request, in_flight))
    }

    /// Returns the preview of a call; `None` if the arguments are sufficient.
    pub async fn preview(&self, call: &ToolCall) -> Option<Preview> {
        let tool = self.toolbox.get(&call.name)?;
        let parameters = &tool.definition().parameters;
        let split = call.arguments.split_deadline(parameters).ok()?;
        let invocation = ToolInvocation::new(&call.id, &split.arguments);
        tool.preview(invocation).await
    }

    /// Returns the fingerprint that an approval binds: of the tool, the arguments and everything else
    /// that determines the effect.
    ///
    /// `shown` is the preview of the call; its fingerprint is the one of the effect that it shows.
    ///
    /// The result is independent of the place: the same call on another machine, with the same files
    /// below the directory of the prompt, has the same fingerprint.
    pub async fn fingerprint(&self, call: &ToolCall, shown: Option<&Preview>) -> Option<String> {
        let tool = self.toolbox.get(&call.name)?;
        let parameters = &tool.definition().parameters;
        let split = call.arguments.split_deadline(parameters).ok()?;
        let invocation = ToolInvocation::new(&call.id, &split.arguments);
        let effect = match shown.and_then(|preview| preview.fingerprint.clone()) {
            Some(effect) => Some(effect),
            None => tool.fingerprint(invocation).await,
        };
        Some(approval_fingerprint(call, effect.as_deref()))
    }

    /// Checks the arguments of a call that a person has edited, without running it.
    ///
    /// The schema applies to every tool, also to one that checks its arguments.
    ///
    /// # Errors
    /// Returns the violations, for a person.
    pub fn check(&self, call: &ToolCall) -> Result<(), String> {
        let Some(tool) = self.toolbox.get(&call.name) else {
            return Err(format!("no tool named `{}` is declared", call.name));
        };
        let definition = tool.definition();
        let split = call.arguments.split_deadline(&definition.parameters);
        let split = split.map_err(|error| error.to_string())?;
        if call.kind == CallKind::Custom {
            return Ok(());
        }
        let object = split.arguments.object();
        let object = object.map_err(|error| format!("the arguments are {error}"))?;
        self.schemas
            .check_object(object, definition)
            .map_err(|violations| {
                format!(
                    "the arguments are not what `{}` takes{violations}",
                    call.name
                )
            })
    }

    async fn run(&self, request: ToolRequest<'_>, mut in_flight: InFlightCall) -> ToolResult {
        let ToolRequest { call, approved, .. } = request;
        let Some(tool) = self.toolbox.get(&call.name) else {
            return self.toolbox.undeclared(&call.name);
        };
        let parameters = &tool.definition().parameters;
        let split = match call.arguments.split_deadline(parameters) {
            Ok(split) => split,
            Err(error) => return ToolResult::error("E-CALL-SCHEMA", error.to_string()),
        };
        let (arguments, deadline) = (split.arguments.as_ref(), split.deadline);
        if !tool.checks_arguments()
            && let Err(reason) = self.schemas.check(call, arguments, tool.definition())
        {
            return ToolResult::error("E-CALL-SCHEMA", reason);
        }
        if let Some(reason) = in_flight.is_cancelled() {
            let what = format!("the call was cancelled before it began ({reason}); it was not run");
            return ToolResult::error("E-TOOL-CANCELLED", what);
        }
        let invocation = ToolInvocation::new(&call.id, arguments);
        if let Some((original, shown)) = request.edited_from
            && self.fingerprint(original, None).await.as_deref() != shown
        {
            return ToolResult::stale(format_args!(
                "what a call of `{}` executes has changed since the edited one was approved",
                call.name
            ));
        }
        let effect = match approved {
            Some(_) => tool.fingerprint(invocation).await,
            None => None,
        };
        if approved
            .is_some_and(|approved| approved != approval_fingerprint(call, effect.as_deref()))
        {
            return ToolResult::stale(format_args!(
                "what a call of `{}` executes has changed since this one was approved",
                call.name
            ));
        }
        // The tool compares once more, right before its effect.
        let running = tool.call(invocation.with_approval(effect.as_deref()));
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

/// Returns the fingerprint of a call whose tool has the fingerprint `effect`.
fn approval_fingerprint(call: &ToolCall, effect: Option<&str>) -> String {
    let parts = serde_json::json!(["call-1", call.name, call.arguments.as_str(), effect]);
    format!(
        "sha256:{}",
        crate::digest::sha256(parts.to_string().as_bytes())
    )
}

/// Runs a call with an optional deadline.
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
