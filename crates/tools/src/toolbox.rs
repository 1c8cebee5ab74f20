//! The tools of one run.

use std::borrow::Cow;
use std::sync::Arc;

use logue_message::{ToolCall, ToolDefinition};

use crate::{BoxFuture, Preview, Tool, ToolInvocation, ToolResult, ToolSource};

/// The declared tools, in the order of their declaration.
///
/// Sources may change their tools; [`current`](Self::current) returns a toolbox with the tools that
/// they offer now.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    definitions: Vec<ToolDefinition>,
    /// Each source with the number of tools declared before it.
    sources: Vec<(usize, Arc<dyn ToolSource>)>,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.definitions.iter().map(|tool| &tool.name))
            .finish()
    }
}

/// Maximum length of a tool name that model servers accept.
pub(crate) const MAX_NAME_LEN: usize = 64;

/// Maximum length of a note about a tool, in bytes.
const MAX_NOTE_LEN: usize = 2048;

/// A tool with another definition.
struct Redefined {
    definition: ToolDefinition,
    tool: Arc<dyn Tool>,
}

impl Tool for Redefined {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        self.tool.call(call)
    }

    fn is_exclusive(&self) -> bool {
        self.tool.is_exclusive()
    }

    fn is_read_only(&self) -> bool {
        self.tool.is_read_only()
    }

    fn checks_arguments(&self) -> bool {
        self.tool.checks_arguments()
    }

    fn is_runnable(&self) -> bool {
        self.tool.is_runnable()
    }

    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        self.tool.preview(call)
    }

    fn fingerprint<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<String>> {
        self.tool.fingerprint(call)
    }
}

/// Appends the note of a prompt to the description of a tool.
///
/// At most 2 KiB of the note are used.
pub fn with_note(tool: Arc<dyn Tool>, note: &str) -> Arc<dyn Tool> {
    let mut definition = tool.definition().clone();
    let note = &note[..note.floor_char_boundary(MAX_NOTE_LEN)];
    definition.description = format!("{}\n\nNote from the prompt: {note}", definition.description);
    Arc::new(Redefined { definition, tool })
}

/// An error of adding a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolboxError {
    /// Another tool has this name.
    Duplicate(String),
}

impl std::fmt::Display for ToolboxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Duplicate(name) => write!(f, "two tools are named `{name}`"),
        }
    }
}

impl std::error::Error for ToolboxError {}

impl Toolbox {
    /// Creates an empty toolbox, which refuses every call.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// Returns [`ToolboxError::Duplicate`] if another tool has the same name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolboxError> {
        let definition = tool.definition().clone();
        if self
            .definitions
            .iter()
            .any(|other| other.name == definition.name)
        {
            return Err(ToolboxError::Duplicate(definition.name));
        }
        self.definitions.push(definition);
        self.tools.push(tool);
        Ok(())
    }

    /// Adds a source of any number of tools.
    pub fn add_source(&mut self, source: Arc<dyn ToolSource>) {
        self.sources.push((self.tools.len(), source));
    }

    /// Refreshes the tools of every source.
    pub async fn refresh(&self) {
        for (_, source) in &self.sources {
            source.refresh().await;
        }
    }

    /// Returns the tools that are offered now, without sources.
    ///
    /// If the name of a source's tool is taken, the tool gets the prefix of its source; if that
    /// name is taken too, the tool is left out.
    pub async fn current(&self) -> Cow<'_, Self> {
        if self.sources.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut all = Self::new();
        let mut sources = self.sources.iter().peekable();
        for at in 0..=self.tools.len() {
            while let Some((_, source)) = sources.next_if(|(place, _)| *place == at) {
                for tool in source.tools().await {
                    self.offer(&mut all, tool, source.prefix());
                }
            }
            if let Some(tool) = self.tools.get(at) {
                // `add` has compared the names of these tools before.
                drop(all.add(Arc::clone(tool)));
            }
        }
        Cow::Owned(all)
    }

    /// Adds a tool of a source under a free name.
    fn offer(&self, all: &mut Self, tool: Arc<dyn Tool>, prefix: &str) {
        let free = |all: &Self, name: &str| self.get(name).is_none() && all.get(name).is_none();
        if free(all, &tool.definition().name) {
            drop(all.add(tool));
            return;
        }
        let name: String = format!("{prefix}_{}", tool.definition().name);
        let name: String = name.chars().take(MAX_NAME_LEN).collect();
        if free(all, &name) {
            let mut definition = tool.definition().clone();
            definition.name = name;
            drop(all.add(Arc::new(Redefined { definition, tool })));
        }
    }

    /// Returns the definitions that the model receives, in the order of declaration.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// Returns the tool of that name, if it is declared.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools
            .iter()
            .find(|tool| tool.definition().name == name)
    }

    /// Runs a call; a call of an undeclared tool is refused.
    pub async fn call(&self, call: &ToolCall) -> ToolResult {
        self.call_approved(call, None).await
    }

    /// Runs a call with the fingerprint of its approved preview.
    pub async fn call_approved(&self, call: &ToolCall, approved: Option<&str>) -> ToolResult {
        let Some(tool) = self.get(&call.name) else {
            return self.undeclared(&call.name);
        };
        tool.call(ToolInvocation::from(call).with_approval(approved))
            .await
    }

    /// The result of a call of an undeclared tool.
    pub(crate) fn undeclared(&self, name: &str) -> ToolResult {
        let declared = self
            .definitions
            .iter()
            .map(|definition| definition.name.as_str());
        let declared: Vec<&str> = declared.collect();
        let declared = if declared.is_empty() {
            "none".to_owned()
        } else {
            declared.join(", ")
        };
        ToolResult::error(
            "E-CALL-SCHEMA",
            format_args!(
                "no tool named `{name}` is declared, so it was not run. Declared tools: {declared}"
            ),
        )
    }

    /// Returns the preview of a call.
    ///
    /// `None` if the arguments describe the call completely or the tool is undeclared.
    pub async fn preview(&self, call: &ToolCall) -> Option<Preview> {
        self.get(&call.name)?.preview(call.into()).await
    }
}
