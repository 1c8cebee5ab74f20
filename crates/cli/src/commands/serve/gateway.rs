//! `logue serve harmony:MODEL`: serves a gpt-oss model.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use logue_harness::SystemClock;
use logue_model::ProviderAccount;
use logue_server::{ChatServerOptions, GatewayOptions, GatewayServer, UpstreamReport};
use logue_source::{escape_line, quote_word};

use crate::arguments::ServeArgs;
use crate::exit::{CliError, Exit};
use crate::setup::model::harmony_upstream;
use crate::setup::settings::Settings;
use crate::setup::signals::signalled;
use crate::setup::store::ids;
use crate::setup::token_file::TokenFile;
use crate::telemetry;

/// The beginning of the name of a model that a gateway serves.
const PREFIX: &str = "harmony:";

/// Returns the model of the gateway that the arguments name; `None` for agents.
///
/// # Errors
/// Returns an error if a gateway is named besides agents, or `--upstream` without one.
pub(super) fn gateway_model(arguments: &ServeArgs) -> Result<Option<String>, CliError> {
    let usage = |message: &str, help: &str| {
        Err(CliError::new(Exit::Usage, "usage", message).with_help(help))
    };
    let example = "logue serve harmony:gpt-oss-120b --upstream http://localhost:8000/v1";
    let models = arguments.paths.iter().filter_map(|path| model_of(path));
    let models: Vec<&str> = models.collect();
    match (models.as_slice(), arguments.paths.len()) {
        ([], _) if arguments.upstream.is_some() => usage(
            "--upstream requires a model",
            &format!("name it with its provider: {example}"),
        ),
        ([], _) => Ok(None),
        ([""], 1) => usage("`harmony:` names no model", &format!("name it: {example}")),
        ([model], 1) => Ok(Some((*model).to_owned())),
        _ => usage(
            "a gateway serves one model and no agents",
            "start one server for each model, and one for the agents",
        ),
    }
}

fn model_of(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(PREFIX)
}

/// Returns the base URL of a server.
///
/// An address without a path receives `/v1`, before its query.
fn with_version(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (location, query) = url.split_at(end);
    let location = location.trim_end_matches('/');
    let has_path = location
        .split_once("://")
        .is_none_or(|(_, rest)| rest.contains('/'));
    let version = if has_path { "" } else { "/v1" };
    format!("{location}{version}{query}")
}

/// Returns the report of failed requests.
///
/// The text of the upstream server may repeat the conversation, and is shown only at a terminal.
fn report(has_debug_view: bool) -> UpstreamReport {
    let is_whole = has_debug_view || io::stderr().is_terminal();
    Arc::new(move |error| {
        let mut line = format!("request failed: {}", error.category);
        if let Some(status) = error.status {
            line.push_str(&format!(" status={status}"));
        }
        let cause = if is_whole {
            Some(error.message.as_str())
        } else {
            error.public_message.as_deref()
        };
        if let Some(cause) = cause {
            line.push_str(&format!(" cause={}", quote_word(&escape_line(cause))));
        }
        line.push('\n');
        // The terminal may be closed.
        drop(io::stderr().write_all(line.as_bytes()));
    })
}

/// Serves a gateway until a signal.
pub(super) fn serve_gateway(
    arguments: ServeArgs,
    model: &str,
    settings: &Settings,
    tokens: TokenFile,
    listener: ChatServerOptions,
) -> Result<Exit, CliError> {
    let mut model_args = arguments.model_args;
    model_args.model = Some(format!("{PREFIX}{model}"));
    if let Some(upstream) = &arguments.upstream {
        model_args.base_url = Some(with_version(upstream));
    }
    let (provider, url) = harmony_upstream(&model_args, settings)?;
    if url.trim_end_matches('/') == ProviderAccount::OPENAI.base_url {
        return Err(
            CliError::new(Exit::Usage, "usage", "no upstream server is configured")
                .with_help("name one: --upstream http://localhost:8000/v1")
                .with_help("or set `base_url` under [model] in logue.toml"),
        );
    }
    let mut options = GatewayOptions::default()
        .with_listener(listener)
        .with_report(report(arguments.debug_view))
        .with_traces(telemetry::contexts());
    if let Some(max) = arguments.max_concurrent {
        options = options.with_max_requests(max.into());
    }
    let server = GatewayServer::new(
        provider,
        model,
        Arc::new(tokens),
        (Arc::new(SystemClock), ids()),
        options,
    );
    super::run(async {
        let prefix = arguments.path_prefix.unwrap_or_default();
        let listener = super::bind(arguments.listen).await?;
        super::print_address(&listener, &prefix)?;
        let mut exit = Exit::Done;
        let end = async { exit = signalled().await };
        let served = server.serve(listener, end).await;
        served.map_err(|error| CliError::new(Exit::Internal, "internal", error.to_string()))?;
        Ok(exit)
    })
}
