//! Whether a prompt is trusted, and what follows for its tools.

use std::collections::BTreeSet;

use crate::permission::decision_source::{Authority, Ruling};
use crate::permission::permissions::Permission;
use crate::trust::grant::{Declared, Grant};

/// How a prompt stands with the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing(Option<Judged>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Judged {
    trusted: bool,
    grant: String,
    harmless: BTreeSet<String>,
    /// The agents that the judgement covers.
    members: BTreeSet<String>,
}

impl Standing {
    /// A prompt whose tools are the user's own: what is declared may run.
    pub fn own() -> Self {
        Self::default()
    }

    /// A prompt that the user trusts with all that it grants.
    pub fn trusted(grant: &Grant) -> Self {
        Self::judged(grant, true)
    }

    /// A prompt that can grant itself nothing: a person is asked about each call of a tool that does
    /// more than read.
    pub fn not_trusted(grant: &Grant) -> Self {
        Self::judged(grant, false)
    }

    fn judged(grant: &Grant, trusted: bool) -> Self {
        Self(Some(Judged {
            trusted: trusted || grant.is_empty(),
            grant: grant.id(),
            harmless: grant.harmless().clone(),
            members: grant.members(),
        }))
    }

    /// The standing of an agent's prompt at `path` that declares this. It is trusted as it was when
    /// the prompt that names it was judged, and not as it was changed since.
    pub(crate) fn of_agent(&self, path: &str, declared: &Declared) -> Self {
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
        }))
    }

    /// Whether the prompt is the user's own, or trusted, or grants nothing.
    pub(crate) fn is_trusted(&self) -> bool {
        self.0.as_ref().is_none_or(|judged| judged.trusted)
    }

    /// What becomes of a tool that no rule names.
    pub(crate) fn ruling(&self, tool: &str) -> Ruling {
        let Some(judged) = &self.0 else {
            return Ruling {
                permission: Permission::Allow,
                by: Authority::Declared,
            };
        };
        let grant = || judged.grant.clone();
        let (permission, by) = if judged.harmless.contains(tool) {
            (Permission::Allow, Authority::Harmless)
        } else if judged.trusted {
            (Permission::Allow, Authority::Trust { grant: grant() })
        } else {
            (Permission::Ask, Authority::NotTrusted { grant: grant() })
        };
        Ruling { permission, by }
    }
}
