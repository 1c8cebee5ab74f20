//! Hints of changes by other nodes: notifications where there is an address for them, and a poll.
//!
//! A node that follows sessions names those that it changes: at most each [`BATCH`], in a statement of
//! its own, because notifications in the transaction of a change would make all changes wait for each
//! other. A lost notification costs at most the time until the next poll, which compares the positions
//! of all followed sessions in one statement.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logue_harness::events::{ListenState, SessionChanges};
use logue_harness::store::StoreError;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::{AsyncMessage, Notification, Row};

use super::address::Address;
use super::call::Call;
use super::column::{get, text};
use super::error::Failure;
use super::link::Shared;
use super::tls;

/// The interval of notifications.
const BATCH: Duration = Duration::from_millis(10);
/// The interval of polls.
const POLL: Duration = Duration::from_secs(1);
/// The maximum length of a notification, in bytes; the database refuses 8,000.
const MAX_BYTES: usize = 7_900;
/// The pause before another attempt to listen. It doubles up to two seconds.
const AGAIN: Duration = Duration::from_millis(100);
/// The interval of checks of the connection that listens, and their maximum time.
const ALIVE: Duration = Duration::from_secs(5);

/// A set of sessions; `None` for all.
type Named = Option<BTreeSet<String>>;

/// The hints of a store.
pub(super) struct Feed {
    /// The name of this node in its notifications.
    node: String,
    channel: String,
    listen: Option<Address>,
    has_begun: AtomicBool,
    /// The sessions that this node has changed since its last notification.
    changed: Mutex<Named>,
    has_changed: Notify,
    /// The sessions that other nodes have changed since the last wait.
    heard: Mutex<Named>,
    has_heard: Notify,
    seen: Mutex<Seen>,
    /// The state of the connection that listens; `None` before its first attempt.
    state: Mutex<Option<ListenState>>,
    /// Notified of a notification of this node to itself.
    has_probed: Notify,
}

/// The positions of followed sessions at the last poll.
#[derive(Default)]
struct Seen {
    positions: HashMap<String, [i64; 6]>,
    next: Option<Instant>,
}

impl Feed {
    pub(super) fn new(listen: Option<Address>, schema: &str) -> Self {
        let random = std::collections::hash_map::RandomState::new();
        let node = std::hash::BuildHasher::hash_one(&random, std::process::id());
        Self {
            node: format!("{node:x}"),
            channel: format!("logue_{schema}"),
            listen,
            has_begun: AtomicBool::new(false),
            changed: Mutex::new(Some(BTreeSet::new())),
            has_changed: Notify::new(),
            heard: Mutex::new(Some(BTreeSet::new())),
            has_heard: Notify::new(),
            seen: Mutex::default(),
            state: Mutex::default(),
            has_probed: Notify::new(),
        }
    }

    /// Returns the state of the connection that listens; `None` before its first attempt.
    pub(super) fn state(&self) -> Option<ListenState> {
        lock(&self.state).clone()
    }

    /// Notes that this node has changed a session.
    pub(super) fn note(&self, session: &str) {
        if !self.has_begun.load(Ordering::Relaxed) {
            return;
        }
        if let Some(changed) = &mut *lock(&self.changed) {
            changed.insert(session.to_owned());
        }
        self.has_changed.notify_one();
    }

    fn hear(&self, named: Named) {
        let mut heard = lock(&self.heard);
        match (&mut *heard, named) {
            (Some(heard), Some(mut more)) => heard.append(&mut more),
            (heard, None) => *heard = None,
            (None, Some(_)) => {}
        }
        drop(heard);
        self.has_heard.notify_one();
    }

