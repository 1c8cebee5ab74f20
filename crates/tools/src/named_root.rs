//! Directories to which a prompt gives names.

use std::path::Path;
use std::sync::Arc;

use crate::Roots;
use crate::roots::RootError;

/// A directory of a prompt with a name.
#[derive(Clone, Debug)]
pub struct NamedRoot {
    pub(crate) id: String,
    pub(crate) description: Option<String>,
    pub(crate) roots: Arc<Roots>,
}

impl NamedRoot {
    /// Opens a directory below `allowed`.
    ///
    /// # Errors
    /// Returns [`RootError::Outside`] if the path leaves `allowed`, and an error if it is not an
    /// existing directory.
    pub fn below(
        allowed: &Roots,
        id: impl Into<String>,
        path: &Path,
        description: Option<String>,
    ) -> Result<Self, RootError> {
        Ok(Self {
            id: id.into(),
            description,
            roots: Arc::new(allowed.folder(path)?),
        })
    }

    /// Returns the path of the directory without links.
    pub fn path(&self) -> &Path {
        self.roots.base()
    }
}
