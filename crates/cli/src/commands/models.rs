//! `logue models`: lists the models of servers, and aliases.

use logue_source::escape_line;
use serde_json::{Value, json};

use crate::arguments::ModelsArgs;
use crate::exit::{CliError, Exit};
use crate::setup::local_server::with_ways;
use crate::setup::model::provider_failure;
use crate::setup::server_list::{ListedServer, listed_servers};
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal};
use crate::table::{Align, table};
use crate::terminal::{ignore_broken_pipe, output_style, print, print_styled, report};

pub(crate) fn models(arguments: &ModelsArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(false)?;
    let runtime = runtime()?;
    let asked = listed_servers(
        arguments.base_url.as_deref(),
        arguments.api_key.as_deref(),
        &settings,
    );
    let servers = match runtime.block_on(until_signal(asked)) {
        Ok(servers) => servers?,
        Err(exit) => return Ok(exit),
    };
    let aliases = &settings.model.aliases;
    if servers.is_empty() && aliases.is_empty() {
        let failure = CliError::user("model_not_configured", "no model server is configured");
        let command = |flags: &str| format!("logue ask {flags} \"…\"");
        return Err(with_ways(failure, servers.iter(), command));
    }
    let is_wanted = |name: &str| {
        let words = &mut arguments.words.iter();
        words.all(|word| name.to_lowercase().contains(&word.to_lowercase()))
    };
    let aliases = aliases
        .iter()
        .filter(|(alias, model)| is_wanted(alias) || is_wanted(model));
    let aliases: Vec<(&String, &String)> = aliases.collect();
    let rows = |server: &ListedServer| {
        let models = server.report.as_ref().ok().into_iter();
        let models = models.flat_map(|report| &report.models);
        let rows = models.map(|model| {
            let flag = server.model_flag(&model.name, &settings.model);
            (flag, model.context_tokens)
        });
        rows.filter(|(flag, _)| is_wanted(flag)).collect::<Vec<_>>()
    };
    let written = if arguments.json {
        let servers: Vec<Value> = servers
            .iter()
            .map(|server| as_json(server, &rows(server)))
            .collect();
        let aliases: serde_json::Map<String, Value> = aliases
            .into_iter()
            .map(|(alias, model)| (alias.clone(), json!(model)))
            .collect();
        print(&format!(
            "{}\n",
            json!({"aliases": aliases, "servers": servers})
        ))
    } else {
        let style = output_style();
        let mut text = String::new();
        if !aliases.is_empty() {
            let rows: Vec<[String; 2]> = aliases
                .into_iter()
                .map(|(alias, model)| [shown(alias), shown(model)])
                .collect();
            let columns = [("ALIAS", Align::Left), ("MODEL", Align::Left)];
            text.push_str(&table(columns, &rows, style));
        }
        let rows: Vec<[String; 3]> = servers
            .iter()
            .flat_map(|server| {
                let rows = rows(server).into_iter();
                rows.map(|(flag, context)| {
                    let context = context.map_or_else(|| "-".to_owned(), |size| size.to_string());
                    [shown(&flag), context, shown(&server.url)]
                })
            })
            .collect();
        if !rows.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            let columns = [
                ("MODEL", Align::Left),
                ("CONTEXT", Align::Right),
                ("SERVER", Align::Left),
            ];
            text.push_str(&table(columns, &rows, style));
        }
        print_styled(&text, style)
    };
    ignore_broken_pipe(written)?;
    ended(&servers)
}

/// Reports the servers without a list; the command fails if no server has one.
fn ended(servers: &[ListedServer]) -> Result<Exit, CliError> {
    let failed = servers
        .iter()
        .filter_map(|server| server.report.as_ref().err());
    let mut failed = failed.map(provider_failure).peekable();
    let has_list = servers.iter().any(|server| server.report.is_ok());
    if !has_list && let Some(failure) = failed.next() {
        failed.for_each(|failure| report(&failure));
        return Err(failure);
    }
    failed.for_each(|failure| report(&failure));
    Ok(Exit::Done)
}

fn as_json(server: &ListedServer, rows: &[(String, Option<u64>)]) -> Value {
    let models: Vec<Value> = rows
        .iter()
        .map(|(name, context)| json!({"model": name, "context_tokens": context}))
        .collect();
    let (software, error) = match &server.report {
        Ok(report) => (report.software.clone(), None),
        Err(error) => (
            None,
            Some(json!({"code": error.category.as_str(), "message": error.message})),
        ),
    };
    json!({
        "url": server.url,
        "configured": server.is_configured,
        "software": software,
        "models": models,
        "error": error,
    })
}

/// Returns a text from a server on one line without control characters.
fn shown(text: &str) -> String {
    escape_line(text).into_owned()
}
