//! Tools made from async Rust functions.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use logue_message::{Arguments, ToolDefinition};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::output::BoundedBuffer;
use crate::{BoxFuture, Preview, Tool, ToolInvocation, ToolResult};
use logue_source::escape_unambiguous;

/// Maximum size of a result in bytes, unless the tool sets another one.
const MAX_OUTPUT_BYTES: usize = 100_000;

/// A function without its argument type.
type ErasedFn = dyn Fn(Map<String, Value>) -> Result<BoxFuture<'static, ToolResult>, serde_json::Error>
    + Send
    + Sync;

/// A preview without its argument type.
type ErasedPreview = dyn Fn(Map<String, Value>) -> Result<String, serde_json::Error> + Send + Sync;

/// A tool that calls an async Rust function.
///
/// The router validates the arguments against the JSON Schema, applies `deadline_ms` and cancels
/// calls, as for every other tool. Cancelling drops the future of the function. The future runs in
/// the task of the turn: blocking work belongs in `tokio::task::spawn_blocking`.
///
/// The function returns any [`IntoToolResult`]: text, [`Json`], or a `Result` whose error implements
/// `Display`. A panic of the function becomes a failed result.
///
/// Calls of the tool run alone and count as changes, unless the tool is
/// [read-only](Self::read_only).
///
/// # Examples
/// ```
/// # #[cfg(feature = "functions")] {
/// use logue_tools::{FnTool, Tool};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct DeployArgs {
///     /// Name of the service.
///     service: String,
/// }
///
/// let deploy = FnTool::new("deploy", "Deploys a service.", |args: DeployArgs| async move {
///     if args.service.is_empty() {
///         return Err("the service has no name");
///     }
///     Ok(format!("deployed {}", args.service))
/// });
/// assert_eq!(deploy.definition().parameters["required"][0], "service");
/// # }
/// ```
#[derive(Clone)]
pub struct FnTool {
    definition: ToolDefinition,
    function: Arc<ErasedFn>,
    preview: Option<Arc<ErasedPreview>>,
    is_read_only: bool,
    output_bytes: usize,
}

impl FnTool {
    /// Creates a tool whose JSON Schema comes from the argument type.
    ///
    /// The argument type is a struct, or `()` for a tool without parameters. Doc comments of its
    /// fields become the descriptions of the parameters.
    #[cfg(feature = "functions")]
    pub fn new<A, F, O>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Self
    where
        A: DeserializeOwned + schemars::JsonSchema + 'static,
        F: Fn(A) -> O + Send + Sync + 'static,
        O: Future<Output: IntoToolResult> + Send + 'static,
    {
        Self::from_schema(name, description, schema_of::<A>(), function)
    }

    /// Creates a tool with an explicit JSON Schema of its arguments.
    pub fn from_schema<A, F, O>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        function: F,
    ) -> Self
    where
        A: DeserializeOwned + 'static,
        F: Fn(A) -> O + Send + Sync + 'static,
        O: Future<Output: IntoToolResult> + Send + 'static,
    {
        let function = move |arguments| {
            let future = function(typed(arguments)?);
            Ok(future.map(IntoToolResult::into_tool_result).boxed())
        };
        Self {
            definition: ToolDefinition::new(name, description, parameters),
            function: Arc::new(function),
            preview: None,
            is_read_only: false,
            output_bytes: MAX_OUTPUT_BYTES,
        }
    }

    /// Declares that calls change nothing, so they need no approval and run concurrently.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Sets the text that a person reads before approving a call.
    ///
    /// Without it a person reads the arguments. Control characters of the text are escaped.
    #[must_use]
    pub fn with_preview<A: DeserializeOwned>(
        mut self,
        preview: impl Fn(A) -> String + Send + Sync + 'static,
    ) -> Self {
        self.preview = Some(Arc::new(move |arguments| typed(arguments).map(&preview)));
        self
    }

    /// Sets the maximum size of a result in bytes.
    ///
    /// A longer result is truncated with a note.
    #[must_use]
    pub fn with_output_limit(mut self, bytes: usize) -> Self {
        self.output_bytes = bytes;
        self
    }

    async fn run(&self, arguments: &Arguments) -> ToolResult {
        let object = match arguments.object() {
            Ok(object) => object,
            Err(error) => {
                return ToolResult::error(
                    "E-CALL-SCHEMA",
                    format_args!("the arguments are {error}"),
                );
            }
        };
        let mut result = match (self.function)(object) {
            Ok(future) => future.await,
            Err(error) => {
                return ToolResult::error(
                    "E-CALL-SCHEMA",
                    format_args!("invalid arguments of `{}`: {error}", self.definition.name),
                );
            }
        };
        if result.text.len() > self.output_bytes {
            let mut output = BoundedBuffer::new(self.output_bytes);
            output.push(result.text.as_bytes());
            result.text = output.into_text();
        }
        result
    }
}

impl Tool for FnTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let running = AssertUnwindSafe(self.run(call.arguments)).catch_unwind();
        let name = &self.definition.name;
        running
            .map(move |result| {
                result.unwrap_or_else(|_| {
                    ToolResult::failure_with_text(format!(
                        "`{name}` panicked; the effects of the call are unknown"
                    ))
                })
            })
            .boxed()
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn is_exclusive(&self) -> bool {
        !self.is_read_only
    }

    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        let text = self.preview.as_ref().and_then(|preview| {
            let object = call.arguments.object().ok()?;
            let lines = preview(object).ok()?;
            let lines: Vec<String> = lines.split('\n').map(escape_unambiguous).collect();
            Some(Preview::new(lines.join("\n")))
        });
        Box::pin(std::future::ready(text))
    }
}

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool")
            .field("definition", &self.definition)
            .field("is_read_only", &self.is_read_only)
            .finish_non_exhaustive()
    }
}

/// Parses the arguments; a type without fields also accepts no arguments at all.
fn typed<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A, serde_json::Error> {
    let is_empty = arguments.is_empty();
    match serde_json::from_value(Value::Object(arguments)) {
        Err(error) if is_empty => serde_json::from_value(Value::Null).map_err(|_| error),
        parsed => parsed,
    }
}

/// The JSON Schema of an argument type, in the form that model servers accept.
#[cfg(feature = "functions")]
fn schema_of<A: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<A>()
        .to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        if object.get("type").is_none_or(|kind| kind == "null") {
            object.insert("type".to_owned(), Value::from("object"));
        }
        if object.get("type").is_some_and(|kind| kind == "object") {
            object
                .entry("properties")
                .or_insert_with(|| Value::Object(Map::new()));
        }
    }
    schema
}

/// A value that a [`FnTool`] may return.
pub trait IntoToolResult {
    /// Converts the value into the result that the model receives.
    fn into_tool_result(self) -> ToolResult;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> ToolResult {
        self
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::success("done")
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::success(self)
    }
}

impl IntoToolResult for &str {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::success(self)
    }
}

impl IntoToolResult for Value {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::success(self.to_string())
    }
}

impl<T: IntoToolResult, E: fmt::Display> IntoToolResult for Result<T, E> {
    /// The error becomes a failed result. `{:#}` prints the causes of errors that list them.
    fn into_tool_result(self) -> ToolResult {
        match self {
            Ok(value) => value.into_tool_result(),
            Err(error) => ToolResult::failure_with_text(format!("{error:#}")),
        }
    }
}

/// A value whose JSON form is the result of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> ToolResult {
        match serde_json::to_string(&self.0) {
            Ok(text) => ToolResult::success(text),
            Err(error) => ToolResult::failure_with_text(format!(
                "the result cannot be written as JSON: {error}"
            )),
        }
    }
}
