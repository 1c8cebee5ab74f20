//! `logue mcp login`: obtains a token for a server through a browser.

use logue_source::escape_line;
use logue_tools::mcp::{self, McpOptions};

use crate::arguments::McpLoginArgs;
use crate::exit::{CliError, Exit};
use crate::setup::network::fetcher;
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, signalled};
use crate::setup::store::new_id;
use crate::terminal::print_error;

pub(super) fn login(arguments: &McpLoginArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(false)?;
    let failed = |message: String| CliError::user("E-MCP-SERVER-FAILED", message);
    let Some(network) = fetcher(&arguments.allow_hosts, &settings)? else {
        let message = "no host is allowed".to_owned();
        return Err(CliError::user("E-NETWORK-DENIED", message)
            .with_help("give `--allow-host` for the server and for its authorization server"));
    };
    let McpOptions {
        tokens, servers, ..
    } = settings.mcp;
    let store = tokens.ok_or_else(|| failed("no directory for tokens".to_owned()))?;
    let server = servers.get(&arguments.url).cloned().unwrap_or_default();
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let secrets = || format!("{}{}", new_id(), new_id()).replace('-', "");
        let show = |url: &str| {
            print_error(&format!("open this in a browser:\n{}\n", escape_line(url)));
        };
        let login = mcp::login(&network, &arguments.url, &server, &store, secrets, show);
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
