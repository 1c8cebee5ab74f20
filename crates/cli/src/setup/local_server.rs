//! Model servers of this machine, found by their ports.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use logue_model::Category;
use logue_source::quote_word;

use crate::exit::CliError;
use crate::setup::environment::variable;
use crate::setup::model::{NO_KEY, NO_MODEL};
use crate::setup::server_list::{ListedServer, listed_servers};
use crate::setup::settings::Settings;
use crate::setup::signals::runtime;

/// The default ports of Ollama, llama.cpp and vLLM.
const PORTS: &[u16] = &[11434, 8080, 8000];
/// The variable with the address of Ollama.
const OLLAMA_HOST: &str = "OLLAMA_HOST";
/// The time in which a port of this machine answers.
const WAIT: Duration = Duration::from_millis(100);

/// Returns the base URLs of this machine's ports that accept connections.
pub(crate) fn open_urls() -> Vec<String> {
    let of_variable = variable(OLLAMA_HOST).and_then(|host| local_port(&host));
    let ports = of_variable.into_iter().chain(PORTS.iter().copied());
    let open = ports.filter(|port| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        TcpStream::connect_timeout(&address, WAIT).is_ok()
    });
    let mut urls: Vec<String> = open
        .map(|port| format!("http://localhost:{port}/v1"))
        .collect();
    urls.dedup();
    urls
}

/// Returns the port of an address on this machine, such as `127.0.0.1:11434`.
fn local_port(host: &str) -> Option<u16> {
    let host = host.strip_prefix("http://").unwrap_or(host);
    let (name, port) = host.trim_end_matches('/').rsplit_once(':')?;
    let is_local = matches!(name, "" | "localhost" | "127.0.0.1" | "0.0.0.0");
    is_local.then(|| port.parse().ok()).flatten()
}

/// Explains the ways to a model in the error of a command without one.
///
/// `command` returns the command of the user with the flags that name a model.
pub(crate) fn explained(failure: CliError, command: impl Fn(&str) -> String) -> CliError {
    if failure.message != NO_MODEL && !is_without_key(&failure) {
        return failure;
    }
    let settings = Settings::inspect().unwrap_or_else(|_| Settings::without_files());
    let servers = runtime().ok().and_then(|runtime| {
        let servers = runtime.block_on(listed_servers(None, None, &settings));
        servers.ok()
    });
    let servers = servers.unwrap_or_default();
    let local = servers.iter().filter(|server| !server.is_configured);
    with_ways(failure, local, command)
}

fn is_without_key(failure: &CliError) -> bool {
    let code = Category::Authentication.as_str();
    failure.code == code && failure.message.starts_with(NO_KEY)
}

/// Adds the three ways to a model: a server of this machine, a key, and `echo:`.
pub(crate) fn with_ways<'a>(
    mut failure: CliError,
    servers: impl Iterator<Item = &'a ListedServer>,
    command: impl Fn(&str) -> String,
) -> CliError {
    let own_help = std::mem::take(&mut failure.help);
    let is_without_key = is_without_key(&failure);
    let mut found = false;
    for server in servers {
        let Ok(report) = &server.report else {
            continue;
        };
        found = true;
        let software = report.software.as_deref().unwrap_or("a model server");
        let model = report.models.first().map_or("NAME", |model| &*model.name);
        let flags = format!("-m {} --base-url {}", quote_word(model), server.url);
        failure
            .help
            .push(format!("{software} runs here: {}", command(&flags)));
    }
    failure.help.push(if found {
        "`logue doctor --fix` writes that server into your settings".to_owned()
    } else {
        let flags = "-m NAME --base-url http://localhost:11434/v1";
        format!("a local server: {} (Ollama)", command(flags))
    });
    if is_without_key {
        failure.help.extend(own_help);
    } else {
        let example = command("-m gpt-4o-mini");
        failure
            .help
            .push(format!("a key: OPENAI_API_KEY=… {example}"));
    }
    let failure = failure.with_help(format!(
        "without a model, to try it: {}",
        command("-m echo:")
    ));
    if is_without_key {
        failure
    } else {
        failure.with_help("LOGUE_MODEL or `[model] name` in logue.toml keeps the choice")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_used() {
        assert_eq!(local_port("127.0.0.1:1234"), Some(1234));
        assert_eq!(local_port("http://localhost:99/"), Some(99));
        assert_eq!(local_port("0.0.0.0:11434"), Some(11434));
        assert_eq!(local_port(":5000"), Some(5000));
        for other in [
            "example.com:80",
            "10.0.0.1:11434",
            "localhost",
            "localhost:x",
        ] {
            assert_eq!(local_port(other), None, "{other}");
        }
    }
}
