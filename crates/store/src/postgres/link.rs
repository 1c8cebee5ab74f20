//! The connections of a store: a pool of few, on a thread of their own.
//!
//! The thread runs a tokio runtime, so that the futures of the store need none, and a future that is
//! dropped does not break off a statement that was sent. The settings of the server are checked on each
//! new connection, and from time to time before it is used again; one that fails in use is replaced. A
//! statement whose answer was lost is sent again if a second one does nothing ([`Call`]), until
//! [`PATIENCE`] is over.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use deadpool::managed::{self, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use deadpool::{Runtime, managed::Timeouts};
use logue_harness::store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::{Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Address, SCHEMA};
use super::call::Call;
use super::column::get;
use super::error::{Failure, Fate, unavailable};
use super::migration::check;
use super::tls;

/// The number of connections of a store.
pub(super) const CONNECTIONS: usize = 4;
/// The time for which an operation tries to reach a database that is gone.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The time for which an operation waits for the promotion of a standby.
///
/// A standby may stay one, unlike a server that starts.
const PROMOTION: Duration = Duration::from_millis(1_500);
/// The time after which a connection is checked again before it is used.
const CHECKED: Duration = Duration::from_secs(15);
/// The maximum time of that check, and of a request to cancel.
const CHECK: Duration = Duration::from_secs(3);
/// The first pause between attempts. It doubles up to a second.
const PAUSE: Duration = Duration::from_millis(20);
/// The time that connections get to say goodbye.
const GOODBYE: Duration = Duration::from_millis(50);

/// Opens and checks connections.
pub(super) struct Manager {
    address: Address,
    tls: MakeRustlsConnect,
}

/// A connection to a server whose settings were checked.
pub(super) struct CheckedClient {
    client: Client,
    checked: Instant,
}

impl Deref for CheckedClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for CheckedClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl managed::Manager for Manager {
    type Type = CheckedClient;
    type Error = Failure;

    async fn create(&self) -> Result<CheckedClient, Failure> {
        let shown = &self.address.shown;
        let connected = self.address.config.connect(self.tls.clone()).await;
        let (client, connection) = connected.map_err(|error| Failure::connecting(shown, error))?;
        // Its errors are those of the statements that wait for it.
        drop(tokio::spawn(connection));
        check(&client, shown).await?;
        Ok(CheckedClient {
            client,
            checked: Instant::now(),
        })
    }

    async fn recycle(
        &self,
        connection: &mut CheckedClient,
        _metrics: &Metrics,
    ) -> RecycleResult<Failure> {
        if connection.is_closed() {
            return Err(RecycleError::message("closed"));
        }
        if connection.checked.elapsed() < CHECKED {
            return Ok(());
        }
        match timeout(CHECK, check(connection, &self.address.shown)).await {
            Ok(checked) => checked?,
            Err(_) => return Err(RecycleError::message("no answer")),
        }
        connection.checked = Instant::now();
        Ok(())
    }
}

/// The state that the tasks of a store share.
pub(super) struct Shared {
    pool: Pool<Manager>,
    pub(super) address: Address,
    tls: MakeRustlsConnect,
}

/// The connections of a store and their thread.
pub(super) struct Link {
    pub(super) shared: Arc<Shared>,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
}

impl Link {
    /// Starts the thread. Nothing is connected yet.
    pub(super) fn new(address: Address) -> Result<Self, StoreError> {
        let tls = tls::connector(&address)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StoreError::unavailable)?;
        let handle = runtime.handle().clone();
        let manager = Manager {
            address: address.clone(),
            tls: tls.clone(),
        };
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(StoreError::unavailable)?;
        let shared = Arc::new(Shared { pool, address, tls });
        let (stop, stopped) = oneshot::channel();
        let ending = Arc::clone(&shared);
        thread::Builder::new()
            .name("logue-postgres".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    // A dropped sender is a stop too.
                    drop(stopped.await);
                    ending.pool.close();
                    tokio::time::sleep(GOODBYE).await;
                });
                runtime.shutdown_background();
            })
            .map_err(StoreError::unavailable)?;
        Ok(Self {
            shared,
            handle,
            stop: Some(stop),
        })
    }

    /// Runs a task on the thread.
    pub(super) fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let task = self.handle.spawn(task);
        async move {
            match task.await {
                Ok(result) => result,
                Err(_) => Err(StoreError::Unavailable {
                    message: "the store was closed".to_owned(),
                    source: None,
                }),
            }
        }
    }

    /// Runs a task on the thread and blocks until it is done.
    pub(super) fn block<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = std::sync::mpsc::channel();
        drop(self.handle.spawn(async move {
            // The caller may be gone.
            drop(reply.send(task.await));
        }));
        let closed = || unavailable(&self.shared.address.shown, "the store was closed");
        answer.recv().map_err(|_| closed())?
    }

    /// Sends a statement and returns its rows.
    pub(super) fn ask(
        &self,
        call: Call,
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        self.run(async move { shared.ask(&call).await })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended.
            let _ended: Result<(), ()> = stop.send(());
        }
    }
}

