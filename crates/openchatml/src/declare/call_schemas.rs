//! Schemas of tools that a conversation names without declaring their arguments.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use logue_source::{Diagnostic, Span};

use crate::argument_schema::{ArgumentSchema, SchemaMismatch};
use crate::check::mismatched;

/// The code with which a tool may begin a message.
const CODE: &str = "E-CALL-SCHEMA: ";

/// A tool's own check of its arguments; the error describes the violation.
type ArgumentCheck = Arc<dyn Fn(&Arguments) -> Result<(), String> + Send + Sync>;

/// The argument schemas of tools that a program provides.
///
/// A conversation lists them by name (`builtin_tools`), so their schemas come from the program.
///
/// ```
/// use logue_message::ToolDefinition;
/// use openchatml::declare::CallSchemas;
/// use serde_json::json;
///
/// let parameters = json!({"type": "object", "required": ["file"]});
/// let schemas = CallSchemas::new().with_tool(&ToolDefinition::new("read_file", "", parameters));
/// let text = b"version: 2.2
/// generation_settings: {builtin_tools: [read_file]}
/// <|start|>assistant to=functions.read_file call_id=1<|channel|>commentary<|message|>{}<|call|>";
/// let found = openchatml::check_with(&openchatml::parse(text), &schemas);
/// assert_eq!(found[0].code.as_str(), "E-CALL-SCHEMA");
/// ```
#[derive(Clone, Debug, Default)]
pub struct CallSchemas {
    tools: BTreeMap<String, CallSchema>,
    /// The tools of each name that a setting lists, if they differ from it.
    names: BTreeMap<String, Vec<String>>,
}

#[derive(Clone)]
struct CallSchema {
    schema: ArgumentSchema,
    check: Option<ArgumentCheck>,
}

impl fmt::Debug for CallSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSchema")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl CallSchemas {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool whose arguments are validated against its schema.
    #[must_use]
    pub fn with_tool(self, tool: &ToolDefinition) -> Self {
        self.with(tool, None)
    }

    /// Adds a tool that validates its arguments itself, because it accepts more than its schema.
    #[must_use]
    pub fn with_checked_tool(
        self,
        tool: &ToolDefinition,
        check: impl Fn(&Arguments) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.with(tool, Some(Arc::new(check)))
    }

    /// Adds a name under which a setting lists tools.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>, tools: &[&str]) -> Self {
        let tools = tools.iter().map(|tool| (*tool).to_owned());
        self.names.insert(name.into(), tools.collect());
        self
    }

    fn with(mut self, tool: &ToolDefinition, check: Option<ArgumentCheck>) -> Self {
        let schema = ArgumentSchema::from_json_schema(&tool.parameters);
        let schema = CallSchema { schema, check };
        self.tools.insert(tool.name.clone(), schema);
        self
    }

    /// Returns a finding about arguments that the tool `name` would refuse.
    ///
    /// `place` maps a part of the arguments to its place in the source. Unknown tools have none.
    pub fn check(
        &self,
        name: &str,
        arguments: &str,
        place: impl FnOnce(Span) -> Span,
    ) -> Option<Diagnostic> {
        let mismatch = self.mismatch(name, arguments.as_bytes())?;
        Some(mismatched(name, &mismatch, place(mismatch.span)))
    }

    /// Returns the tools that a setting lists.
    pub(crate) fn listed<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut listed = Self::default();
        for name in names {
            let own = [name.to_owned()];
            let tools = self.names.get(name).map_or(&own[..], Vec::as_slice);
            for tool in tools {
                if let Some(schema) = self.tools.get(tool) {
                    listed.tools.insert(tool.clone(), schema.clone());
                }
            }
        }
        listed
    }

    /// Returns whether the tools of a listed name are known.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.names.contains_key(name) || self.tools.contains_key(name)
    }

    /// Returns whether the tool `name` has a schema.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// Returns the first violation of the arguments of a call.
    pub(crate) fn mismatch(&self, name: &str, arguments: &[u8]) -> Option<SchemaMismatch> {
        let CallSchema { schema, check } = self.tools.get(name)?;
        let Some(check) = check else {
            return schema.check_call(arguments).err();
        };
        let text = Arguments::from_text(String::from_utf8_lossy(arguments));
        let parameters = schema.to_parameters();
        let Ok(split) = text.split_deadline(&parameters) else {
            return schema.check_call(arguments).err();
        };
        let message = check(&split.arguments).err()?;
        let located = schema.check_call(arguments).err();
        Some(located.unwrap_or_else(|| SchemaMismatch {
            path: "$".to_owned(),
            expected: "arguments that the tool accepts".to_owned(),
            found: format!("invalid ({})", message.trim_start_matches(CODE)),
            span: Span::new(0, arguments.len()),
        }))
    }
}
