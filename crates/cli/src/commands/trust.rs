//! `logue trust`: lists, adds, removes and explains trusted prompts and directories.

mod explain;
mod folder;

use std::collections::BTreeMap;
use std::path::Path;

use logue_agent::{Grant, TrustFile, Trusted, path_text};
use logue_harness::Clock as _;
use logue_source::escape_line;
use serde_json::json;

use crate::arguments::{TrustAddArgs, TrustCommand};
use crate::conversion::form::Form;
use crate::exit::{CliError, Exit};
use crate::setup::server_access::{self, AccessByServer};
use crate::setup::settings::Settings;
use crate::setup::trust::{grant_of, place_of, single, uncovered};
use crate::setup::trust_changes::{self, TrustChange};
use crate::setup::trust_file::{failed, file};
use crate::terminal::{ignore_broken_pipe, print, print_error};
use logue_harness::SystemClock;

pub(crate) fn trust(command: &TrustCommand) -> Result<Exit, CliError> {
    let file = file().ok_or_else(|| {
        let message = "no directory for the list of trusted prompts";
        CliError::user("trust_unavailable", message).with_help("set HOME or XDG_DATA_HOME")
    })?;
    let mut text = String::new();
    match command {
        TrustCommand::List(arguments) => {
            let listed = file.list().map_err(|error| failed(&file, &error))?;
            let folders = file.folders().map_err(|error| failed(&file, &error))?;
            // The list is shown although a project's file is invalid.
            let settings = Settings::inspect().map(|settings| settings.trust);
            let everything = settings.as_ref().is_ok_and(|trust| trust.everything);
            let own = match settings {
                Ok(trust) => trust.directories,
                Err(error) => {
                    let message = escape_line(&error.message);
                    print_error(&format!(
                        "warning: `directories` of [trust] are not listed: {message}\n"
                    ));
                    Vec::new()
                }
            };
            if everything {
                print_error("LOGUE_TRUST=all trusts every prompt and every directory\n");
            } else if listed.is_empty() && folders.is_empty() && own.is_empty() {
                print_error("no prompt and no directory is trusted\n");
            }
            for one in &listed {
                text.push_str(&listing(one, arguments.json));
            }
            for one in &folders {
                text.push_str(&folder::listing(one, arguments.json));
            }
            for one in &own {
                text.push_str(&folder::own_listing(one, arguments.json));
            }
        }
        TrustCommand::Add(arguments) => {
            for path in &arguments.files {
                let line = match folder::folder_of_settings(path) {
                    Some(folder) => folder::added(&file, &folder, arguments.json),
                    None => added(&file, path, &Settings::inspect()?, arguments),
                };
                // What is trusted is shown even if a later path fails.
                ignore_broken_pipe(print(&line?))?;
            }
        }
        TrustCommand::Explain(arguments) => {
            for path in &arguments.files {
                let line = if let Some(folder) = folder::folder_of_settings(path) {
                    folder::explained(&file, &folder, arguments.json)
                } else {
                    let settings = Settings::inspect()?;
                    explain::explained(&file, path, &settings, arguments.json)
                };
                text.push_str(&line?);
            }
        }
        TrustCommand::Remove(arguments) => {
            for path in &arguments.files {
                text.push_str(&removed(&file, path, arguments.json)?);
            }
        }
    }
    ignore_broken_pipe(print(&text))
}

fn listing(one: &Trusted, json: bool) -> String {
    if json {
        return format!("{}\n", json!(one));
    }
    format!(
        "{}\n  {}\n{}{}",
        single(&one.path),
        single(&one.grant),
        declarations(&one.declares),
        server_access::listing(&one.servers)
    )
}

