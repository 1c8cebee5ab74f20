//! The access of MCP server programs beyond the sandbox of commands.

use std::collections::BTreeMap;

use logue_agent::Grant;
use logue_tools::ServerAccess;
use logue_tools::mcp::McpOptions;
use logue_tools::sandbox::SandboxMode;

use crate::setup::terminal_approver::line;
use crate::setup::trust::single;
use crate::terminal::print_error;

/// The access of server programs, by address.
pub(crate) type AccessByServer = BTreeMap<String, ServerAccess>;

/// Asks at the terminal for the access of server programs without settings.
///
/// Returns `None` at the end of the input.
pub(crate) async fn ask(grant: &Grant, options: &McpOptions) -> Option<AccessByServer> {
    let mut servers = AccessByServer::new();
    for server in grant.server_programs() {
        if is_decided(options, server) {
            continue;
        }
        print_error(&format!(
            "\n  │ {}\nThis server runs in the sandbox of commands: it has no network, and its HOME is \
             removed after the run.\nServers that npx or uvx start need both.\n",
            single(server)
        ));
        let access = ask_one().await?;
        if access != ServerAccess::default() {
            servers.insert(server.to_owned(), access);
        }
    }
    Some(servers)
}

async fn ask_one() -> Option<ServerAccess> {
    let neither = ServerAccess::default();
    loop {
        print_error("Give it more? [n/c/b/Enter/?] ");
        let Some(line) = line().await else {
            print_error("\n");
            return None;
        };
        return Some(match line.trim() {
            "" => neither,
            "n" => neither.with_network(true),
            "c" => neither.with_cache(true),
            "b" => neither.with_network(true).with_cache(true),
            _ => {
                print_error(
                    "  n      the network\n  \
                     c      a HOME of its own that is kept between runs, in your cache directory\n  \
                     b      both\n  \
                     Enter  neither\n",
                );
                continue;
            }
        });
    }
}

/// Returns whether the configuration decides about the access of a server.
fn is_decided(options: &McpOptions, server: &str) -> bool {
    let settings = options.servers.get(server);
    settings.is_some_and(|settings| {
        settings.sandbox == Some(SandboxMode::Off)
            || (settings.network.is_some() && settings.cache.is_some())
    })
}

/// Describes the access of one server program in plain words.
pub(crate) fn words(access: ServerAccess) -> &'static str {
    match (access.network, access.cache) {
        (true, true) => "the network, and a HOME that is kept between runs",
        (true, false) => "the network",
        (false, true) => "a HOME that is kept between runs",
        (false, false) => "nothing beyond the sandbox of commands",
    }
}

/// Lists server programs with their access.
pub(crate) fn listing(servers: &AccessByServer) -> String {
    let lines = servers.iter().map(|(server, access)| {
        let server = single(server);
        format!("  - {server} has {}\n", words(*access))
    });
    lines.collect()
}
