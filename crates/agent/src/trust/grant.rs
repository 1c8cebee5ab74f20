//! The grant of a prompt: tools that can do more than read its directory.
//!
//! A [`Grant`] covers the declarations of the prompt and its imports, and those of every agent that
//! it can reach. Its [`id`](Grant::id) is a hash of their canonical form only: messages, settings
//! and the order of declarations do not change it, so a growing conversation keeps its id and a
//! changed command does not. The working directory of a command is included, since the same words
//! start other programs elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use chatmd::{Document, ReferenceKind, ToolDecl, ToolKind, load};
use logue_tools::{Builtin, BuiltinPower, Roots, command_words};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::prompt::environment::Surroundings;
use crate::prompt::file_loader::FileWorld;

/// The maximum number of agents in a grant. Agents beyond it are not trusted.
const MAX_AGENTS: usize = 256;

/// The grant of a prompt and its agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    own: Declared,
    /// The agents with grants of their own, by canonical path.
    agents: BTreeMap<String, Declared>,
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
pub(crate) struct Declared {
    /// Tools that do more than read, by their canonical form.
    powers: BTreeMap<String, Power>,
    /// Names of tools that only read or call an agent.
    pub(crate) harmless: BTreeSet<String>,
}

impl Declared {
    /// Classifies the tools of a document in this directory.
    pub(crate) fn of<'d>(tools: impl Iterator<Item = &'d ToolDecl>, folder: &Path) -> Self {
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

impl Surroundings {
    /// Determines the grant of a document with its imports and agents.
    ///
    /// Nothing is evaluated and no agent runs; a prompt that cannot be read grants nothing.
    ///
    /// Linear in the size of these texts, of which at most 256 are read.
    ///
    /// Linear in the size of all these texts, of which it reads at most 256.
    pub fn grant(&self, name: &str, text: &str) -> Grant {
        let mut grant = Grant::default();
        let loaded = load(name, text, &mut self.world.clone());
        let document = loaded.document();
        grant.own = Declared::of(document.tools(), self.world.roots().base());
        let mut known = BTreeSet::new();
        let mut waiting = self.agents_of(document);
        while let Some((path, text, inside)) = waiting.pop() {
            if known.len() >= MAX_AGENTS || !known.insert(path.clone()) {
                continue;
            }
            let loaded = load(&path, &text, &mut inside.world.clone());
            let document = loaded.document();
            let declared = Declared::of(document.tools(), inside.world.roots().base());
            waiting.extend(inside.agents_of(document));
            if !declared.is_empty() {
                grant.agents.insert(path, declared);
            }
        }
        grant
    }

    /// Reads the agents in files that a document names, with the scope of each.
    fn agents_of(&self, document: &Document) -> Vec<(String, String, Self)> {
        let is_agent = |kind| matches!(kind, ReferenceKind::Agent | ReferenceKind::AgentTool);
        let named = document.references();
        let named = named.filter(|one| one.local && is_agent(one.kind));
        let read = named.filter_map(|one| {
            let (text, path) = self.world.prompt(one.src).ok()?;
            let inside = self.inside(path.parent(), &path).ok()?;
            Some((path.display().to_string(), text, inside))
        });
        read.collect()
    }

    /// The scope of an agent's prompt at `path`, one level deeper.
    ///
    /// It is based on the agent's own directory. A prompt from the network has no directory.
    pub(crate) fn inside(&self, folder: Option<&Path>, path: &Path) -> Result<Self, String> {
        let outer = self.world.roots().folders().iter().cloned();
        let folders = folder.into_iter().flat_map(|folder| {
            let own = std::iter::once(folder.to_owned());
            own.chain(outer.clone())
        });
        let roots = Arc::new(Roots::new(folders).map_err(|error| error.to_string())?);
        Ok(Self {
            world: FileWorld::new(roots, folder.unwrap_or(Path::new("")))
                .of_file(path)
                .together_with(&self.world),
            kept: self.kept.clone(),
            shell: self.shell.clone(),
            network: self.network.clone(),
            servers: self.servers.clone(),
            search: self.search.clone(),
            agents: self.agents.clone(),
            depth: self.depth + 1,
            callers: [self.callers.clone(), vec![path.to_owned()]].concat(),
        })
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
