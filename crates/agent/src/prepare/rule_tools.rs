//! The check that permission rules of one command name tools of its prompt.

use std::collections::BTreeSet;

use chatmd::{Document, ToolKind, load, suggest};
use logue_tools::Toolbox;

use crate::permission::rules::fits;
use crate::prepare::environment::Environment;
use crate::prepare::error::PrepareError;
use crate::prepare::source::{PromptLanguage, PromptSource};
use crate::prompt::scope::PromptScope;

/// The maximum number of agents that are searched for tools. With more, every name is accepted.
const MAX_AGENTS: usize = 256;

/// Refuses a rule for a tool that neither the prompt nor an agent has.
///
/// A misspelled rule has no effect, so the tool that it should deny would run. A pattern without a
/// tool is only reported, as one rule may be meant for several prompts. Before servers are
/// connected, `offered` is `None`; names are then accepted if a server may offer them.
///
/// # Errors
/// Returns an error with the first unknown name.
pub(crate) fn require_tools(
    environment: &Environment,
    scope: &PromptScope,
    source: &PromptSource,
    offered: Option<&Toolbox>,
) -> Result<(), PrepareError> {
    let is_offered = |name: &str| offered.is_some_and(|tools| tools.get(name).is_some());
    let named = environment.rule_tools.iter();
    let unknown: Vec<&String> = named
        .filter(|name| !name.contains('*') && !is_offered(name))
        .collect();
    // A pattern is judged once, when the tools of servers are known.
    let patterns = environment.rule_tools.iter();
    let patterns = patterns.filter(|name| name.contains('*') && *name != "*" && offered.is_some());
    let patterns: Vec<&String> = patterns.collect();
    let is_chatmd = source.language == PromptLanguage::ChatMd;
    if (unknown.is_empty() && patterns.is_empty()) || (!is_chatmd && offered.is_none()) {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    if is_chatmd {
        let declared = scope.tool_names(&source.name, &source.text, offered.is_some());
        let Some(declared) = declared else {
            return Ok(());
        };
        names = declared;
    }
    let definitions = offered.map(Toolbox::definitions).unwrap_or_default();
    names.extend(definitions.iter().map(|tool| tool.name.clone()));
    for pattern in patterns {
        if !names.iter().any(|name| fits(pattern, name)) {
            environment.progress.unused_pattern(pattern);
        }
    }
    match unknown.into_iter().find(|name| !names.contains(*name)) {
        Some(name) => Err(PrepareError::UnknownTool {
            tool: name.clone(),
            suggestion: suggest(name, names.iter().map(String::as_str)).map(str::to_owned),
        }),
        None => Ok(()),
    }
}

impl PromptScope {
    /// Returns the names of the tools that a document and its agents declare, without evaluation.
    ///
    /// Returns `None` if they are not known: a server names its own tools, except for the servers of
    /// the document if they are `connected`.
    fn tool_names(&self, name: &str, text: &str, connected: bool) -> Option<BTreeSet<String>> {
        let loaded = load(name, text, &mut self.files.clone());
        let mut names = BTreeSet::new();
        declared(loaded.document(), connected, &mut names)?;
        let mut known = BTreeSet::new();
        let mut waiting = self.agents_of(loaded.document());
        while let Some(agent) = waiting.pop() {
            if !known.insert(agent.path.clone()) {
                continue;
            }
            if known.len() > MAX_AGENTS {
                return None;
            }
            let name = agent.path.display().to_string();
            let loaded = load(&name, &agent.text, &mut agent.scope.files.clone());
            declared(loaded.document(), false, &mut names)?;
            waiting.extend(agent.scope.agents_of(loaded.document()));
        }
        Some(names)
    }
}

fn declared(document: &Document, connected: bool, names: &mut BTreeSet<String>) -> Option<()> {
    for tool in document.tools() {
        if !connected && matches!(tool.kind, ToolKind::McpServer { .. }) {
            return None;
        }
        names.extend(tool.exposed_names().into_iter().map(str::to_owned));
    }
    Some(())
}
