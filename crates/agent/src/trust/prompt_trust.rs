//! The trust level of a prompt, and the permissions that follow from it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use logue_tools::{FileHasher, ServerAccess};

use crate::permission::decision_source::{DecisionSource, PermissionDecision};
use crate::permission::rules::Permission;
use crate::trust::grant::{Grant, ProgramFiles, PromptDeclarations};

/// The trust level of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptTrust(Option<Judged>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Judged {
    trusted: bool,
    grant: String,
    harmless: BTreeSet<String>,
    /// The agents that the decision covers.
    members: BTreeSet<String>,
    /// The access of server programs, by address.
    servers: BTreeMap<String, ServerAccess>,
    /// The files that trust is bound to during the run.
    programs: Arc<ProgramFiles>,
}

impl PromptTrust {
    /// A prompt of the user's own: declared tools may run.
    pub fn own() -> Self {
        Self::default()
    }

    /// A prompt that the user trusts with its grant.
    pub fn trusted(grant: &Grant) -> Self {
        Self::judged(grant, true)
    }

    /// A prompt that is not trusted: tools that do more than read require approval.
    pub fn not_trusted(grant: &Grant) -> Self {
        Self::judged(grant, false)
    }

    fn judged(grant: &Grant, trusted: bool) -> Self {
        Self(Some(Judged {
            trusted: trusted || grant.is_empty(),
            grant: grant.id(),
            harmless: grant.harmless().clone(),
            members: grant.members(),
            servers: BTreeMap::new(),
            programs: Arc::default(),
        }))
    }

    /// The trust level of an agent's prompt at `path`.
    ///
    /// It is covered in the state in which it was judged with its caller, and not if it has changed
    /// since.
    pub(crate) fn for_agent(&self, path: &Path, declared: &PromptDeclarations) -> Self {
        let Some(outer) = &self.0 else {
            return Self(None);
        };
        let id = declared.id(path);
        let covered = outer.trusted && outer.members.contains(&id);
        Self(Some(Judged {
            trusted: covered,
            grant: id,
            harmless: declared.harmless.clone(),
            members: outer.members.clone(),
            servers: outer.servers.clone(),
            programs: Arc::clone(&outer.programs),
        }))
    }

    /// Binds the trust to the files that commands execute or load, until the run ends.
    ///
    /// A call of a command whose files have changed since the grant was made is not trusted.
    #[must_use]
    pub fn bound_to(mut self, grant: &Grant) -> Self {
        if let Some(judged) = &mut self.0 {
            judged.programs = Arc::new(grant.programs());
        }
        self
    }

    /// Returns whether a file that trust is bound to has changed. Reads the files.
    pub(crate) async fn has_changed(&self) -> bool {
        let Some(judged) = self.0.as_ref().filter(|judged| judged.trusted) else {
            return false;
        };
        let programs = Arc::clone(&judged.programs);
        let work = move || {
            let mut hasher = FileHasher::default();
            let mut files = programs.iter();
            files.any(|(path, content)| hasher.hash(path) != *content)
        };
        // Without a result, nothing is known of the files.
        tokio::task::spawn_blocking(work).await.unwrap_or(true)
    }

    /// Sets the access of the prompt's server programs, by address as declared.
    #[must_use]
    pub fn with_servers(mut self, servers: BTreeMap<String, ServerAccess>) -> Self {
        if let Some(judged) = &mut self.0 {
            judged.servers = servers;
        }
        self
    }

    /// Returns the access of a server program; none if the prompt is not trusted.
    pub(crate) fn server_access(&self, server: &str) -> ServerAccess {
        let judged = self.0.as_ref().filter(|judged| judged.trusted);
        let access = judged.and_then(|judged| judged.servers.get(server));
        access.copied().unwrap_or_default()
    }

    /// Returns the trust level after a covered file has changed.
    ///
    /// Prompts of the user's own keep it.
    pub(crate) fn withdrawn(mut self) -> Self {
        if let Some(judged) = &mut self.0 {
            judged.trusted = false;
        }
        self
    }

    /// Returns whether the prompt is the user's own, trusted, or grants nothing.
    pub(crate) fn is_trusted(&self) -> bool {
        self.0.as_ref().is_none_or(|judged| judged.trusted)
    }

    /// The permission of a tool without a rule.
    pub(crate) fn decision(&self, tool: &str) -> PermissionDecision {
        let Some(judged) = &self.0 else {
            return PermissionDecision {
                permission: Permission::Allow,
                by: DecisionSource::Declared,
            };
        };
        let grant = || judged.grant.clone();
        let (permission, by) = if judged.harmless.contains(tool) {
            (Permission::Allow, DecisionSource::Harmless)
        } else if judged.trusted {
            (Permission::Allow, DecisionSource::Trust { grant: grant() })
        } else {
            (
                Permission::Ask,
                DecisionSource::NotTrusted { grant: grant() },
            )
        };
        PermissionDecision { permission, by }
    }
}
