//! `logue trust explain`: why a prompt is or is not trusted.

use std::collections::BTreeMap;
use std::path::Path;

use logue_agent::{TrustFile, Trusted, path_text};
use serde_json::json;

use super::{changed, declarations, files_of};
use crate::exit::CliError;
use crate::setup::server_access::listing;
use crate::setup::settings::Settings;
use crate::setup::trust::{TrustReason, grant_of, place_of, single, uncovered};
use crate::setup::trust_changes::{self, TrustChange};
use crate::setup::trust_file::failed;

/// Explains the trust level of a prompt, with the state of each covered file.
pub(super) fn explained(
    file: &TrustFile,
    path: &Path,
    settings: &Settings,
    json: bool,
) -> Result<String, CliError> {
    let grant = grant_of(path, settings)?;
    let place = place_of(Some(path));
    let reason = TrustReason::find(&settings.trust, Some(file), &place, &grant)?;
    let known = file.known(&place).map_err(|error| failed(file, &error))?;
    let changes = known.as_ref();
    let changes = changes.map(|known| trust_changes::since(file, known, &grant));
    let changes = changes.unwrap_or_default();
    let states = states(&files_of(&grant), known.as_ref());
    let trusted = reason.is_trusted();
    if json {
        let files: Vec<_> = states
            .iter()
            .map(|(path, (content, state))| json!({"path": path, "content": content, "state": state}))
            .collect();
        let line = json!({
            "path": path_text(&place),
            "trusted": trusted,
            "reason": code(&reason),
            "grant": grant.id(),
            "declares": grant.lines(),
            "files": files,
            "changes": changes.iter().map(TrustChange::to_json).collect::<Vec<_>>(),
            "servers": reason.servers(),
        });
        return Ok(format!("{line}\n"));
    }
    let name = single(&path.display().to_string());
    let level = if trusted { "trusted" } else { "not trusted" };
    let mut text = format!("{name}: {level}: {}\n", words(&reason));
    text.push_str(&declarations(&grant.lines()));
    if !states.is_empty() {
        text.push_str("Covered files, without what they load in turn:\n");
    }
    for (name, (content, state)) in &states {
        text.push_str(&format!("  - {}  {state}  {content}\n", single(name)));
    }
    text.push_str(&uncovered(&grant));
    text.push_str(&listing(&reason.servers()));
    if !trusted {
        text.push_str(&changed(changes.iter().flat_map(TrustChange::lines)));
        text.push_str(&format!(
            "Run `logue trust add {name}` to trust it as it is now.\n"
        ));
    }
    Ok(text)
}

/// Returns each covered file with its content and its state since the prompt was trusted.
fn states(
    files: &BTreeMap<String, String>,
    known: Option<&Trusted>,
) -> BTreeMap<String, (String, &'static str)> {
    let mut states = BTreeMap::new();
    for (name, content) in files {
        let state = match known.map(|known| known.files.get(name)) {
            None => "not recorded",
            Some(None) => "added",
            Some(Some(before)) if before == content => "unchanged",
            Some(Some(_)) => "changed",
        };
        states.insert(name.clone(), (content.clone(), state));
    }
    for (name, before) in known.into_iter().flat_map(|known| &known.files) {
        let gone = || (before.clone(), "removed");
        states.entry(name.clone()).or_insert_with(gone);
    }
    states
}

fn code(reason: &TrustReason) -> &'static str {
    match reason {
        TrustReason::Harmless => "only_reads",
        TrustReason::Everything => "everything",
        TrustReason::OwnDirectory => "own_directory",
        TrustReason::Listed(_) => "added",
        TrustReason::NotCoverable(_) => "not_coverable",
        TrustReason::Changed => "changed",
        TrustReason::Unknown => "unknown",
    }
}

fn words(reason: &TrustReason) -> String {
    match reason {
        TrustReason::Harmless => "it only reads its directory".to_owned(),
        TrustReason::Everything => "LOGUE_TRUST=all trusts every prompt".to_owned(),
        TrustReason::OwnDirectory => {
            "it is in a directory of `[trust] directories` of your configuration".to_owned()
        }
        TrustReason::Listed(_) => "you trusted exactly this".to_owned(),
        TrustReason::NotCoverable(reason) => {
            format!("a file that it names cannot be covered: {}", single(reason))
        }
        TrustReason::Changed => "it has changed since you trusted it".to_owned(),
        TrustReason::Unknown => "you have not trusted it".to_owned(),
    }
}
