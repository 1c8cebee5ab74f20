//! `logue init`: a first prompt with settings, or an example, in a directory.

mod content;
mod new_files;

use std::path::{Path, PathBuf};

use logue_source::{escape_untrusted, quote_word};
use serde_json::json;

use crate::arguments::InitArgs;
use crate::commands::init::new_files::NewFiles;
use crate::exit::{CliError, Exit};
use crate::setup::default_model::{DefaultModel, default_model};
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal};
use crate::setup::templates::{TEMPLATES, Template};
use crate::terminal::{ignore_broken_pipe, print};

/// The question of the first command.
const QUESTION: &str = "\"What is in this directory?\"";
/// The CI file, below the top of a repository.
const WORKFLOW: &str = ".github/workflows/prompts.yml";

pub(crate) fn init(arguments: &InitArgs) -> Result<Exit, CliError> {
    let template = arguments.template.as_deref();
    let template = template.and_then(|name| TEMPLATES.iter().find(|one| one.name == name));
    let mut files = NewFiles::new(&arguments.folder);
    match template {
        Some(template) => {
            for (name, text) in template.files {
                files.add(name, *text);
            }
        }
        None => files.add("prompt.md", content::FIRST_PROMPT),
    }
    files.add("logue.toml", "");
    files.add(".gitattributes", content::GIT_ATTRIBUTES);
    let top = repository_of(&arguments.folder);
    let folder = top.as_ref().and_then(|(_, below)| below.as_deref());
    let workflow = content::workflow(folder);
    match &top {
        Some((top, Some(_))) => files.add_at(top.join(WORKFLOW), workflow),
        _ => files.add(WORKFLOW, workflow),
    }
    // The servers are asked only if the files can be written.
    if !arguments.force {
        files.refuse_existing()?;
    }
    let runtime = runtime()?;
    let settings = match Settings::inspect() {
        Ok(settings) => settings,
        // The invalid file may be the one to replace.
        Err(_) if arguments.force => Settings::without_files(),
        Err(failure) => return Err(failure),
    };
    let found = runtime.block_on(until_signal(default_model(&settings)));
    runtime.shutdown_background();
    let model = match found {
        Ok(model) => model?,
        Err(exit) => return Ok(exit),
    };
    files.add("logue.toml", content::settings(&model));
    files.write(arguments.force)?;
    report(arguments, &files, &model, template)
}

/// Returns the top of the repository of a directory.
///
/// The second part is the path from there to the directory, or `None` if it is the top.
fn repository_of(folder: &Path) -> Option<(PathBuf, Option<String>)> {
    let folder = std::path::absolute(folder).ok()?;
    // The directory may not exist yet.
    let existing = folder.ancestors().find(|one| one.is_dir())?;
    let rest = folder.strip_prefix(existing).ok()?;
    let folder: PathBuf = existing
        .canonicalize()
        .ok()?
        .join(rest)
        .components()
        .collect();
    let top = folder.ancestors().find(|one| one.join(".git").exists())?;
    let below = folder.strip_prefix(top).ok()?;
    let below = (!below.as_os_str().is_empty()).then(|| below.to_string_lossy().into_owned());
    Some((top.to_owned(), below))
}

/// Returns the commands that come next, in a shell in the current directory.
fn next(arguments: &InitArgs, model: &DefaultModel, template: Option<&Template>) -> Vec<String> {
    let mut commands = Vec::new();
    if arguments.folder != Path::new(".") {
        let folder = arguments.folder.display().to_string();
        commands.push(format!("cd {}", quote_word(&folder)));
    }
    if model.needs_trust() {
        commands.push("logue trust add .".to_owned());
    }
    if let Some(template) = template {
        commands.extend(template.commands.iter().map(|one| (*one).to_owned()));
    } else {
        let flags = if model.name().is_none() {
            "-m echo: "
        } else {
            ""
        };
        commands.push(format!("logue run {flags}prompt.md {QUESTION}"));
    }
    commands
}

fn report(
    arguments: &InitArgs,
    files: &NewFiles,
    model: &DefaultModel,
    template: Option<&Template>,
) -> Result<Exit, CliError> {
    let next = next(arguments, model, template);
    let names: Vec<String> = files.names().collect();
    if arguments.json {
        let value = json!({
            "files": names,
            "model": model.name(),
            "base_url": model.base_url(),
            "template": arguments.template,
            "next": next,
        });
        return ignore_broken_pipe(print(&format!("{value}\n")));
    }
    let mut text = String::new();
    for name in names {
        text.push_str(&format!("wrote {}\n", escape_untrusted(&name)));
    }
    let model = match model {
        DefaultModel::Found { name, base_url } => match base_url {
            Some(url) => format!("model: {name} at {url}"),
            None => format!("model: {name}"),
        },
        DefaultModel::OfUser(name) => format!("model: {name}, of your own settings"),
        DefaultModel::Missing => {
            "model: none; no server answered. Start one such as Ollama, or set OPENAI_API_KEY or \
             ANTHROPIC_API_KEY, and name a model in logue.toml"
                .to_owned()
        }
    };
    text.push_str(&format!("{}\nnext:\n", escape_untrusted(&model)));
    for command in next {
        text.push_str(&format!("  {}\n", escape_untrusted(&command)));
    }
    ignore_broken_pipe(print(&text))
}
