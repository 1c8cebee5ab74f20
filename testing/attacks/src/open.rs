//! Attacks that succeed, or may succeed on a slow machine.

/// The names of such attacks, with the reason. They are reported and do not fail a run.
pub(crate) const OPEN: &[(&str, &str)] = &[
    (
        "sandbox-disk",
        "written space is checked periodically, so a fast command exceeds it",
    ),
    (
        "sandbox-forks",
        "processes are counted periodically, so a fast command exceeds it",
    ),
];
