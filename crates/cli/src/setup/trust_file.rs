//! The user's file of trusted prompts and directories.

use std::io;
use std::path::Path;

use logue_agent::{TrustFile, TrustedFolder};
use logue_tools::PrivateFileError;

use crate::exit::CliError;
use crate::setup::environment::{data_folder, file_owners, variable};

/// Returns the file of trusted prompts, or `None` without a user data directory.
pub(crate) fn file() -> Option<TrustFile> {
    let file = data_folder().map(|folder| TrustFile::new(folder.join("trust.json")));
    file.map(|file| file.with_owners(file_owners()))
}

/// Returns whether `LOGUE_TRUST` trusts every prompt and every directory.
pub(crate) fn trusts_everything() -> bool {
    variable("LOGUE_TRUST").is_some_and(|value| value == "all")
}

/// Returns the entry of a directory in the trust file.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub(crate) fn known_folder(folder: &Path) -> Result<Option<TrustedFolder>, CliError> {
    let Some(file) = file() else {
        return Ok(None);
    };
    let known = file.known_folder(folder);
    known.map_err(|error| failed(&file, &error))
}

/// Returns the failure of a command that cannot access the trust file.
pub(crate) fn failed(file: &TrustFile, error: &io::Error) -> CliError {
    let message = format!(
        "cannot read or write the trusted prompts: {}: {error}",
        file.path().display()
    );
    let help = PrivateFileError::in_error(error).map_or(
        "check the file and its permissions; without it no prompt is trusted",
        PrivateFileError::help,
    );
    CliError::user("trust_unavailable", message).with_help(help)
}
