//! Directories of this user's own.

use std::io;
use std::path::Path;

/// Creates a directory and its missing parents, accessible to their owner only.
///
/// An existing directory that others can access is closed to them; its parents keep their modes.
///
/// # Errors
/// Returns an error if the directory cannot be created, or belongs to another user and is open.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        builder.mode(0o700).create(folder)?;
        let mut permissions = std::fs::metadata(folder)?.permissions();
        if permissions.mode() & 0o077 != 0 {
            permissions.set_mode(0o700);
            std::fs::set_permissions(folder, permissions)?;
        }
        Ok(())
    }
    #[cfg(not(unix))]
    builder.create(folder)
}
