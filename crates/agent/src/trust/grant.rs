//! The grant of a prompt: tools that can do more than read its directory.
//!
//! A [`Grant`] covers the declarations of the prompt and its imports, and those of every agent that
//! it can reach. Its [`id`](Grant::id) is a hash of their canonical form only: messages, settings
//! and the order of declarations do not change it, so a growing conversation keeps its id and a
//! changed command does not. The working directory of a command is included, since the same words
//! start other programs elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chatmd::{ToolDecl, ToolKind};
use logue_tools::{Builtin, BuiltinPower, command_words};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The grant of a prompt and its agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    pub(crate) own: PromptDeclarations,
    /// The agents with grants of their own, by canonical path.
    pub(crate) agents: BTreeMap<String, PromptDeclarations>,
}

/// A tool that does more than read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Power {
    /// The tool names for the model; `None` for a server, which names its own.
    names: Option<Vec<String>>,
    /// The description for people.
    line: String,
}

/// The declarations of one prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptDeclarations {
    /// Tools that do more than read, by their canonical form.
    powers: BTreeMap<String, Power>,
    /// Names of tools that only read or call an agent.
    pub(crate) harmless: BTreeSet<String>,
}

impl PromptDeclarations {
    /// Classifies the tools of a document in this directory.
    pub(crate) fn from_tools<'d>(tools: impl Iterator<Item = &'d ToolDecl>, folder: &Path) -> Self {
        let mut declared = Self::default();
        for tool in tools {
            let names = tool.exposed_names().into_iter().map(str::to_owned);
            if let Some((canonical, line)) = power(tool, folder) {
                // The tools of a server are known after it was asked.
                let is_server = matches!(tool.kind, ToolKind::McpServer { .. });
                let names = (!is_server).then(|| names.collect());
                declared
                    .powers
                    .insert(canonical.to_string(), Power { names, line });
            } else {
                declared.harmless.extend(names);
            }
        }
        declared
    }

    /// The id of the declarations of the prompt at `path`.
    pub(crate) fn id(&self, path: &str) -> String {
        let powers: Vec<&String> = self.powers.keys().collect();
        digest(&json!(["agent", path, powers]))
    }

    /// Returns whether no tool does more than read.
    pub(crate) fn is_empty(&self) -> bool {
        self.powers.is_empty()
    }
}

impl Grant {
    /// Returns whether there is nothing to trust.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.agents.is_empty()
    }

    /// The id: `sha256:` and 64 digits.
    pub fn id(&self) -> String {
        let own: Vec<&String> = self.own.powers.keys().collect();
        let agents: Vec<String> = self.members().into_iter().collect();
        format!("sha256:{}", digest(&json!(["grant-1", own, agents])))
    }

    /// Describes the grant for people, one line per tool.
    ///
    /// The lines may contain characters that control a terminal.
    pub fn lines(&self) -> Vec<String> {
        let own = self.own.powers.values().map(|power| power.line.clone());
        let of_agents = self.agents.iter().flat_map(|(path, declared)| {
            let powers = declared.powers.values();
            powers.map(move |power| format!("agent {path}: {}", power.line))
        });
        own.chain(of_agents).collect()
    }

    /// Iterates over the tool names; `None` for a server, which names its own.
    pub(crate) fn names(&self) -> impl Iterator<Item = Option<&str>> {
        let all = std::iter::once(&self.own).chain(self.agents.values());
        let powers = all.flat_map(|declared| declared.powers.values());
        powers.flat_map(|power| match &power.names {
            Some(names) => names.iter().map(|name| Some(name.as_str())).collect(),
            None => vec![None],
        })
    }

    pub(crate) fn harmless(&self) -> &BTreeSet<String> {
        &self.own.harmless
    }

    /// The ids of the covered agents.
    pub(crate) fn members(&self) -> BTreeSet<String> {
        let agents = self.agents.iter();
        agents.map(|(path, declared)| declared.id(path)).collect()
    }
}

/// Describes the effects of a tool beyond reading below the prompt's directory.
///
/// Returns the canonical form and a line for people. An agent is limited to the declarations of its
/// own prompt.
fn power(tool: &ToolDecl, folder: &Path) -> Option<(Value, String)> {
    let place = folder.display().to_string();
    match &tool.kind {
        ToolKind::Builtin { name } => {
            // A tool that does not exist here is not offered.
            let line = match Builtin::named(name)?.iter().map(|it| it.power()).max()? {
                BuiltinPower::Reads => return None,
                BuiltinPower::Network => "reads pages of the network",
                BuiltinPower::Writes => "changes files below its folder",
                BuiltinPower::Runs => "runs programs that the model writes, in a sandbox",
                _ => "a built-in tool",
            };
            Some((json!(["builtin", name]), format!("{name}: {line}")))
        }
        ToolKind::Command { name, command, .. } => {
            // An invalid command runs nothing.
            let words = command_words(command).unwrap_or_default();
            let line = format!("{name}: runs `{} …` in {place}", words.join(" "));
            Some((json!(["command", name, words, place]), line))
        }
        ToolKind::Agent { .. } => None,
        ToolKind::McpServer { server, names, .. } => {
            let which = names.as_ref().map_or_else(
                || "all tools".to_owned(),
                |names| format!("the tools {}", names.join(", ")),
            );
            let line = format!("{which} of the MCP server {server}, in {place}");
            Some((json!(["mcp", server, names, place]), line))
        }
        other => {
            let words = format!("{other:?}");
            Some((json!(["other", words, place]), words))
        }
    }
}

fn digest(value: &Value) -> String {
    format!("{:x}", Sha256::digest(value.to_string()))
}
