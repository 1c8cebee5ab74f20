//! Attacks that succeed today.

/// The names of attacks that succeed, with the reason. They are reported and do not fail a run.
pub(crate) const OPEN: &[(&str, &str)] = &[
    ("payload-link-document", "a link `.chatmd` is followed"),
    ("payload-link-convert", "a link `.chatmd` is followed"),
    ("payload-link-write", "a link `.chatmd` is followed"),
    ("replay-outside", "a prompt may name any recording"),
    ("settings-roots", "a checkout may add roots"),
    ("settings-base-url", "a checkout may name the server"),
    ("settings-environment", "a checkout may name variables"),
    ("settings-environment-mcp", "a checkout may name variables"),
    ("settings-store", "a checkout may name the store"),
    ("sandbox-chmod", "Landlock does not cover modes"),
    ("sandbox-times", "Landlock does not cover times"),
    ("sandbox-attribute", "Landlock does not cover attributes"),
    ("sandbox-chown", "Landlock does not cover owners"),
    ("sandbox-disk", "there is no limit for all files together"),
    (
        "sandbox-socket-pair",
        "`sendto` of a pair of sockets is not filtered",
    ),
    (
        "sandbox-descriptors",
        "descriptors of the caller are inherited",
    ),
    ("sandbox-forks", "processes are counted ten times a second"),
    (
        "sandbox-shared-memory",
        "Landlock has no namespace of shared memory",
    ),
    (
        "sandbox-keyring",
        "system calls of keyrings are not filtered",
    ),
    (
        "root-replaced-read",
        "roots are opened by name for each command",
    ),
    (
        "root-replaced-write",
        "roots are opened by name for each command",
    ),
    (
        "writable-made-later",
        "writable folders are opened by name for each command",
    ),
    (
        "permission-unknown-tool",
        "a rule for an unknown tool has no effect",
    ),
    ("race-payload", "a link `.chatmd` is followed"),
    ("race-command", "folders of commands are opened by name"),
    ("planted-links", "the audit is appended through a link"),
    (
        "planted-pipes",
        "a pipe in place of the trust list is opened",
    ),
    (
        "served-short-token",
        "the strength of a token is not checked",
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
    (
        "writable-state-folder",
        "the mode of an existing folder is not checked",
    ),
];
