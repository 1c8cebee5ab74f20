//! Several servers on one database.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use tempfile::TempDir;
use testkit::postgres::{Database, PgBouncer, PostgresServer, PostgresSettings};
use testkit::{ModelServer, Relay, RelayFaults};

use crate::hold::HeldAnswers;
use crate::model::{self, AGENT, SCRIPT};
use crate::node::{Node, command};

/// The variable that names another program than the one that was built with the tests.
const PROGRAM: &str = "LOGUE_CLUSTER_PROGRAM";

/// The variable that names a file of SQL, which runs before the load: a changed function of the store
/// shows which facts depend on it.
const SQL: &str = "LOGUE_CLUSTER_SQL";

/// The form of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterSettings {
    /// The seed of everything that is random.
    pub seed: u64,
    /// The number of servers.
    pub nodes: usize,
    /// Whether the relays fail at random.
    pub has_faulty_relays: bool,
    /// Whether `PgBouncer` is between the relays and the database.
    pub has_pooler: bool,
    /// Whether servers receive notifications.
    pub listens: bool,
    /// A library that shifts the clock of each server.
    pub clock: Option<PathBuf>,
    /// The settings of the database.
    pub database: PostgresSettings,
    /// The URL of the store; `None`: through a relay.
    pub url: Option<String>,
}

/// Several servers on one database, which end when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// The servers. They end before the database.
    pub nodes: Vec<Node>,
    /// The relay of each server to the database.
    pub relays: Vec<Relay>,
    /// The database.
    pub database: Database,
    /// The server of the database.
    pub server: PostgresServer,
    /// The answers that wait for the test.
    pub held: HeldAnswers,
    pooler: Option<PgBouncer>,
    model: ModelServer,
    folder: TempDir,
    program: PathBuf,
}

impl Cluster {
    /// Starts a database and its servers; `None`, with a note, where PostgreSQL is not available.
    ///
    /// # Errors
    /// Returns an error if one of them does not start.
    pub fn start(settings: &ClusterSettings) -> io::Result<Option<Self>> {
        let Some(server) = PostgresServer::start_with(settings.database.clone())? else {
            return Ok(None);
        };
        Self::start_on(server, settings)
    }

    /// Starts servers on a new database of a server.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_on(
        server: PostgresServer,
        settings: &ClusterSettings,
    ) -> io::Result<Option<Self>> {
        let program = program()?;
        let pooler = if settings.has_pooler {
            match PgBouncer::start(&server, &[("max_client_conn", "200")])? {
                Some(pooler) => Some(pooler),
                None => return Ok(None),
            }
        } else {
            None
        };
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("agent.md"), AGENT)?;
        std::fs::write(folder.path().join("work.sh"), SCRIPT)?;
        let held = HeldAnswers::default();
        let mut cluster = Self {
            nodes: Vec::new(),
            relays: Vec::new(),
            database: server.database()?,
            server,
            pooler,
            model: model::start(settings.seed, held.clone())?,
            held,
            folder,
            program,
        };
        for number in 0..settings.nodes {
            cluster.add_node(settings, number)?;
        }
        if let Some(file) = std::env::var_os(SQL) {
            cluster.database.query(&std::fs::read_to_string(file)?)?;
        }
        Ok(Some(cluster))
    }

    /// Adds a server with a relay of its own.
    fn add_node(&mut self, settings: &ClusterSettings, number: usize) -> io::Result<()> {
        let seed = settings.seed.wrapping_mul(31).wrapping_add(number as u64);
        let faults = RelayFaults::new(seed)
            .with_delays(20, Duration::from_millis(30))
            .with_cuts(800)
            .with_silence(20_000);
        let faults = settings.has_faulty_relays.then_some(faults);
        let relay = match &self.pooler {
            Some(pooler) => pooler.relay(faults)?,
            None => self.server.relay(faults)?,
        };
        let through = self.database.url_through(&relay);
        let url = settings.url.as_ref().unwrap_or(&through);
        let mut arguments: Vec<OsString> = ["agent.md", "--permission", "work=ask", "--store", url]
            .into_iter()
            .map(OsString::from)
            .collect();
        if settings.listens {
            // A pooler passes no notifications on.
            let listen = match (&self.pooler, &settings.url) {
                (Some(_), _) => self.database.url(),
                (None, Some(url)) => url.clone(),
                (None, None) => through.clone(),
            };
            arguments.extend(["--store-listen".into(), listen.into()]);
        }
        let mut environment: Vec<(String, OsString)> =
            vec![("OPENAI_BASE_URL".to_owned(), self.model.base_url().into())];
        if let Some(library) = &settings.clock {
            let shift = [0, 57, -58, 23][number % 4];
            environment.push(("LD_PRELOAD".to_owned(), library.into()));
            environment.push(("FAKETIME".to_owned(), format!("{shift:+}s").into()));
            let monotonic = "FAKETIME_DONT_FAKE_MONOTONIC";
            environment.push((monotonic.to_owned(), "1".into()));
        }
        let name = format!("node{number}");
        let place = (self.program.as_path(), self.folder.path());
        let node = Node::start(&name, place, arguments, environment)?;
        self.relays.push(relay);
        self.nodes.push(node);
        Ok(())
    }

    /// Returns the addresses of the servers.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes
            .iter()
            .map(|node| node.address().to_owned())
            .collect()
    }

    /// Returns the folder of the prompt, the logs and the effects.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the program with the store of the cluster.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn run(&self, arguments: &[&str]) -> io::Result<Output> {
        let url = self.database.url();
        command(&self.program, self.folder.path())
            .args(arguments)
            .args(["--store", &url])
            .output()
    }
}

/// Returns the program: that of the variable, or the one beside the tests.
fn program() -> io::Result<PathBuf> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    let own = std::env::current_exe()?;
    let mut beside = own
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("logue"));
    beside.find(|program| program.is_file()).ok_or_else(|| {
        let own = own.display();
        io::Error::other(format!(
            "`logue` is not beside {own}; run `cargo build -p logue-cli`"
        ))
    })
}
