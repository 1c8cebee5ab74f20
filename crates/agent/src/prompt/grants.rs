//! The grant of a document, and the scopes of its agents.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use chatmd::{Document, ReferenceKind, load};
use logue_tools::Roots;

use crate::prompt::file_loader::FileLoader;
use crate::prompt::scope::PromptScope;
use crate::trust::grant::{Grant, PromptDeclarations};

/// The maximum number of agents in a grant. Agents beyond it are not trusted.
const MAX_AGENTS: usize = 256;

impl PromptScope {
    /// Determines the grant of a document with its imports and agents.
    ///
    /// Nothing is evaluated and no agent runs; a prompt that cannot be read grants nothing.
    ///
    /// Linear in the size of these texts, of which at most 256 are read.
    pub fn grant(&self, name: &str, text: &str) -> Grant {
        let mut grant = Grant::default();
        let loaded = load(name, text, &mut self.files.clone());
        let document = loaded.document();
        grant.own = PromptDeclarations::from_tools(document.tools(), self.files.roots().base());
        let mut known = BTreeSet::new();
        let mut waiting = self.agents_of(document);
        while let Some((path, text, inside)) = waiting.pop() {
            if known.len() >= MAX_AGENTS || !known.insert(path.clone()) {
                continue;
            }
            let loaded = load(&path, &text, &mut inside.files.clone());
            let document = loaded.document();
            let declared =
                PromptDeclarations::from_tools(document.tools(), inside.files.roots().base());
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
            let (text, path) = self.files.prompt(one.src).ok()?;
            let inside = self.inside(path.parent(), &path).ok()?;
            Some((path.display().to_string(), text, inside))
        });
        read.collect()
    }

    /// The scope of an agent's prompt at `path`, one level deeper.
    ///
    /// It is based on the agent's own directory. A prompt from the network has no directory.
    pub(crate) fn inside(&self, folder: Option<&Path>, path: &Path) -> Result<Self, String> {
        let outer = self.files.roots().folders().iter().cloned();
        let folders = folder.into_iter().flat_map(|folder| {
            let own = std::iter::once(folder.to_owned());
            own.chain(outer.clone())
        });
        let roots = Arc::new(Roots::new(folders).map_err(|error| error.to_string())?);
        Ok(Self {
            files: FileLoader::new(roots, folder.unwrap_or(Path::new("")))
                .with_file(path)
                .together_with(&self.files),
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
