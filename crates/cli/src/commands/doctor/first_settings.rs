//! `logue doctor --fix`: writes the user's first settings.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use logue_model::ListedModel;

use crate::arguments::DoctorArgs;
use crate::commands::doctor::finding::Finding;
use crate::setup::config::user_file;
use crate::setup::default_model::{choose_model, quoted_toml};
use crate::setup::server_list::{ListedServer, listed_servers};
use crate::setup::settings::{ModelSettings, Settings};

const CHECK: &str = "fix";

/// Writes a configuration with a model, unless one is configured.
///
/// An existing file is not changed.
pub(super) async fn write(arguments: &DoctorArgs, settings: &Settings) -> Finding {
    if let Some(name) = &settings.model.name {
        return Finding::good(
            CHECK,
            format!("the model {name} is configured; nothing to write"),
        );
    }
    let Some(path) = user_file() else {
        return Finding::bad(CHECK, "no directory for your settings")
            .with_help("set HOME or XDG_CONFIG_HOME");
    };
    let (base_url, key) = (arguments.base_url.as_deref(), arguments.api_key.as_deref());
    let servers = match listed_servers(base_url, key, settings).await {
        Ok(servers) => servers,
        Err(failure) => {
            let finding = Finding::bad(CHECK, failure.message);
            return failure.help.into_iter().fold(finding, Finding::with_help);
        }
    };
    let wanted = arguments.model.as_deref();
    let found = servers.iter().find_map(|server| {
        let model = choose_model(server.report.as_ref().ok()?, wanted)?;
        Some((server, model))
    });
    let Some((server, model)) = found else {
        return nothing_found(wanted);
    };
    let text = first_settings(server, model, base_url, &settings.model);
    match create(&path, &text) {
        Ok(()) => Finding::good(
            CHECK,
            format!("wrote {}\n{}", path.display(), text.trim_end()),
        )
        .with_fact("file", path.display().to_string()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let message = format!("{} exists and is not changed", path.display());
            Finding::doubtful(CHECK, message).with_help(format!("add to it:\n{}", text.trim_end()))
        }
        Err(error) => Finding::bad(CHECK, format!("cannot write {}: {error}", path.display())),
    }
}

fn nothing_found(wanted: Option<&str>) -> Finding {
    let message = match wanted {
        Some(model) => format!("no server lists the model {model}; nothing written"),
        None => "no model server found; nothing written".to_owned(),
    };
    Finding::doubtful(CHECK, message)
        .with_help(
            "start a local server such as Ollama, or set OPENAI_API_KEY or ANTHROPIC_API_KEY",
        )
        .with_help("`logue models` lists the models of all servers")
}

/// Returns the text of the settings.
fn first_settings(
    server: &ListedServer,
    model: &ListedModel,
    base_url: Option<&str>,
    settings: &ModelSettings,
) -> String {
    let name = server.model_flag(&model.name, settings);
    let mut text = format!("[model]\nname = {}\n", quoted_toml(&name));
    if base_url.is_some() || !server.is_configured {
        text.push_str(&format!("base_url = {}\n", quoted_toml(&server.url)));
    }
    text
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
