//! `logue mcp serve`: serves prompts to other programs.
//!
//! In line mode, standard output carries protocol messages only. Messages for users go to standard
//! error.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logue_agent::{
    Approvals, Environment, HostError, NoListener, NoPrepareObserver, PermissionRule, Permissions,
    Refinement,
};
use logue_server::{BearerToken, HttpOptions, PromptHost, PromptServer, ServeOptions};
use logue_source::escape_line;
use logue_tools::private_folder;
use tokio::net::TcpListener;

use crate::arguments::{McpServeArgs, ModelArgs, TrustArgs};
use crate::exit::{CliError, Exit};
use crate::files::io_cause;
use crate::setup::environment::state_folder;
use crate::setup::output::Output;
use crate::setup::permissions::audit_of;
use crate::setup::prompt_files::prompt_files;
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, signalled};
use crate::setup::store::new_id;
use crate::setup::turn_environment::TurnCommand;
use crate::telemetry;
use crate::terminal::print_error;

/// The interval between two searches of the directories.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn serve(arguments: &McpServeArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(arguments.trust)?;
    telemetry::start(&settings);
    for path in &arguments.paths {
        fs::metadata(path).map_err(|error| {
            let message = format!("cannot serve `{}`: {}", path.display(), io_cause(&error));
            CliError::user("E-SOURCE-READ", message)
                .with_help("name ChatMD prompts, or directories of them")
        })?;
    }
    let mut options = ServeOptions::default();
    if let Some(concurrency) = arguments.concurrency {
        options = options.with_concurrency(concurrency.into());
    }
    let host = Arc::new(Files {
        paths: arguments.paths.clone(),
        model_args: arguments.model_args.clone(),
        permissions: arguments.permissions.clone(),
        trust: TrustArgs {
            trust: arguments.trust,
            approval_timeout: None,
        },
        settings: settings.clone(),
    });
    let runtime = runtime()?;
    let server = PromptServer::new(host, &options);
    let ended = runtime.block_on(async {
        let serving = async {
            match arguments.http {
                Some(port) => {
                    let token = arguments.token.clone().or(settings.serve_token);
                    over_http(&server, port, arguments, token).await
                }
                None => over_lines(&server).await,
            }
        };
        tokio::select! {
            biased;
            exit = signalled() => Ok(exit),
            () = server.watch(INTERVAL) => Ok(Exit::Internal),
            served = serving => served.map(|()| Exit::Done),
        }
    });
    // The shutdown drops running calls, which ends their processes. It does not wait for the thread
    // that reads standard input.
    runtime.shutdown_background();
    ended
}

async fn over_lines(server: &PromptServer) -> Result<(), CliError> {
    let served = server.serve_lines(tokio::io::stdin(), tokio::io::stdout());
    Box::pin(served).await.map_err(|error| {
        CliError::user(
            "E-MCP-SERVER-FAILED",
            format!("the connection to the client failed: {error}"),
        )
        .with_help("start this command from an MCP client, or use --http for several clients")
    })
}

async fn over_http(
    server: &PromptServer,
    port: u16,
    arguments: &McpServeArgs,
    given: Option<String>,
) -> Result<(), CliError> {
    if arguments.bind.is_some_and(|address| !address.is_loopback()) && given.is_none() {
        let message = "--bind exposes the prompts to the network and requires a token";
        return Err(CliError::new(Exit::Usage, "usage", message)
            .with_help("set LOGUE_MCP_TOKEN, or give --token"));
    }
    let bind = arguments.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let made = given.is_none();
    let word = given.unwrap_or_else(|| format!("{}{}", new_id(), new_id()).replace('-', ""));
    let token = BearerToken::new(&word).map_err(|error| {
        CliError::new(Exit::Usage, "usage", error.to_owned())
            .with_help("create one with `openssl rand -hex 32`, or omit --token for a random one")
    })?;
    let listener = TcpListener::bind(SocketAddr::new(bind, port))
        .await
        .and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = listener.map_err(|error| {
        CliError::user(
            "E-MCP-SERVER-FAILED",
            format!("cannot listen on {bind}:{port}: {error}"),
        )
        .with_help("name another port, or 0 for a free one")
    })?;
    let mut kept = None;
    print_error(&format!("serving http://{address}/mcp\n"));
    if made {
        print_error(&format!("token: {word}\n"));
        let file =
            state_folder().map(|folder| folder.join(format!("mcp-token-{}", address.port())));
        match file.map(|file| keep(&file, &word).map(|()| file)) {
            Some(Ok(file)) => {
                print_error(&format!(
                    "token file: {}\n",
                    escape_line(&file.display().to_string())
                ));
                kept = Some(Kept(file));
            }
            Some(Err(error)) => {
                print_error(&format!("warning: cannot write the token file: {error}\n"));
            }
            None => {}
        }
    }
    let hosts = match arguments.bind {
        // The public host names of a non-loopback address are unknown here.
        Some(bind) if !bind.is_loopback() => vec![bind.to_string()],
        _ => Vec::new(),
    };
    let options = HttpOptions::new(token).with_hosts(hosts);
    let served = server
        .serve_http(listener, options, std::future::pending())
        .await;
    drop(kept);
    served.map_err(|error| CliError::new(Exit::Internal, "internal", error.to_string()))
}

/// A token file that is removed when the server stops.
struct Kept(PathBuf);

impl Drop for Kept {
    fn drop(&mut self) {
        // The file may already have been removed.
        drop(fs::remove_file(&self.0));
    }
}

/// Writes a secret to a file that only its owner can read.
fn keep(file: &Path, secret: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        private_folder(folder)?;
    }
    // An older file may have other permissions.
    drop(fs::remove_file(file));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(file)?.write_all(secret.as_bytes())
}

/// The files of the command line, with the effective settings of their prompts.
struct Files {
    paths: Vec<PathBuf>,
    model_args: ModelArgs,
    permissions: Vec<PermissionRule>,
    trust: TrustArgs,
    settings: Settings,
}

impl Files {
    /// Builds the environment of one call.
    ///
    /// The environment neither asks for approval nor prints, as standard output is reserved for the
    /// protocol.
    fn build(&self, file: &Path) -> Result<Environment, CliError> {
        let output = Arc::new(Output::new(true));
        // Several prompts share the rules, and each has tools of its own.
        let is_single = self.paths.len() == 1 && !self.paths.iter().any(|path| path.is_dir());
        let command = TurnCommand {
            settings: &self.settings,
            model_args: &self.model_args,
            trust: &self.trust,
            output: &output,
            approvals: Approvals::Never,
            rules: if is_single { &self.permissions } else { &[] },
        };
        let flags = self.permissions.iter().cloned();
        let flags = flags.fold(Permissions::new(), Permissions::with);
        let mut environment = command.environment(flags, audit_of(file, false, &self.settings))?;
        environment.refinement = Refinement::Never;
        environment.listener = Arc::new(NoListener);
        environment.progress = Arc::new(NoPrepareObserver);
        Ok(environment)
    }
}

impl PromptHost for Files {
    fn files(&self) -> Vec<PathBuf> {
        prompt_files(&self.paths)
    }

    fn environment(&self, file: &Path) -> Result<Environment, HostError> {
        Ok(self.build(file)?)
    }
}
