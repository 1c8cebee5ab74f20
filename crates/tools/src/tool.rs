//! The seam between a turn and what it can do.

use futures_util::future::BoxFuture;
use logue_message::{Arguments, ToolCall, ToolDefinition};

/// Something a model can call.
///
/// Dropping the future cancels the call; whatever it started ends with it.
pub trait Tool: Send + Sync {
    /// What the model is told of the tool.
    fn definition(&self) -> &ToolDefinition;

    /// Runs one call. It never fails: what goes wrong is an [`ToolResult`] that says so.
    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult>;

    /// Whether no other call of an answer may run beside one of this tool: it changes what others
    /// read or write, so the order of the calls is part of what they mean.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Whether calls of the tool change nothing, so that they need no approval.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Whether the tool checks its arguments itself and takes more than its definition says, such as
    /// other names of a parameter. The arguments of every other tool are held to the schema of its
    /// definition before it runs.
    fn checks_arguments(&self) -> bool {
        false
    }

    /// What a person is shown who is asked whether a call may run: the exact command, or the change
    /// to files as a unified diff. `None` where the arguments say it all. Nothing happens.
    ///
    /// If the preview has a fingerprint, a call that is approved carries it as [`ToolInvocation::approved`],
    /// and fails without any effect if it would do something else by then.
    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        let _ = call;
        Box::pin(std::future::ready(None))
    }

    /// Whether a call can be run here. One that cannot is only offered to the model: a turn ends
    /// where it is called, for whoever can run it.
    fn is_runnable(&self) -> bool {
        true
    }
}

/// One call of a tool, as the tool is told it: never the reasoning that led to it
/// (OpenChatML 2.2 §8.3).
#[derive(Clone, Copy, Debug)]
pub struct ToolInvocation<'a> {
    /// The call's id, unique in its conversation.
    pub id: &'a str,
    /// What the tool is called with, as the model said it.
    pub arguments: &'a Arguments,
    /// The fingerprint of the [`Preview`] that somebody saw and approved; `None` where nobody was
    /// asked. A tool that gives fingerprints does only what this one stands for.
    pub approved: Option<&'a str>,
}

impl<'a> ToolInvocation<'a> {
    /// A call that nobody was asked about.
    pub fn new(id: &'a str, arguments: &'a Arguments) -> Self {
        Self {
            id,
            arguments,
            approved: None,
        }
    }

    /// The same after somebody approved the preview with that fingerprint.
    #[must_use]
    pub fn with_approval(mut self, fingerprint: Option<&'a str>) -> Self {
        self.approved = fingerprint;
        self
    }
}

impl<'a> From<&'a ToolCall> for ToolInvocation<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self::new(&call.id, &call.arguments)
    }
}

/// What a call would do, for the person who decides whether it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// What a person reads. Control characters in it are made visible, so that a terminal shows it
    /// as it is; only line breaks are line breaks.
    pub text: String,
    /// What exactly the text stands for, if the world could change it between the look and the call:
    /// opaque, one line, equal only for equal effects.
    pub fingerprint: Option<String>,
}

impl Preview {
    /// A preview of what depends on nothing but the call.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            fingerprint: None,
        }
    }

    /// The same with what it stands for.
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprint = Some(fingerprint.into());
        self
    }
}

/// The result of a call, as the model is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The text that the model gets.
    pub text: String,
    /// Whether the call did what it was asked to.
    pub ok: bool,
    /// The stable code of what went wrong, such as `E-TOOL-TIMEOUT`, if it has one.
    pub code: Option<&'static str>,
    /// Where the content is from, if it is not the tool's own.
    pub provenance: Option<Provenance>,
}

/// The codes that the text of a failed call may begin with.
const CODES: [&str; 5] = [
    "E-CALL-SCHEMA",
    "E-NETWORK-DENIED",
    "E-OUTSIDE-ROOTS",
    "E-TOOL-CANCELLED",
    "E-TOOL-TIMEOUT",
];

/// Where the content of a result is from (OpenChatML 2.2 §8.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// A file, an address or a server.
    pub source: String,
    /// When it was read, as RFC 3339 in UTC, where somebody has a clock.
    pub timestamp: Option<String>,
    /// What the content is known by, such as `sha256:…`.
    pub checksum: Option<String>,
}

impl ToolResult {
    /// The result of a call that worked.
    pub fn success(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ok: true,
            code: None,
            provenance: None,
        }
    }

    /// The result of a call that did not work: the text says why. If that begins with the code of a
    /// result, as in `E-CALL-SCHEMA: …`, it is the code of this one.
    pub fn failure(text: impl Into<String>) -> Self {
        let text = text.into();
        let first = text.split_once(": ").map(|(first, _)| first);
        let code = first.and_then(|first| CODES.iter().find(|code| **code == first).copied());
        Self {
            code,
            ..Self::failure_with_text(text)
        }
    }

    /// The result of a call that did not work and whose text is somebody else's, such as what a
    /// command wrote: nothing is read into how it begins.
    pub fn failure_with_text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ok: false,
            code: None,
            provenance: None,
        }
    }

    /// The result of a call that did not work, with the stable code of why. The text begins with
    /// the code.
    pub fn error(code: &'static str, message: impl std::fmt::Display) -> Self {
        Self::failure_with_text(format!("{code}: {message}")).with_code(code)
    }

    /// The same with the stable code of what went wrong.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The same with where the content is from.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = Some(provenance);
        self
    }
}
