//! Which tools may run, which a person is asked about first, and which never run.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What becomes of a call of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Permission {
    /// It runs: the prompt declares the tool.
    #[default]
    Allow,
    /// The turn waits until a person says whether it may run.
    Ask,
    /// It never runs; the model is told so.
    Deny,
}

/// The permissions of a turn's tools. A tool that nobody declared does not run whatever they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    others: Permission,
    tools: BTreeMap<String, Permission>,
}

/// One rule, written `TOOL=allow`, `TOOL=ask` or `TOOL=deny`; `*` stands for the tools without a
/// rule of their own.
///
/// ```
/// use logue_agent::{Permission, PermissionRule, Permissions};
///
/// let rule: PermissionRule = "deploy=ask".parse()?;
/// let permissions = Permissions::new().with(rule);
/// assert_eq!(permissions.of("deploy"), Permission::Ask);
/// assert_eq!(permissions.of("read_file"), Permission::Allow);
/// # Ok::<(), logue_agent::PermissionRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRule {
    /// The tool, or `*`.
    pub tool: String,
    /// What becomes of its calls.
    pub permission: Permission,
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no rule: write TOOL=allow, TOOL=ask or TOOL=deny, and `*` for all other tools")]
pub struct PermissionRuleError(String);

impl Permission {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// The permission that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Deny]
            .into_iter()
            .find(|permission| permission.as_str() == word)
    }
}

impl Permissions {
    /// Every declared tool may run.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a rule, which takes the place of an earlier one for the same tools.
    #[must_use]
    pub fn with(mut self, rule: PermissionRule) -> Self {
        if rule.tool == "*" {
            self.others = rule.permission;
        } else {
            self.tools.insert(rule.tool, rule.permission);
        }
        self
    }

    /// The same where nobody can be asked: what would be asked about does not run.
    #[must_use]
    pub fn without_asking(mut self) -> Self {
        let permissions = self.tools.values_mut().chain([&mut self.others]);
        for permission in permissions.filter(|permission| **permission == Permission::Ask) {
            *permission = Permission::Deny;
        }
        self
    }

    /// What becomes of a call of a tool.
    pub fn of(&self, tool: &str) -> Permission {
        self.tools.get(tool).copied().unwrap_or(self.others)
    }

    /// The rules that make these permissions.
    pub fn rules(&self) -> impl Iterator<Item = PermissionRule> + '_ {
        let others = (self.others != Permission::default()).then(|| PermissionRule {
            tool: "*".to_owned(),
            permission: self.others,
        });
        let rules = self.tools.iter().map(|(tool, permission)| PermissionRule {
            tool: tool.clone(),
            permission: *permission,
        });
        others.into_iter().chain(rules)
    }
}

impl FromStr for PermissionRule {
    type Err = PermissionRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = text.rsplit_once('=').and_then(|(tool, word)| {
            let permission = Permission::parse(word)?;
            (!tool.is_empty()).then(|| Self {
                tool: tool.to_owned(),
                permission,
            })
        });
        rule.ok_or_else(|| PermissionRuleError(text.to_owned()))
    }
}

impl fmt::Display for PermissionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.tool, self.permission.as_str())
    }
}
