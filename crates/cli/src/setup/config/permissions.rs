//! `[permissions]` and `[trust]` of `logue.toml`.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use logue_agent::{Permission, PermissionRule, PermissionRules};
use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::origin::Origin;

/// `[permissions]`: the rules of tools, and the time for a decision.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermissionTable {
    /// The seconds after which an undecided call counts as denied.
    pub(crate) approval_timeout_seconds: Option<NonZeroU64>,
    /// Permissions by tool, or by pattern of names.
    #[serde(default)]
    rules: BTreeMap<String, Spanned<String>>,
}

impl PermissionTable {
    /// Returns the rules.
    ///
    /// # Errors
    /// Returns the place and a message of the first value that is not a permission.
    pub(crate) fn rules(&self) -> Result<PermissionRules, (Span, String)> {
        let rules = self.rules.iter().map(|(tool, value)| {
            let permission = Permission::parse(value.get_ref()).ok_or_else(|| {
                let message = format!("`{tool}` must be \"allow\", \"ask\" or \"deny\"");
                (Span::from(value.span()), message)
            });
            Ok(PermissionRule::new(tool.clone(), permission?))
        });
        rules.collect()
    }
}

/// `[trust]`: the directories of the user's own prompts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustTable {
    #[serde(default)]
    pub(crate) directories: Vec<Spanned<PathBuf>>,
}

impl TrustTable {
    /// Checks that a file contains no forbidden setting.
    ///
    /// The file of a project comes with a checkout, which could declare itself trusted.
    ///
    /// # Errors
    /// Returns a message and its position for the first trusted directory of a project.
    pub(crate) fn check(&self, origin: Origin) -> Result<(), (Span, String)> {
        match self.directories.first() {
            Some(folder) if origin == Origin::Project => Err((
                Span::from(folder.span()),
                "only your own logue/config.toml may name trusted directories".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}
