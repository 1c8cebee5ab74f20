//! `logue serve`: serves agents over HTTP.

mod agents;
mod catalog;
mod first_agent;
mod gateway;
mod limits;
mod token;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use logue_harness::events::{EventLog, MemoryEventLog};
use logue_harness::{Clock as _, SystemClock};
use logue_server::{AccessTokens as _, ChatServer, ChatServerOptions};
use logue_store::SqliteEventLog;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::arguments::{ServeArgs, ServeCommand, StoreArgs};
use crate::commands::serve::agents::ServedAgents;
use crate::commands::serve::limits::limited;
use crate::exit::{CliError, Exit};
use crate::files::io_cause;
use crate::memory;
use crate::setup::settings::Settings;
use crate::setup::signals::signalled;
use crate::setup::store::{ids, open_logged, release_leases, store_failure, url};
use crate::setup::store_log::LoggedStore;
use crate::setup::token_file::TokenFile;
use crate::telemetry;
use crate::terminal::print_error;

pub(crate) fn serve(arguments: ServeArgs) -> Result<Exit, CliError> {
    if let Some(ServeCommand::Token(command)) = &arguments.command {
        return token::token(command);
    }
    let settings = Settings::load(arguments.trust.trust).inspect(telemetry::start)?;
    let model = gateway::gateway_model(&arguments)?;
    for path in arguments.paths.iter().filter(|_| model.is_none()) {
        fs::metadata(path).map_err(|error| {
            let message = format!("cannot serve `{}`: {}", path.display(), io_cause(&error));
            CliError::user("E-SOURCE-READ", message)
                .with_help("name ChatMD prompts, or directories of them")
        })?;
    }
    let tokens = TokenFile::of_user()?;
    check_address(&arguments, &tokens)?;
    let listen = arguments.listen;
    let mut options = ChatServerOptions::default()
        .with_hosts(arguments.host_names.clone())
        .with_path_prefix(arguments.path_prefix.clone())
        .with_continued_conversations(arguments.continue_conversations)
        .with_debug_view(arguments.debug_view)
        .with_give_back(memory::give_back);
    let prefix = arguments.path_prefix.clone().unwrap_or_default();
    if let Some(drain) = arguments.drain {
        options = options.with_drain(drain);
    }
    options = limited(&settings.serve, &arguments.limits, options);
    if let Some(model) = model {
        return gateway::serve_gateway(arguments, &model, &settings, tokens, options);
    }
    let opened = open_logged(&arguments.store, &settings)?;
    let log = match opened.events {
        Some(log) => log,
        None => event_log(&arguments.store, &settings)?,
    };
    let store = Arc::new(LoggedStore::new(opened.store));
    let host = Arc::new(ServedAgents::new(arguments, settings, store)?);
    run(async {
        let (listener, checked) = (bind(listen).await, host.check().await);
        let listener = match (listener, checked) {
            (Ok(listener), Ok(())) => listener,
            (listener, checked) => {
                let failures = [listener.err(), checked.err()].into_iter().flatten();
                return CliError::joined(failures.collect()).map_or(Ok(Exit::Done), Err);
            }
        };
        print_address(&listener, &prefix)?;
        let server = ChatServer::new(
            host.clone(),
            log,
            Arc::new(tokens),
            (Arc::new(SystemClock), ids()),
            options,
        );
        let mut exit = Exit::Done;
        let end = async { exit = signalled().await };
        let served = tokio::select! {
            served = server.serve(listener, end) => served,
            () = host.clone().watch() => Ok(()),
        };
        release_leases().await;
        served.map_err(|error| CliError::new(Exit::Internal, "internal", error.to_string()))?;
        Ok(exit)
    })
}

/// Runs a server on a runtime of its own.
fn run(server: impl Future<Output = Result<Exit, CliError>>) -> Result<Exit, CliError> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| CliError::new(Exit::Internal, "internal", error.to_string()))?;
    let ended = runtime.block_on(server);
    // The shutdown drops running turns, which ends their processes.
    runtime.shutdown_background();
    ended
}

/// Listens on an address.
async fn bind(listen: SocketAddr) -> Result<TcpListener, CliError> {
    let bound = TcpListener::bind(listen).await;
    bound.map_err(|error| {
        let message = format!("cannot listen on {listen}: {error}");
        CliError::user("listen_failed", message)
            .with_help("name another address: --listen 127.0.0.1:0 takes a free port")
    })
}

/// Prints the address of a server that accepts requests.
fn print_address(listener: &TcpListener, prefix: &str) -> Result<(), CliError> {
    let address = listener.local_addr();
    let address =
        address.map_err(|error| CliError::new(Exit::Internal, "internal", error.to_string()))?;
    print_error(&format!("listening on http://{address}{prefix}\n"));
    Ok(())
}

/// Refuses an address or a name of the network without a token.
///
/// A name is for clients of a proxy, whose requests come from this machine.
fn check_address(arguments: &ServeArgs, tokens: &TokenFile) -> Result<(), CliError> {
    tokens.load()?;
    let address = arguments.listen.to_string();
    let is_local = arguments.listen.ip().is_loopback();
    let reached = match arguments.host_names.first() {
        _ if !is_local => Some(&address),
        named => named,
    };
    let Some(reached) = reached.filter(|_| tokens.tokens().is_empty()) else {
        return Ok(());
    };
    let message = format!("{reached} is reached from other machines and requires a token");
    Err(CliError::new(Exit::Usage, "usage", message)
        .with_help("create one: logue serve token create NAME --scope read,send"))
}

/// Opens the log of events beside the store.
fn event_log(store: &StoreArgs, settings: &Settings) -> Result<Arc<dyn EventLog>, CliError> {
    let url = url(store, settings);
    let file = url.as_deref().and_then(|url| url.strip_prefix("sqlite:"));
    let Some(file) = file.filter(|file| !file.is_empty()) else {
        return Ok(Arc::new(MemoryEventLog::with_generation(
            SystemClock.now().0,
        )));
    };
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let log = SqliteEventLog::beside(Path::new(file), boot.trim());
    let log = log.map_err(|error| store_failure(&error))?;
    Ok(Arc::new(log))
}
