//! The interface between a turn and its tools.

use futures_util::future::BoxFuture;
use logue_message::{Arguments, ToolCall, ToolDefinition};

use crate::tool_image::{MAX_IMAGES, ToolImage};

/// A function that a model can call.
///
/// Dropping the future of a call cancels the call and ends everything that it started.
pub trait Tool: Send + Sync {
    /// Returns the name, description and parameters that the model receives.
    fn definition(&self) -> &ToolDefinition;

    /// Runs one call. Errors are part of the [`ToolResult`].
    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult>;

    /// Returns whether a call must not run concurrently with other calls of a response.
    ///
    /// Tools that change what other tools read or write are exclusive, so their calls take effect
    /// in the order of the response.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Returns whether calls change nothing, so that they need no approval.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Returns whether the tool validates its arguments, because it accepts more than its schema
    /// does.
    ///
    /// The arguments of all other tools are validated against the schema of the definition before
    /// the call.
    fn checks_arguments(&self) -> bool {
        false
    }

    /// Returns the text that a person reads before approving a call.
    ///
    /// It contains the exact command, or the change of files as a unified diff; `None` if the
    /// arguments are sufficient. A preview has no side effects.
    ///
    /// If the preview has a fingerprint, the approved call carries it as
    /// [`ToolInvocation::approved`]. The call fails without side effects if it would now do
    /// something else.
    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        let _ = call;
        Box::pin(std::future::ready(None))
    }

    /// Returns a digest of everything outside the arguments that determines the effect of a call.
    ///
    /// It is the fingerprint of the preview by default. A tool without a preview may execute or load
    /// files as well.
    fn fingerprint<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { self.preview(call).await?.fingerprint })
    }

    /// Returns whether this process can run the tool.
    ///
    /// If not, the model can still call it: the turn ends with the call, and another process runs
    /// it.
    fn is_runnable(&self) -> bool {
        true
    }
}

/// One call of a tool, without the reasoning that led to it (OpenChatML 2.2 §8.3).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolInvocation<'a> {
    /// The id of the call, unique in its conversation.
    pub id: &'a str,
    /// The arguments as the model wrote them.
    pub arguments: &'a Arguments,
    /// The fingerprint of the approved [`Preview`]; `None` if no approval was needed.
    ///
    /// A tool that returns fingerprints performs only the effect that this one identifies.
    pub approved: Option<&'a str>,
}

impl<'a> ToolInvocation<'a> {
    /// Creates a call that needed no approval.
    pub fn new(id: &'a str, arguments: &'a Arguments) -> Self {
        Self {
            id,
            arguments,
            approved: None,
        }
    }

    /// Sets the fingerprint of the approved preview.
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

/// The effect of a call, described for the person who approves it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// The text. Control characters other than line breaks are escaped for terminals.
    pub text: String,
    /// Identifies the exact effect, if it could change between preview and call.
    ///
    /// Opaque, one line, equal only for equal effects.
    pub fingerprint: Option<String>,
}

impl Preview {
    /// Creates a preview that depends only on the arguments.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            fingerprint: None,
        }
    }

    /// Sets the fingerprint of the effect.
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprint = Some(fingerprint.into());
        self
    }
}

/// The tool result sent to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The text.
    pub text: String,
    /// Whether the call succeeded.
    pub ok: bool,
    /// The stable code of the error, such as `E-TOOL-TIMEOUT`.
    pub code: Option<&'static str>,
    /// The origin of the content, if it comes from outside the tool.
    pub provenance: Option<Provenance>,
    /// The cause of a failure for operators, which the model does not receive.
    pub diagnostic: Option<String>,
    /// The images that follow the text; at most [`MAX_IMAGES`].
    images: Vec<ToolImage>,
}

/// The code of an approved call that was not run, because its effect has changed.
pub const APPROVAL_STALE: &str = "approval_stale";

/// The code of a call that was not run, because its arguments were stored redacted.
pub const ARGUMENTS_REDACTED: &str = "arguments_redacted";

/// Codes that the text of a failed call may begin with.
const CODES: [&str; 7] = [
    ARGUMENTS_REDACTED,
    "E-CALL-SCHEMA",
    "E-NETWORK-DENIED",
    "E-OUTSIDE-ROOTS",
    "E-TOOL-CANCELLED",
    "E-TOOL-TIMEOUT",
    APPROVAL_STALE,
];

/// The origin of a result (OpenChatML 2.2 §8.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// A file, URL or server.
    pub source: String,
    /// The time of reading, as RFC 3339 in UTC, if a clock is available.
    pub timestamp: Option<String>,
    /// A digest of the content, such as `sha256:…`.
    pub checksum: Option<String>,
}

impl Provenance {
    /// Creates an origin from a file, URL or server.
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            ..Self::default()
        }
    }

    /// Sets the time of reading, as RFC 3339 in UTC.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: impl Into<String>) -> Self {
        self.timestamp = Some(timestamp.into());
        self
    }

    /// Sets the digest of the content, such as `sha256:…`.
    #[must_use]
    pub fn with_checksum(mut self, checksum: impl Into<String>) -> Self {
        self.checksum = Some(checksum.into());
        self
    }
}

impl ToolResult {
    /// Creates the result of a call that succeeded.
    pub fn success(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ok: true,
            code: None,
            provenance: None,
            diagnostic: None,
            images: Vec::new(),
        }
    }

    /// Creates the result of a failed call from an error text.
    ///
    /// A text that begins with a known code, as in `E-CALL-SCHEMA: …`, sets the code of the result.
    pub fn failure(text: impl Into<String>) -> Self {
        let text = text.into();
        let first = text.split_once(": ").map(|(first, _)| first);
        let code = first.and_then(|first| CODES.iter().find(|code| **code == first).copied());
        Self {
            code,
            ..Self::failure_with_text(text)
        }
    }

    /// Creates the result of a failed call from foreign text, such as command output.
    ///
    /// No code is derived from the text.
    pub fn failure_with_text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ok: false,
            code: None,
            provenance: None,
            diagnostic: None,
            images: Vec::new(),
        }
    }

    /// Creates the result of a failed call with a code. The text begins with the code.
    pub fn error(code: &'static str, message: impl std::fmt::Display) -> Self {
        Self::failure_with_text(format!("{code}: {message}")).with_code(code)
    }

    /// Creates the result of an approved call whose effect has changed.
    pub(crate) fn stale(reason: impl std::fmt::Display) -> Self {
        Self::error(
            APPROVAL_STALE,
            format_args!(
                "{reason}, so the call was not run. Nothing was changed; call again if it shall \
                 still be done"
            ),
        )
    }

    /// Sets the stable code of the error.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the cause of a failure for operators, which the model does not receive.
    #[must_use]
    pub fn with_diagnostic(mut self, diagnostic: impl Into<String>) -> Self {
        self.diagnostic = Some(diagnostic.into());
        self
    }

    /// Sets the origin of the content.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = Some(provenance);
        self
    }

    /// Adds images after the text.
    ///
    /// Images after the first [`MAX_IMAGES`] are dropped, and a note in the text counts them.
    #[must_use]
    pub fn with_images(mut self, images: impl IntoIterator<Item = ToolImage>) -> Self {
        self.images.extend(images);
        let dropped = self.images.len().saturating_sub(MAX_IMAGES);
        if dropped > 0 {
            self.images.truncate(MAX_IMAGES);
            self.text.push_str(&format!(
                "\n[{dropped} more images were dropped: a result has at most {MAX_IMAGES}]"
            ));
        }
        self
    }

    /// Returns the images that follow the text.
    pub fn images(&self) -> &[ToolImage] {
        &self.images
    }
}
