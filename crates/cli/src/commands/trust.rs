//! `logue trust`: lists, adds and removes trusted prompts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{FileLoader, PromptScope, TrustFile, Trusted};
use logue_harness::Clock as _;
use logue_tools::{Roots, ShellOptions};
use serde_json::json;

use crate::arguments::TrustCommand;
use crate::exit::{CliError, Exit};
use crate::files::folder_of;
use crate::setup::failures::source_failure;
use crate::setup::settings::Settings;
use crate::setup::trust::{failed, file, place_of, single};
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
            if listed.is_empty() {
                print_error("no prompt is trusted\n");
            }
            for one in &listed {
                text.push_str(&listing(one, arguments.json));
            }
        }
        TrustCommand::Add(arguments) => {
            // A run may name agents in the directories of the configuration.
            let roots = Settings::load()?.tools.roots;
            for path in &arguments.files {
                text.push_str(&added(&file, path, &roots, arguments.json)?);
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
        "{}\n  {}\n{}",
        one.path,
        one.grant,
        declarations(&one.declares)
    )
}

fn added(file: &TrustFile, path: &Path, roots: &[PathBuf], json: bool) -> Result<String, CliError> {
    let bytes = logue_agent::read_bytes(path).map_err(|error| source_failure(&error))?;
    let name = path.display().to_string();
    let text = logue_agent::into_text(&name, bytes).map_err(|error| source_failure(&error))?;
    let folder = folder_of(path);
    let folders = std::iter::once(folder.clone()).chain(roots.iter().cloned());
    let roots = Roots::new(folders).map_err(|error| {
        let message = format!("cannot use a directory of `{name}`: {error}");
        CliError::user("E-SOURCE-READ", message)
    })?;
    let world = FileLoader::new(Arc::new(roots), &folder).with_file(path);
    let grant = PromptScope::new(world, ShellOptions::default()).grant(&name, &text);
    let place = place_of(Some(path));
    if !grant.is_empty() {
        let added = file.add(&place, &grant, SystemClock.now());
        added.map_err(|error| failed(file, &error))?;
    }
    if json {
        let line = json!({"path": place, "grant": grant.id(), "declares": grant.lines()});
        return Ok(format!("{line}\n"));
    }
    if grant.is_empty() {
        return Ok(format!(
            "{name}: nothing to trust, as it only reads its directory\n"
        ));
    }
    let declared = declarations(&grant.lines());
    Ok(format!("{name} is trusted with:\n{declared}"))
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
    let count = file.remove(&place_of(Some(path)), &name);
    let count = count.map_err(|error| failed(file, &error))?;
    if json {
        return Ok(format!("{}\n", json!({"path": name, "removed": count})));
    }
    if count == 0 {
        return Err(
            CliError::user("prompt_not_trusted", format!("`{name}` was not trusted"))
                .with_help("run `logue trust list` to list the trusted prompts"),
        );
    }
    Ok(format!("{name} is no longer trusted\n"))
}
