//! `logue mcp login`: obtains a token for a server through a browser.

use logue_source::escape_untrusted;
use logue_tools::mcp;

use crate::arguments::McpLoginArgs;
use crate::exit::{CliError, Exit};
use crate::setup::config::Config;
use crate::setup::mcp::{network, settings, tokens};
use crate::setup::signals::signalled;
use crate::setup::store::new_id;
use crate::terminal::print_error;

pub(super) fn login(arguments: &McpLoginArgs) -> Result<Exit, CliError> {
    let config = Config::load()?;
    let failed = |message: String| CliError::user("E-MCP-SERVER-FAILED", message);
    let Some(network) = network(&arguments.allow_hosts, &config)? else {
        let message = "no host is allowed".to_owned();
        return Err(CliError::user("E-NETWORK-DENIED", message)
            .with_help("give `--allow-host` for the server and for its authorization server"));
    };
    let store = tokens().ok_or_else(|| failed("no directory for tokens".to_owned()))?;
    let settings = settings(&config);
    let settings = settings.get(&arguments.url).cloned().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(Exit::Internal, "internal", error.to_string()))?;
    let ended = runtime.block_on(async {
        let secrets = || format!("{}{}", new_id(), new_id()).replace('-', "");
        let show = |url: &str| {
            print_error(&format!(
                "open this in a browser:\n{}\n",
                escape_untrusted(url)
            ));
        };
        let login = mcp::login(&network, &arguments.url, &settings, &store, secrets, show);
        tokio::select! {
            biased;
            exit = signalled() => Ok(exit),
            done = login => done.map(|()| Exit::Done),
        }
    });
    runtime.shutdown_background();
    let exit = ended.map_err(failed)?;
    if exit == Exit::Done {
        print_error("logged in\n");
    }
    Ok(exit)
}
