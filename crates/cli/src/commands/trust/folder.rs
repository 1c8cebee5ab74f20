//! Trust in the `logue.toml` of a directory, for `logue trust`.

use std::path::{Path, PathBuf};

use logue_agent::{GrantChange, TrustFile, TrustedFolder, path_text};
use logue_harness::{Clock as _, SystemClock};
use logue_source::{escape_line, quote_word};
use serde_json::json;

use super::{changed, declarations};
use crate::exit::CliError;
use crate::setup::config::ConfigFile;
use crate::setup::config::find::PROJECT_FILE;
use crate::setup::config::project_trust::{FolderReason, ProjectGrants};
use crate::setup::trust::single;
use crate::setup::trust_file::failed;

/// Returns the directory that a path names, by itself or by its `logue.toml`.
pub(super) fn folder_of_settings(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_owned());
    }
    let is_settings = path.file_name().is_some_and(|name| name == PROJECT_FILE);
    is_settings.then(|| match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    })
}

/// Trusts the content of a directory's `logue.toml`, and describes its grants.
pub(super) fn added(trust: &TrustFile, folder: &Path, as_json: bool) -> Result<String, CliError> {
    let file = read(folder)?;
    let grants = ProjectGrants::checked(&file)?;
    let (real, lines) = (grants.folder(), grants.lines());
    let changes = changes(trust, &grants)?;
    if !grants.is_empty() {
        let added = trust.add_folder(&real, grants.content(), lines.clone(), SystemClock.now());
        added.map_err(|error| failed(trust, &error))?;
    }
    if as_json {
        let line = json!({
            "folder": path_text(&real),
            "content": grants.content(),
            "grants": lines,
            "changes": changes,
        });
        return Ok(format!("{line}\n"));
    }
    let name = single(&path_text(&real));
    if grants.is_empty() {
        return Ok(format!(
            "{name}: nothing to trust, as its {PROJECT_FILE} grants nothing\n"
        ));
    }
    Ok(format!(
        "{name} is trusted. Its {PROJECT_FILE} grants:\n{}{}",
        declarations(&lines),
        changed(changes.iter().map(ToString::to_string))
    ))
}

/// Explains why the `logue.toml` of a directory is or is not trusted.
pub(super) fn explained(
    trust: &TrustFile,
    folder: &Path,
    as_json: bool,
) -> Result<String, CliError> {
    if folder.is_dir() && !folder.join(PROJECT_FILE).exists() {
        return Ok(unconfigured(folder, as_json));
    }
    let file = read(folder)?;
    let grants = ProjectGrants::checked(&file)?;
    let (real, lines) = (grants.folder(), grants.lines());
    let reason = grants.reason()?;
    let changes = changes(trust, &grants)?;
    if as_json {
        let line = json!({
            "folder": path_text(&real),
            "trusted": reason.is_trusted(),
            "reason": code(reason),
            "content": grants.content(),
            "grants": lines,
            "changes": changes,
        });
        return Ok(format!("{line}\n"));
    }
    let name = single(&path_text(&real));
    let level = if reason.is_trusted() {
        "trusted"
    } else {
        "not trusted"
    };
    let mut text = format!("{name}: {level}: {}\n", words(reason));
    text.push_str(&declarations(&lines));
    if !reason.is_trusted() {
        text.push_str(&changed(changes.iter().map(ToString::to_string)));
        text.push_str(&format!(
            "Run `logue trust add {}` to trust it as it is now.\n",
            quote_word(&path_text(&real))
        ));
    }
    Ok(text)
}

/// Explains that a directory without a `logue.toml` grants nothing.
fn unconfigured(folder: &Path, as_json: bool) -> String {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if as_json {
        let line = json!({
            "folder": path_text(&real),
            "trusted": true,
            "reason": code(FolderReason::GrantsNothing),
            "content": null,
            "grants": [],
            "changes": [],
        });
        return format!("{line}\n");
    }
    format!(
        "{}: there is nothing here that needs trust, as it has no {PROJECT_FILE}; prompts are \
         trusted one by one\n",
        single(&path_text(&real))
    )
}

/// Formats an entry of the list.
pub(super) fn listing(one: &TrustedFolder, as_json: bool) -> String {
    if as_json {
        return format!("{}\n", json!(one));
    }
    let folder = single(&one.folder);
    let content = single(&one.content);
    format!("{folder}\n  {content}\n{}", declarations(&one.grants))
}

/// Formats a directory of `[trust] directories`.
pub(super) fn own_listing(folder: &Path, as_json: bool) -> String {
    let folder = path_text(folder);
    if as_json {
        return format!("{}\n", json!({ "own_directory": folder }));
    }
    let folder = single(&folder);
    format!("{folder}\n  each prompt below it, by `[trust] directories` of your configuration\n")
}

fn read(folder: &Path) -> Result<ConfigFile, CliError> {
    ConfigFile::read(folder.join(PROJECT_FILE))?.ok_or_else(|| {
        let folder = folder.display().to_string();
        let message = format!("{} has no {PROJECT_FILE}", escape_line(&folder));
        CliError::user("E-SOURCE-READ", message)
            .with_help("name a prompt, or a directory with a logue.toml")
    })
}

/// Returns the differences from the file that was trusted before.
fn changes(trust: &TrustFile, grants: &ProjectGrants<'_>) -> Result<Vec<GrantChange>, CliError> {
    let known = trust.known_folder(&grants.folder());
    let known = known.map_err(|error| failed(trust, &error))?;
    let changes = known.map(|known| {
        let lines = grants.lines();
        known.changes_to(PROJECT_FILE, &grants.content(), &lines)
    });
    Ok(changes.unwrap_or_default())
}

fn code(reason: FolderReason) -> &'static str {
    match reason {
        FolderReason::GrantsNothing => "grants_nothing",
        FolderReason::Everything => "everything",
        FolderReason::Listed => "added",
        FolderReason::Changed => "changed",
        FolderReason::Unknown => "unknown",
    }
}

fn words(reason: FolderReason) -> &'static str {
    match reason {
        FolderReason::GrantsNothing => "its logue.toml grants nothing",
        FolderReason::Everything => "LOGUE_TRUST=all trusts every directory",
        FolderReason::Listed => "you trusted exactly this",
        FolderReason::Changed => {
            "its logue.toml, or a directory that it names, has changed since you trusted it"
        }
        FolderReason::Unknown => "you have not trusted it",
    }
}
