//! The owner of a configuration file.

/// The owner of a file.
///
/// The file of a project comes with a checkout, which is untrusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    User,
    Project,
}
