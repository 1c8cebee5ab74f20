//! Appends a second, beside a bare statement that `pgbench` runs on the same server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logue_harness::store::{Commit, LeaseResult, SharedStore};
use logue_harness::{Clock as _, SystemClock};
use logue_message::ChatMessage;
use logue_store::open_store;
use serde_json::{Map, Value, json};
use testkit::postgres::Database;

use crate::harness::Failed;

/// The seconds of each measurement.
const SECONDS: u64 = 5;
/// The longest lease of an appending client.
const LEASE: Duration = Duration::from_secs(600);

/// The bare append: a counter, and a row with a text. Each client has its own session, as in the store.
const SCHEMA: &str = "create table bare_session (id int primary key, seq bigint not null) with (fillfactor = 60);
    create table bare_event (session int, seq bigint, body text not null, primary key (session, seq));
    insert into bare_session select number, 0 from generate_series(0, 63) as number";

/// A series of appends by the store, which prints their number.
pub(super) async fn play(
    store: &str,
    nodes: usize,
    clients: usize,
    text: &str,
) -> Result<(), Failed> {
    let stores: Vec<SharedStore> = (0..nodes)
        .map(|_| open_store(store))
        .collect::<Result<_, _>>()?;
    let body = ChatMessage::assistant(text).to_json();
    let mut prepared = Vec::new();
    for client in 0..clients {
        let store = Arc::clone(stores.get(client % nodes).ok_or("no store")?);
        prepared.push((client, Series::begin(store, client, &body).await?));
    }
    let begun = Instant::now();
    let end = begun + Duration::from_secs(SECONDS);
    let tasks = prepared.into_iter().map(|(_, mut series)| {
        tokio::spawn(async move {
            while Instant::now() < end {
                series.append().await?;
            }
            Ok::<u64, String>(series.length)
        })
    });
    let mut appends = 0;
    for task in tasks.collect::<Vec<_>>() {
        appends += task.await??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{}", json!({ "appends": appends, "seconds": seconds }));
    Ok(())
}

/// The appends of one client to the history of its session.
struct Series {
    store: SharedStore,
    lease: logue_harness::store::Lease,
    body: Value,
    length: u64,
}

impl Series {
    async fn begin(store: SharedStore, client: usize, body: &Value) -> Result<Self, Failed> {
        let (session, now) = (format!("append-{client}"), SystemClock.now());
        store
            .set_label(&session, "of", "a bench".into(), now)
            .await?;
        match store.acquire(&session, "bench", now, LEASE).await? {
            LeaseResult::Lease(lease) => Ok(Self {
                store,
                lease,
                body: body.clone(),
                length: 0,
            }),
            other => Err(format!("{other:?}").into()),
        }
    }

    /// Appends a message if the history has the expected length and the lease is the latest.
    async fn append(&mut self) -> Result<(), String> {
        let commit = Commit {
            invocation_id: "bench".to_owned(),
            expected_seq: self.length,
            messages: vec![self.body.clone()],
            fields: Map::new(),
            schema_version: None,
            settle: None,
            now: SystemClock.now(),
        };
        let commit = self.store.commit(&self.lease, commit);
        commit.await.map_err(|error| error.to_string())?;
        self.length += 1;
        Ok(())
    }
}

/// The bare statement in a database.
pub(super) struct Bare {
    database: Database,
    script: tempfile::NamedTempFile,
}

impl Bare {
    pub(super) fn create(database: Database, text: &str) -> Result<Self, Failed> {
        database.query(SCHEMA)?;
        let script = tempfile::NamedTempFile::new()?;
        let text = text.replace('\'', "''").replace(':', " ");
        let statement = format!(
            "with s as (update bare_session set seq = seq + 1 where id = :client_id returning id, seq) \
             insert into bare_event select id, seq, '{}' from s;\n",
            text.replace('\n', " ")
        );
        std::fs::write(script.path(), statement)?;
        // `pgbench` runs as another user and opens its standard input by name.
        std::fs::set_permissions(script.path(), Permissions::from_mode(0o644))?;
        Ok(Self { database, script })
    }

    /// Returns the statements a second in a protocol of `pgbench`.
    pub(super) fn rate(&self, protocol: &str, clients: usize) -> Result<f64, Failed> {
        let mut command = self.database.pgbench();
        // The other user has no access to the directory of the script.
        let output = command
            .args(["--no-vacuum", "--jobs=1", "--file=/dev/stdin"])
            .arg(format!("--protocol={protocol}"))
            .arg(format!("--client={clients}"))
            .arg(format!("--time={SECONDS}"))
            .arg(self.database.url())
            .stdin(std::fs::File::open(self.script.path())?)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = text.lines().find_map(|line| line.strip_prefix("tps = "));
        let rate = rate.and_then(|line| line.split(' ').next());
        let failure = || String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(rate.ok_or_else(failure)?.parse()?)
    }
}