fn added(
    file: &TrustFile,
    path: &Path,
    settings: &Settings,
    arguments: &TrustAddArgs,
) -> Result<String, CliError> {
    let name = path.display().to_string();
    let grant = grant_of(path, settings)?;
    if let Some(reason) = grant.not_coverable().filter(|_| !grant.is_empty()) {
        let message =
            format!("`{name}` cannot be trusted, because of a file that it names: {reason}");
        return Err(CliError::user("trust_not_coverable", message)
            .with_help("use --trust for one command, or a rule of --permission"));
    }
    let place = place_of(Some(path));
    let known = file.known(&place).map_err(|error| failed(file, &error))?;
    let changes = known.map(|known| trust_changes::since(file, &known, &grant));
    let changes = changes.unwrap_or_default();
    let programs = grant.server_programs().into_iter();
    let servers: AccessByServer = programs
        .map(|server| (server.to_owned(), arguments.servers.access()))
        .collect();
    if !grant.is_empty() {
        let now = SystemClock.now();
        file.add_with_servers(&place, &grant, servers.clone(), now)
            .map_err(|error| failed(file, &error))?;
    }
    if arguments.json {
        let line = json!({
            "path": path_text(&place),
            "grant": grant.id(),
            "declares": grant.lines(),
            "files": files_of(&grant),
            "changes": changes.iter().map(TrustChange::to_json).collect::<Vec<_>>(),
            "servers": servers,
        });
        return Ok(format!("{line}\n"));
    }
    let shown = single(&name);
    if grant.is_empty() {
        let reason = if is_prompt(path) {
            "nothing to trust, as it only reads its directory"
        } else {
            "nothing to trust, as it is not a prompt: name a ChatMD file whose tools run it, which \
             covers its content, or a directory with a logue.toml"
        };
        return Ok(format!("{shown}: {reason}\n"));
    }
    let mut text = format!("{shown} is trusted with:\n{}", declarations(&grant.lines()));
    let files = files_of(&grant);
    if !files.is_empty() {
        text.push_str("and the content of these files, not what they load in turn:\n");
        for (name, content) in &files {
            text.push_str(&format!("  - {}  {content}\n", single(name)));
        }
    }
    text.push_str(&uncovered(&grant));
    if !servers.is_empty() {
        text.push_str("Servers that are programs:\n");
        text.push_str(&server_access::listing(&servers));
    }
    text.push_str(&changed(changes.iter().flat_map(TrustChange::lines)));
    Ok(text)
}

/// Returns whether a file is a conversation in any language.
fn is_prompt(path: &Path) -> bool {
    let bytes = logue_agent::read_bytes(path).unwrap_or_default();
    bytes.trim_ascii().is_empty() || Form::detect(Some(path), &bytes).is_some()
}

/// Returns the covered files of a grant with their hashes.
fn files_of(grant: &Grant) -> BTreeMap<String, String> {
    let files = grant.files().into_iter();
    files
        .map(|file| (file.name, file.content.label()))
        .collect()
}

/// Formats the differences from the grant that was trusted before.
fn changed(lines: impl Iterator<Item = String>) -> String {
    let lines = lines.map(|line| format!("  {}\n", single(&line)));
    let lines: String = lines.collect();
    if lines.is_empty() {
        return lines;
    }
    format!("Changed since it was trusted (- before, + now):\n{lines}")
}

/// Formats the declarations of a prompt as a list.
fn declarations(lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&format!("  - {}\n", single(line)));
    }
    text
}

fn removed(file: &TrustFile, path: &Path, json: bool) -> Result<String, CliError> {
    let name = path.display().to_string();
    let folder = folder::folder_of_settings(path);
    let folder = place_of(Some(folder.as_deref().unwrap_or(path)));
    let prompts = file.remove(&place_of(Some(path)), &name);
    let count = prompts
        .and_then(|prompts| Ok(prompts + file.remove_folder(&folder, &name)?))
        .map_err(|error| failed(file, &error))?;
    if json {
        return Ok(format!("{}\n", json!({"path": name, "removed": count})));
    }
    if count == 0 {
        return Err(
            CliError::user("prompt_not_trusted", format!("`{name}` was not trusted"))
                .with_help("run `logue trust list` to list the trusted prompts and directories"),
        );
    }
    Ok(format!("{} is no longer trusted\n", single(&name)))
}
