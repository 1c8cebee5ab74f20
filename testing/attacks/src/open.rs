//! Attacks that succeed today.

/// The names of attacks that succeed, with the reason. They are reported and do not fail a run.
pub(crate) const OPEN: &[(&str, &str)] = &[
    (
        "sandbox-disk",
        "written space is checked periodically, so a fast command exceeds it",
    ),
    (
        "sandbox-forks",
        "processes are counted periodically, so a fast command exceeds it",
    ),
    ("planted-links", "the audit is appended through a link"),
    (
        "planted-pipes",
        "a pipe in place of the trust list is opened",
    ),
    (
        "other-own-settings",
        "the owner of the user's settings is not checked",
    ),
    (
        "other-trust-list",
        "the owner of the trust list is not checked",
    ),
    ("other-sessions", "the owner of the store is not checked"),
];
