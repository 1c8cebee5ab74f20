//! The tools of one run, and only those.

use std::borrow::Cow;
use std::sync::Arc;

use logue_message::{ToolCall, ToolDefinition};

use crate::{BoxFuture, Preview, Tool, ToolInvocation, ToolResult, ToolSource};

/// The declared tools in the order of their declaration.
///
/// Where a declaration stands for tools that may change, a toolbox is what
/// [`current`](Self::current) makes of it: the tools of this moment.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    definitions: Vec<ToolDefinition>,
    /// Each with how many tools were declared before it.
    sources: Vec<(usize, Arc<dyn ToolSource>)>,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.definitions.iter().map(|tool| &tool.name))
            .finish()
    }
}

/// The longest name of a tool that model servers accept.
const LONGEST_NAME: usize = 64;

/// A tool under another name.
struct Renamed {
    definition: ToolDefinition,
    tool: Arc<dyn Tool>,
}

impl Tool for Renamed {
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
}

/// A tool that cannot join the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolboxError {
    /// Another tool has the same name.
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
    /// A toolbox with nothing in it: every call is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// Another tool has the same name.
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

    /// Adds a declaration that stands for any number of tools.
    pub fn add_source(&mut self, source: Arc<dyn ToolSource>) {
        self.sources.push((self.tools.len(), source));
    }

    /// Lets every source look whether something has changed.
    pub async fn refresh(&self) {
        for (_, source) in &self.sources {
            source.refresh().await;
        }
    }

    /// The tools of this moment, with nothing in it that changes. A tool of a source whose name
    /// another tool has gets the source's prefix; if that is taken as well, it is left out.
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
                // The names of these were compared when they were added.
                drop(all.add(Arc::clone(tool)));
            }
        }
        Cow::Owned(all)
    }

    /// Adds a tool of a source under a name that no other tool has.
    fn offer(&self, all: &mut Self, tool: Arc<dyn Tool>, prefix: &str) {
        let free = |all: &Self, name: &str| self.get(name).is_none() && all.get(name).is_none();
        if free(all, &tool.definition().name) {
            drop(all.add(tool));
            return;
        }
        let name: String = format!("{prefix}_{}", tool.definition().name);
        let name: String = name.chars().take(LONGEST_NAME).collect();
        if free(all, &name) {
            let mut definition = tool.definition().clone();
            definition.name = name;
            drop(all.add(Arc::new(Renamed { definition, tool })));
        }
    }

    /// What the model is told, in the order of declaration.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// The tool of that name, if it is declared.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools
            .iter()
            .find(|tool| tool.definition().name == name)
    }

    /// Runs a call; a tool that nobody declared is refused.
    pub async fn call(&self, call: &ToolCall) -> ToolResult {
        self.call_approved(call, None).await
    }

    /// Runs a call as it was approved: `approved` is the fingerprint of the preview that was shown.
    pub async fn call_approved(&self, call: &ToolCall, approved: Option<&str>) -> ToolResult {
        let Some(tool) = self.get(&call.name) else {
            return self.undeclared(&call.name);
        };
        tool.call(ToolInvocation::from(call).with_approval(approved))
            .await
    }

    /// The outcome of a call of a tool that is not here.
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

    /// What a call would do, if its tool says more than its arguments do. A call of an undeclared tool
    /// would do nothing.
    pub async fn preview(&self, call: &ToolCall) -> Option<Preview> {
        self.get(&call.name)?.preview(call.into()).await
    }
}
