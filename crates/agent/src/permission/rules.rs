//! Permission rules: patterns of tool names with the disposition of their calls.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The disposition of a tool's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permission {
    /// The call runs.
    #[default]
    Allow,
    /// The call requires approval: the turn waits until a person decides.
    Ask,
    /// The call never runs; the model receives an error.
    Deny,
}

/// Rules by the pattern of tool names that they apply to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionRules(BTreeMap<String, Permission>);

/// The rules of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionFile {
    /// The file, for reports.
    pub path: PathBuf,
    /// The rules.
    pub rules: PermissionRules,
}

/// A rule, written `TOOL=allow`, `TOOL=ask` or `TOOL=deny`.
///
/// A `*` in the tool's name matches any characters; the most exact rule takes precedence.
///
/// ```
/// use logue_agent::{Permission, PermissionRule, Permissions};
///
/// let rules = ["*=deny", "git_*=ask", "git_push=deny", "git_log=allow"];
/// let rules: Vec<PermissionRule> = rules.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?;
/// let permissions = rules.into_iter().fold(Permissions::new(), Permissions::with);
/// assert_eq!(permissions.permission("git_log"), Permission::Allow);
/// assert_eq!(permissions.permission("git_push"), Permission::Deny);
/// assert_eq!(permissions.permission("git_commit"), Permission::Ask);
/// assert_eq!(permissions.permission("deploy"), Permission::Deny);
/// # Ok::<(), logue_agent::PermissionRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionRule {
    /// The tool, or a pattern of names.
    pub tool: String,
    /// The disposition of their calls.
    pub permission: Permission,
}

/// An invalid permission rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid rule `{0}`: write TOOL=allow, TOOL=ask or TOOL=deny, and `*` for all other tools")]
pub struct PermissionRuleError(String);

impl Permission {
    /// The name of the permission.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Parses the name of a permission.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Deny]
            .into_iter()
            .find(|permission| permission.as_str() == word)
    }
}

impl PermissionRules {
    /// Adds a rule, which replaces an earlier one for the same pattern.
    pub fn add(&mut self, rule: PermissionRule) {
        self.0.insert(rule.tool, rule.permission);
    }

    /// Returns the most exact rule for a tool.
    ///
    /// A tool's own name takes precedence over a pattern, and a pattern over one with fewer literal
    /// characters; among equals, the strictest rule is returned.
    pub fn matching(&self, tool: &str) -> Option<PermissionRule> {
        let exactness = |pattern: &str| {
            let own = pattern.chars().filter(|c| *c != '*').count();
            (pattern == tool, own)
        };
        let matching = self.0.iter().filter(|(pattern, _)| fits(pattern, tool));
        let best = matching.max_by_key(|(pattern, permission)| (exactness(pattern), **permission));
        best.map(|(pattern, permission)| PermissionRule {
            tool: pattern.clone(),
            permission: *permission,
        })
    }

    /// Iterates over all rules in the order of their patterns.
    pub fn iter(&self) -> impl Iterator<Item = PermissionRule> + '_ {
        self.0.iter().map(|(tool, permission)| PermissionRule {
            tool: tool.clone(),
            permission: *permission,
        })
    }
}

impl FromIterator<PermissionRule> for PermissionRules {
    fn from_iter<I: IntoIterator<Item = PermissionRule>>(rules: I) -> Self {
        let mut all = Self::default();
        rules.into_iter().for_each(|rule| all.add(rule));
        all
    }
}

impl PermissionFile {
    /// Creates the rules of the file at `path`.
    pub const fn new(path: PathBuf, rules: PermissionRules) -> Self {
        Self { path, rules }
    }
}

impl PermissionRule {
    /// Creates a rule for a tool or a pattern of names.
    pub fn new(tool: impl Into<String>, permission: Permission) -> Self {
        Self {
            tool: tool.into(),
            permission,
        }
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

/// Returns whether a name matches a pattern with `*` for any characters.
///
/// The cost is at most the product of both lengths.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(head) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    // Text between two stars is matched at its first occurrence, which leaves the most for the
    // rest.
    for piece in pieces {
        let Some(at) = left.find(piece) else {
            return false;
        };
        left = left.get(at + piece.len()..).unwrap_or_default();
    }
    left.ends_with(last)
}