    /// Waits for hints, or for the next poll.
    pub(super) async fn next(
        self: Arc<Self>,
        shared: Arc<Shared>,
        followed: Vec<String>,
    ) -> Result<SessionChanges, StoreError> {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            drop(tokio::spawn(Arc::clone(&self).notify(Arc::clone(&shared))));
            if self.listen.is_some() {
                drop(tokio::spawn(Arc::clone(&self).listen(Arc::clone(&shared))));
            }
        }
        let next = lock(&self.seen).next;
        if let Some(next) = next
            && timeout_at(next, self.has_heard.notified()).await.is_ok()
        {
            let heard = lock(&self.heard).replace(BTreeSet::new());
            return Ok(match heard {
                Some(mut heard) => {
                    heard.retain(|session| followed.contains(session));
                    SessionChanges::Sessions(heard)
                }
                None => SessionChanges::Unknown,
            });
        }
        lock(&self.seen).next = Some(Instant::now() + POLL);
        self.poll(&shared, followed).await
    }

    /// Compares the positions of all followed sessions with those of the last poll.
    async fn poll(
        &self,
        shared: &Shared,
        followed: Vec<String>,
    ) -> Result<SessionChanges, StoreError> {
        if followed.is_empty() {
            lock(&self.seen).positions.clear();
            return Ok(SessionChanges::Sessions(BTreeSet::new()));
        }
        let ids = followed.into_iter().map(String::into_bytes);
        let call = Call::new(
            "SELECT f.id, coalesce(l.num, 0) AS log, coalesce(l.seq, 0) AS seq, coalesce(s.sid, 0) AS sid,
                 coalesce(s.entries, 0) AS entries, coalesce(s.cursor, 0) AS cursor,
                 coalesce(l.removed, 0) AS removed
             FROM unnest($1) AS f (id)
                 LEFT JOIN logue.log l ON substr(l.id, 1, 1024) = substr(f.id, 1, 1024) AND l.id = f.id
                 LEFT JOIN logue.session s
                     ON substr(s.id, 1, 1024) = substr(f.id, 1, 1024) AND s.id = f.id",
        )
        .byte_list(ids.collect())
        .quick();
        let rows = shared.ask(&call).await?;
        let positions: Result<HashMap<String, [i64; 6]>, StoreError> =
            rows.iter().map(position).collect();
        let positions = positions?;
        let mut seen = lock(&self.seen);
        let changed = positions.iter();
        let changed = changed.filter(|(id, now)| seen.positions.get(*id) != Some(now));
        let changed = changed.map(|(id, _)| id.clone()).collect();
        seen.positions = positions;
        Ok(SessionChanges::Sessions(changed))
    }

    /// Names the changed sessions to other nodes, as long as the store is open.
    async fn notify(self: Arc<Self>, shared: Arc<Shared>) {
        loop {
            self.has_changed.notified().await;
            sleep(BATCH).await;
            let changed = lock(&self.changed).replace(BTreeSet::new());
            let call = Call::new("SELECT pg_notify($1, $2)")
                .text(self.channel.clone())
                .text(notification(&self.node, changed))
                .quick();
            // A lost hint costs the time until the next poll.
            drop(shared.ask(&call).await);
        }
    }

    /// Listens, and begins again when the connection ends.
    async fn listen(self: Arc<Self>, shared: Arc<Shared>) {
        let Some(address) = &self.listen else {
            return;
        };
        let mut pause = AGAIN;
        loop {
            let begun = Instant::now();
            let reason = self.listen_once(address, &shared).await;
            *lock(&self.state) = Some(ListenState::Down(reason.into()));
            if begun.elapsed() > ALIVE {
                pause = AGAIN;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    /// Listens until the connection ends, and returns the reason.
    async fn listen_once(&self, address: &Address, shared: &Shared) -> String {
        let shown = &address.shown;
        let failed = |error| Failure::connecting(shown, error).error.to_string();
        let tls = match tls::connector(address) {
            Ok(tls) => tls,
            Err(error) => return error.to_string(),
        };
        let (client, mut connection) = match timeout(ALIVE, address.config.connect(tls)).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return failed(error),
            Err(_) => return format!("{shown}: cannot connect within {} s", ALIVE.as_secs()),
        };
        let heard = async {
            loop {
                match poll_fn(|cx| connection.poll_message(cx)).await {
                    Some(Ok(AsyncMessage::Notification(notification))) => {
                        self.hear_notification(&notification);
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return failed(error),
                    None => return format!("{shown}: the connection was closed"),
                }
            }
        };
        let asked = async {
            let listen = format!(
                "LISTEN \"{}\"; LISTEN \"{}\"",
                self.channel,
                self.own_channel()
            );
            if let Err(error) = client.batch_execute(&listen).await {
                return failed(error);
            }
            if !self.is_reached(shared).await {
                return format!(
                    "{shown}: no notification arrives; name the database of the store, without a \
                     pooler"
                );
            }
            *lock(&self.state) = Some(ListenState::Up);
            // Notifications before this one are lost.
            self.hear(None);
            loop {
                sleep(ALIVE).await;
                match timeout(ALIVE, client.check_connection()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return failed(error),
                    Err(_) => return format!("{shown}: the connection is silent"),
                }
            }
        };
        tokio::select! {
            reason = heard => reason,
            reason = asked => reason,
        }
    }

    /// Returns whether a notification of the store arrives.
    ///
    /// Another database, or a pooler that shares connections, accepts `LISTEN` and passes none on.
    async fn is_reached(&self, shared: &Shared) -> bool {
        let call = Call::new("SELECT pg_notify($1, '')")
            .text(self.own_channel())
            .quick();
        // Without the store, nothing is known about the address.
        shared.ask(&call).await.is_err() || timeout(ALIVE, self.has_probed.notified()).await.is_ok()
    }

    /// Returns the channel on which this node reaches only itself.
    fn own_channel(&self) -> String {
        format!("logue_{}", self.node)
    }

    fn hear_notification(&self, notification: &Notification) {
        if notification.channel() != self.channel {
            self.has_probed.notify_one();
            return;
        }
        let payload = notification.payload();
        let (node, sessions) = payload.split_once('\n').unwrap_or((payload, ""));
        if node == self.node {
            return;
        }
        self.hear(match sessions {
            "" => None,
            named => Some(named.split('\n').map(str::to_owned).collect()),
        });
    }
}

/// Returns a notification; without sessions it means all of them.
fn notification(node: &str, changed: Named) -> String {
    let mut text = node.to_owned();
    for session in changed.unwrap_or_default() {
        let has_room = text.len() + 1 + session.len() <= MAX_BYTES;
        if !has_room || session.contains(['\n', '\0']) {
            return node.to_owned();
        }
        text.push('\n');
        text.push_str(&session);
    }
    text
}

fn position(row: &Row) -> Result<(String, [i64; 6]), StoreError> {
    let number = |column| get::<i64>(row, column);
    Ok((
        text(&get::<Vec<u8>>(row, "id")?)?,
        [
            number("log")?,
            number("seq")?,
            number("sid")?,
            number("entries")?,
            number("cursor")?,
            number("removed")?,
        ],
    ))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data is whole after each change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::notification;

    #[test]
    fn a_notification_is_bounded() {
        let named = |ids: &[&str]| {
            let ids = ids.iter().map(ToString::to_string).collect();
            notification("n", Some(ids))
        };
        assert_eq!(named(&["a", "b"]), "n\na\nb");
        assert_eq!(named(&["a\nb"]), "n");
        assert_eq!(named(&["a\0"]), "n");
        assert_eq!(named(&[&"x".repeat(8_000)]), "n");
        let many: Vec<String> = (0..1_000).map(|n| format!("session-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(named(&many), "n");
        assert_eq!(notification("n", None), "n");
    }
}
