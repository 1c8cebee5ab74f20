//! Trust in the `logue.toml` of a directory, for `logue trust`.

use std::path::{Path, PathBuf};

use logue_agent::{TrustFile, TrustedFolder};
use logue_harness::{Clock as _, SystemClock};
use serde_json::json;

use crate::exit::CliError;
use crate::setup::config::ConfigFile;
use crate::setup::config::find::PROJECT_FILE;
use crate::setup::config::project_trust::ProjectGrants;
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
    let path = folder.join(PROJECT_FILE);
    let file = ConfigFile::read(path)?.ok_or_else(|| {
        let message = format!("{} has no {PROJECT_FILE}", folder.display());
        CliError::user("E-SOURCE-READ", message)
            .with_help("name a prompt, or a directory with a logue.toml")
    })?;
    let content = ProjectGrants::checked(&file)?;
    let (real, lines) = (content.folder(), content.lines());
    let known = trust.known_folder(&real);
    let known = known.map_err(|error| failed(trust, &error))?;
    if !content.is_empty() {
        let added = trust.add_folder(&real, content.content(), lines.clone(), SystemClock.now());
        added.map_err(|error| failed(trust, &error))?;
    }
    let before = known.map_or_else(Vec::new, |known| known.grants);
    let gone: Vec<&String> = before.iter().filter(|line| !lines.contains(line)).collect();
    if as_json {
        let new: Vec<&String> = lines.iter().filter(|line| !before.contains(line)).collect();
        let line = json!({
            "folder": real,
            "content": content.content(),
            "grants": lines,
            "added": new,
            "removed": gone,
        });
        return Ok(format!("{line}\n"));
    }
    let name = single(&real.display().to_string());
    if content.is_empty() {
        return Ok(format!(
            "{name}: nothing to trust, as its {PROJECT_FILE} grants nothing\n"
        ));
    }
    let mut text = format!("{name} is trusted. Its {PROJECT_FILE} grants:\n");
    if !before.is_empty() && before != lines {
        text = format!("{name} is trusted with other grants (- before, + now):\n");
        for line in gone {
            text.push_str(&format!("  - {}\n", single(line)));
        }
        for line in &lines {
            let mark = if before.contains(line) { ' ' } else { '+' };
            text.push_str(&format!("  {mark} {}\n", single(line)));
        }
    } else {
        text.push_str(&list(&lines));
    }
    Ok(text)
}

/// Formats an entry of the list.
pub(super) fn listing(one: &TrustedFolder, as_json: bool) -> String {
    if as_json {
        return format!("{}\n", json!(one));
    }
    let folder = single(&one.folder);
    format!("{folder}\n  {}\n{}", one.content, list(&one.grants))
}

fn list(lines: &[String]) -> String {
    let lines = lines.iter().map(|line| format!("  - {}\n", single(line)));
    lines.collect()
}
