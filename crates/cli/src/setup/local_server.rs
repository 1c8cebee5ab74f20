//! Model servers of this machine, found by their ports.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::exit::CliError;

/// The servers and their default ports.
const SERVERS: &[(&str, u16)] = &[("Ollama", 11434), ("llama.cpp", 8080), ("vLLM", 8000)];
/// The time in which a port of this machine answers.
const WAIT: Duration = Duration::from_millis(100);

/// Returns the servers whose ports accept connections, with their base URLs.
pub(crate) fn found() -> impl Iterator<Item = (&'static str, String)> {
    let open = SERVERS.iter().filter(|(_, port)| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        TcpStream::connect_timeout(&address, WAIT).is_ok()
    });
    open.map(|(name, port)| (*name, format!("http://localhost:{port}/v1")))
}

/// Explains the ways to a model in the error of a question without one.
pub(crate) fn explained(mut failure: CliError) -> CliError {
    if failure.code != "model_not_configured" {
        return failure;
    }
    failure.help.clear();
    let servers: Vec<String> = found()
        .map(|(name, url)| format!("{name} may run here: logue ask -m NAME --base-url {url} \"…\""))
        .collect();
    if servers.is_empty() {
        failure.help.push(
            "a local server: logue ask -m NAME --base-url http://localhost:11434/v1 \"…\" (Ollama)"
                .to_owned(),
        );
    }
    failure.help.extend(servers);
    failure
        .with_help("a key: OPENAI_API_KEY=… logue ask -m gpt-4o-mini \"…\"")
        .with_help("without a model, to try it: logue ask -m echo: \"…\"")
        .with_help("LOGUE_MODEL or `[model] name` in logue.toml keeps the choice")
}
