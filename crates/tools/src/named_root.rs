//! Directories to which a prompt gives names.

use std::path::Path;
use std::sync::Arc;

use crate::Roots;
use crate::hidden_files::HiddenFiles;
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

    /// Opens a directory in one of `named`.
    ///
    /// # Errors
    /// Returns [`RootError::Outside`] if the path is in none of them, and an error if it is not an
    /// existing directory.
    pub fn inside(
        named: &[Self],
        id: impl Into<String>,
        path: &Path,
        description: Option<String>,
    ) -> Result<Self, RootError> {
        let is_inside = |root: &&Self| !root.roots.is_outside(&path.display().to_string());
        match named.iter().find(is_inside) {
            Some(root) => Self::below(&root.roots, id, path, description),
            None => Err(RootError::Outside(path.display().to_string())),
        }
    }

    /// Returns the directories as roots.
    pub fn joined(named: &[Self]) -> Roots {
        let handles = named.iter().flat_map(|root| root.roots.handles());
        handles.fold(Roots::default(), Roots::with_folder)
    }

    /// Returns the directory without files that are not to be read.
    pub(crate) fn hiding(&self, hidden: &HiddenFiles) -> Self {
        Self {
            roots: Arc::new(self.roots.hiding(hidden)),
            ..self.clone()
        }
    }

    /// Returns the path of the directory without links.
    pub fn path(&self) -> &Path {
        self.roots.base()
    }
}
