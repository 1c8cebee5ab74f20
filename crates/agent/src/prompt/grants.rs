//! The grant of a document, and the scopes of its agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chatmd::{Document, ExpandedDocument, ReferenceKind, load};
use logue_source::Span;
use logue_tools::FileHasher;

use crate::prompt::file_loader::FileLoader;
use crate::prompt::scope::PromptScope;
use crate::trust::grant::{Grant, PromptDeclarations};

/// The maximum number of agents in a grant. Agents beyond it are not trusted.
pub(crate) const MAX_AGENTS: usize = 256;

/// The prompt of an agent in a file.
pub(crate) struct AgentFile {
    /// The span of the element that names it.
    pub(crate) span: Span,
    /// The path as the element names it.
    pub(crate) src: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) scope: PromptScope,
}

impl PromptScope {
    /// Determines the grant of a document with its imports and agents.
    ///
    /// Nothing is evaluated and no agent runs; a prompt that cannot be read grants nothing.
    ///
    /// Linear in the size of these texts, of which at most 256 are read.
    pub fn grant(&self, name: &str, text: &str) -> Grant {
        let mut hasher = FileHasher::default();
        let loaded = load(name, text, &mut self.files.clone());
        let mut grant = Grant {
            own: self.declarations(&loaded, &mut hasher),
            folder: self.files.roots().base().to_owned(),
            ..Grant::default()
        };
        let mut waiting = self.agents_of(loaded.document());
        while let Some(agent) = waiting.pop() {
            let AgentFile {
                path, text, scope, ..
            } = agent;
            if grant.agents.len() >= MAX_AGENTS || grant.agents.contains_key(&path) {
                continue;
            }
            let name = path.display().to_string();
            let loaded = load(&name, &text, &mut scope.files.clone());
            let declared = scope.declarations(&loaded, &mut hasher);
            waiting.extend(scope.agents_of(loaded.document()));
            let declared = declared.with_prompt(&path, &text);
            grant.agents.insert(path, declared);
        }
        grant
    }

    /// Returns the declarations of a document in this scope.
    fn declarations(
        &self,
        loaded: &ExpandedDocument<'_>,
        hasher: &mut FileHasher,
    ) -> PromptDeclarations {
        let folder = self.files.roots().base();
        let tools = loaded.document().tools();
        PromptDeclarations::from_tools(tools, folder, &self.shell, hasher)
            .with_imports(loaded.parts(), folder)
    }

    /// Reads the agents in files that a document names.
    pub(crate) fn agents_of(&self, document: &Document) -> Vec<AgentFile> {
        let is_agent = |kind| matches!(kind, ReferenceKind::Agent | ReferenceKind::AgentTool);
        let named = document.references();
        let named = named.filter(|one| one.local && is_agent(one.kind));
        let read = named.filter_map(|one| {
            let (text, path) = self.files.prompt(one.src).ok()?;
            let scope = self.inside(path.parent(), &path).ok()?;
            Some(AgentFile {
                span: one.span,
                src: one.src.to_owned(),
                path,
                text,
                scope,
            })
        });
        read.collect()
    }

    /// The scope of an agent's prompt at `path`, one level deeper.
    ///
    /// It is based on the agent's own directory. A prompt from the network has no directory.
    pub(crate) fn inside(&self, folder: Option<&Path>, path: &Path) -> Result<Self, String> {
        let outer = self.files.roots();
        let roots = folder.map(|folder| outer.beginning_with(folder));
        let roots = roots.transpose().map_err(|error| error.to_string())?;
        let roots = Arc::new(roots.unwrap_or_default());
        Ok(Self {
            files: FileLoader::new(roots, folder.unwrap_or(Path::new("")))
                .with_file(path)
                .together_with(&self.files),
            kept: self.kept.clone(),
            hidden: self.hidden.clone(),
            shell: self.shell.clone(),
            network: self.network.clone(),
            servers: self.servers.clone(),
            search: self.search.clone(),
            agents: self.agents.clone(),
            depth: self.depth + 1,
            inherited: self.inherited.clone(),
            variables: Arc::clone(&self.variables),
            record: self.record.clone(),
            place: self.place.clone(),
            confinement: self.confinement.clone(),
            takes_images: self.takes_images,
            callers: [self.callers.clone(), vec![path.to_owned()]].concat(),
        })
    }
}