impl Shared {
    /// Returns a statement with the schema of this store.
    pub(super) fn sql<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        in_schema(sql, &self.address.schema)
    }

    /// Sends a statement, again if its answer was lost, and returns its rows.
    pub(super) async fn ask(&self, call: &Call) -> Result<Vec<Row>, StoreError> {
        self.ask_within(call, PROMOTION).await
    }

    /// [`ask`](Self::ask) with the time for which a server may be only read.
    async fn ask_within(&self, call: &Call, promotion: Duration) -> Result<Vec<Row>, StoreError> {
        let begun = Instant::now();
        let mut pause = PAUSE;
        let mut is_again = false;
        loop {
            let failure = match self.attempt(call, is_again).await {
                Ok(rows) => return Ok(rows),
                Err(failure) => failure,
            };
            let (may_repeat, patience) = match failure.fate {
                Fate::Refused => (false, PATIENCE),
                Fate::Undone => (true, PATIENCE),
                Fate::OnlyRead => (true, promotion),
                Fate::Unknown => (call.is_repeatable, PATIENCE),
            };
            is_again |= failure.fate == Fate::Unknown;
            if !may_repeat || begun.elapsed() + pause > patience {
                return Err(failure.into_error());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Checks that the server accepts changes, without one.
    ///
    /// A server that is only read is reported at once: it may stay so, unlike one that starts.
    ///
    /// # Errors
    /// Returns [`StoreError::ReadOnly`] with the reason if the server is a standby, or the database is
    /// read-only.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        self.expect_primary().await?;
        let call = Call::new(
            "SELECT pg_is_in_recovery() AS is_standby,
                 current_setting('transaction_read_only') = 'on' AS is_read_only,
                 (SELECT s.sid FROM logue.session s LIMIT 1) AS sid",
        );
        let rows = match self.ask_within(&call.quick(), Duration::ZERO).await {
            Ok(rows) => rows,
            Err(error) => {
                // A server that was down has come back as a standby.
                self.expect_primary().await?;
                return Err(error);
            }
        };
        let state = rows.first();
        let is_true = |column| state.map_or(Ok(false), |row| get::<bool>(row, column));
        let reason = if is_true("is_standby")? {
            "the server is a standby (`pg_is_in_recovery()`); promote it, or name the primary"
        } else if is_true("is_read_only")? {
            "the database is read-only (`transaction_read_only = on`); end that, or name the primary"
        } else {
            return Ok(());
        };
        let shown = &self.address.shown;
        Err(StoreError::ReadOnly(format!("{shown}: {reason}")))
    }

    /// Returns the reason if a new connection shows that the server is a standby.
    async fn expect_primary(&self) -> Result<(), StoreError> {
        match self.client().await {
            Err(failure) if matches!(failure.error, StoreError::ReadOnly(_)) => Err(failure.error),
            _ => Ok(()),
        }
    }

    async fn attempt(&self, call: &Call, is_again: bool) -> Result<Vec<Row>, Failure> {
        let client = self.client().await.map_err(Failure::of_open_store)?;
        let parameters = call.parameters(is_again);
        let sql = self.sql(call.sql);
        let sent = client.query_typed(&sql, &parameters);
        match timeout(call.limit, sent).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => {
                let failure = Failure::answering(&self.address.shown, error);
                if failure.fate != Fate::Refused || client.is_closed() {
                    drop(Object::take(client));
                }
                Err(failure)
            }
            Err(_) => {
                self.cancel(client);
                // Connections through the same network may be silent too: later statements use new ones.
                self.pool.retain(|_, _| false);
                let seconds = call.limit.as_secs();
                let what = format!("the database did not answer within {seconds} s");
                Err(Failure {
                    fate: Fate::Unknown,
                    error: unavailable(&self.address.shown, &what),
                })
            }
        }
    }

    /// Returns a connection that seems to work.
    pub(super) async fn client(&self) -> Result<Object<Manager>, Failure> {
        let shown = &self.address.shown;
        let timeouts = Timeouts {
            wait: Some(PATIENCE),
            create: Some(PATIENCE),
            recycle: Some(CHECK),
        };
        self.pool
            .timeout_get(&timeouts)
            .await
            .map_err(|error| match error {
                PoolError::Backend(failure) => failure,
                PoolError::Timeout(managed::TimeoutType::Wait) => Failure::waiting(
                    shown,
                    "all connections are busy for 10 s; the database is too slow",
                ),
                PoolError::Timeout(_) => {
                    Failure::waiting(shown, "cannot connect within 10 s; check the network")
                }
                PoolError::Closed
                | PoolError::NoRuntimeSpecified
                | PoolError::PostCreateHook(_) => Failure {
                    fate: Fate::Refused,
                    error: unavailable(shown, "the store was closed"),
                },
            })
    }

    /// Asks the server to cancel what a connection waits for, and closes the connection.
    fn cancel(&self, client: Object<Manager>) {
        let token = client.cancel_token();
        let tls = self.tls.clone();
        drop(Object::take(client));
        drop(tokio::spawn(async move {
            // The server may be gone.
            drop(timeout(CHECK, token.cancel_query(tls)).await);
        }));
    }
}

/// Returns a statement that names the tables of another schema.
pub(super) fn in_schema<'s>(sql: &'s str, schema: &str) -> Cow<'s, str> {
    if schema == SCHEMA {
        return sql.into();
    }
    sql.replace("logue.", &format!("{schema}.")).into()
}
