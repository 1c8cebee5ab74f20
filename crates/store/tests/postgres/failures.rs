//! A database that ends connections, restarts, fails over or cannot be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use logue_harness::store::{
    BeginResult, ClaimedEntry, Commit, EnqueueResult, Lease, SharedStore, StoreError,
};
use logue_store::{PostgresStore, open_store};
use serde_json::json;
use testkit::Impostor;
use testkit::postgres::{PostgresServer, PostgresSettings, StopMode};

use super::turns::{NOW, TTL, done, entry, lease};
use super::{said, with};

fn refusal(url: &str) -> StoreError {
    PostgresStore::open(url).map(drop).unwrap_err()
}

/// Runs turns of a session with notes, and returns the number of those that were accepted.
async fn turns(store: &SharedStore, session: &str, ends: &AtomicBool) -> u64 {
    let mut accepted = 0;
    while !ends.load(Ordering::Relaxed) {
        let key = format!("{session}-{accepted}");
        let put = store
            .enqueue(session, entry(&key, Some(&key)))
            .await
            .unwrap();
        let EnqueueResult::Entry { entry: number, .. } = put else {
            panic!("{put:?}");
        };
        accepted += 1;
        assert_eq!(number, accepted, "an entry was put twice");
        let invocation = format!("{session}-i{accepted}");
        let length = (accepted - 1) * 2;
        let messages = vec![said(&key), said(&key)];
        let end = done(&invocation, length, messages);
        if accepted % 2 == 0 {
            let lease = lease(&**store, session).await;
            let claimed = store.claim_next(&lease, &invocation, NOW).await;
            let claimed = claimed.unwrap().unwrap();
            run(store, &lease, &claimed, true).await.unwrap();
            store.commit(&lease, end).await.unwrap();
            store.release(&lease).await.unwrap();
        } else {
            begun(store, session, &invocation, end).await;
        }
    }
    accepted
}

/// Notes what a turn does. `is_flushed` says that its claim is on the disk.
async fn run(
    store: &SharedStore,
    lease: &Lease,
    claimed: &ClaimedEntry,
    is_flushed: bool,
) -> Result<(), StoreError> {
    let invocation = claimed.entry.invocation_id.as_deref().unwrap();
    assert!(
        !claimed.recovered,
        "an own claim looks like one of another owner"
    );
    for note in 0..3 {
        let noted = store.journal(lease, invocation, vec![json!(note)]).await;
        if note == 0 && !is_flushed {
            noted?;
        } else {
            noted.unwrap();
        }
    }
    let notes = store.notes(&lease.session, invocation).await.unwrap();
    assert_eq!(notes.len(), 3);
    store.renew(lease, NOW, TTL).await.map(drop)
}

/// Runs a turn that begins and ends in one step each. Only its first note may find that the server lost
/// its beginning; then it begins again.
async fn begun(store: &SharedStore, session: &str, invocation: &str, end: Commit) {
    for attempt in 0.. {
        let owner = format!("owner#{invocation}-{attempt}");
        let begun = store.begin(session, &owner, invocation, NOW, TTL).await;
        let BeginResult::Turn(begun) = begun.unwrap() else {
            panic!("no turn of `{session}`");
        };
        match run(store, &begun.lease, &begun.claimed, false).await {
            Err(StoreError::Fenced { .. }) => {}
            ran => {
                ran.unwrap();
                let ended = store.commit_and_release(&begun.lease, end).await;
                ended.unwrap();
                return;
            }
        }
    }
}

/// Runs turns in four sessions while something happens to the server.
async fn endures(
    server: PostgresServer,
    happens: impl FnOnce(PostgresServer) -> PostgresServer + Send + 'static,
) {
    let database = server.database().unwrap();
    let store = open_store(&database.url()).unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for number in 0..4 {
        let (store, ends) = (Arc::clone(&store), Arc::clone(&ends));
        tasks.push(tokio::spawn(async move {
            let session = format!("s{number}");
            (session.clone(), turns(&store, &session, &ends).await)
        }));
    }
    let happened = tokio::task::spawn_blocking(move || happens(server))
        .await
        .unwrap();
    ends.store(true, Ordering::Relaxed);
    for task in tasks {
        let (session, accepted) = task.await.unwrap();
        assert!(accepted > 0, "{session} did nothing");
        let info = store.session(&session).await.unwrap().unwrap();
        assert_eq!(
            (info.cursor, info.seq),
            (accepted, accepted * 2),
            "{session}"
        );
    }
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    drop(happened);
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_connections_lose_and_double_nothing() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    endures(server, |server| {
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            server.terminate_backends().unwrap();
        }
        server
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_a_pause() {
    for mode in [StopMode::Fast, StopMode::Immediate] {
        let Some(server) = PostgresServer::start().unwrap() else {
            return;
        };
        endures(server, move |mut server| {
            for _ in 0..2 {
                std::thread::sleep(std::time::Duration::from_millis(200));
                server.restart(mode).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
            server
        })
        .await;
    }
}

#[tokio::test]
async fn a_database_that_is_gone_is_an_error_that_a_retry_may_mend() {
    let Some(mut server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = open_store(&database.url()).unwrap();
    server.stop(StopMode::Immediate).unwrap();
    let error = store.session("s").await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(
        open_store(&database.url())
            .map(drop)
            .unwrap_err()
            .is_transient()
    );
    server.start_again().unwrap();
    assert_eq!(store.session("s").await.unwrap(), None);
}

#[tokio::test]
async fn servers_that_could_lose_messages_are_refused() {
    for (setting, value) in [("synchronous_commit", "off"), ("fsync", "off")] {
        let settings = PostgresSettings::default().with(setting, value);
        let Some(server) = PostgresServer::start_with(settings).unwrap() else {
            return;
        };
        let error = refusal(&server.database().unwrap().url()).to_string();
        assert!(error.contains(&format!("{setting} = off")), "{error}");
    }
}

#[tokio::test]
async fn other_schemas_and_databases_are_refused() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    drop(PostgresStore::open(&database.url()).unwrap());
    drop(PostgresStore::open(&database.url()).unwrap());
    database
        .query("INSERT INTO logue.migration VALUES (9999, 'later')")
        .unwrap();
    let newer = refusal(&database.url());
    assert!(
        matches!(newer, StoreError::Newer { found: 9999, .. }),
        "{newer}"
    );
    database
        .query(
            "DELETE FROM logue.migration WHERE version = 9999;
                UPDATE logue.migration SET checksum = 'x' WHERE version = 2",
        )
        .unwrap();
    let changed = refusal(&database.url());
    assert!(matches!(changed, StoreError::Damaged(_)), "{changed}");
    // Another schema beside it is another store.
    let other = PostgresStore::open(&with(&database.url(), "schema=other")).unwrap();
    let other: SharedStore = Arc::new(other);
    other.enqueue("s", entry("x", None)).await.unwrap();
    let count = database.query("SELECT count(*) FROM other.entry").unwrap();
    assert_eq!(count.trim(), "1");
    let read_only = with(
        &database.url(),
        "schema=third&options=-c%20default_transaction_read_only%3Don",
    );
    let error = refusal(&read_only);
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_processes_that_open_a_new_store_create_it_once() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let url = server.database().unwrap().url();
    let openers: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::task::spawn_blocking(move || PostgresStore::open(&url).map(drop))
        })
        .collect();
    for opener in openers {
        opener.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_standby_is_refused_and_takes_over_when_it_is_promoted() {
    let Some(mut server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = open_store(&database.url()).unwrap();
    store.enqueue("s", entry("x", None)).await.unwrap();
    let standby = server.replica().unwrap();
    standby.catch_up_with(&server).unwrap();
    let second = standby.existing(database.name()).url();
    let error = refusal(&second);
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");

    let host = |url: &str| {
        let (_, rest) = url.split_once('@').unwrap();
        rest.split('/').next().unwrap().to_owned()
    };
    let hosts = format!("{},{}", host(&database.url()), host(&second));
    let (user, ()) = database
        .url()
        .split_once('@')
        .map(|(user, _)| (user.to_owned(), ()))
        .unwrap();
    let both = open_store(&format!("{user}@{hosts}/{}", database.name())).unwrap();
    assert_eq!(both.inbox("s").await.unwrap().len(), 1);
    server.stop(StopMode::Immediate).unwrap();
    standby.promote().unwrap();
    // The same store continues on the other server.
    assert_eq!(both.inbox("s").await.unwrap().len(), 1);
    both.enqueue("s", entry("y", Some("k"))).await.unwrap();
    assert_eq!(both.inbox("s").await.unwrap().len(), 2);
}

/// A server that lacks the key of its certificate receives no password.
#[tokio::test]
async fn a_certificate_without_its_key_is_refused() {
    let root = format!("sslrootcert={}", testkit::certificate().display());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for mode in ["require", "verify-ca", "verify-full"] {
            let impostor = Impostor::start(version).unwrap();
            let address = impostor.address();
            let url = format!("postgres://user:secret@{address}/db?sslmode={mode}&{root}");
            let error = refusal(&url);
            let case = format!("{version:?} {mode}: {error}");
            assert!(impostor.handshakes() > 0, "{case}");
            assert_eq!(impostor.received(), b"", "{case}");
            assert!(matches!(error, StoreError::NotAStore(_)), "{case}");
            assert!(error.to_string().contains("certificate"), "{case}");
        }
    }
}

/// The certificate is checked as `sslmode` says, and the password is not shown.
#[tokio::test]
async fn encrypted_connections_check_the_certificate() {
    let settings = PostgresSettings::default().with_tls().with_password();
    let Some(server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let url = server.database().unwrap().tcp_url().unwrap();
    let url = url.split('?').next().unwrap().to_owned();
    let root = format!("sslrootcert={}", testkit::certificate().display());
    let named = url.replace("127.0.0.1", "localhost");
    for accepted in [
        with(&url, "sslmode=require"),
        with(&url, &format!("sslmode=verify-ca&{root}")),
        with(&named, &format!("sslmode=verify-ca&{root}")),
        with(&url, &format!("sslmode=verify-full&{root}")),
    ] {
        let store = PostgresStore::open(&accepted).unwrap();
        let store: SharedStore = Arc::new(store);
        assert_eq!(store.session("s").await.unwrap(), None, "{accepted}");
    }
    for refused in [
        with(&url, "sslmode=verify-ca"),
        with(&url, "sslmode=verify-full"),
        with(&named, &format!("sslmode=verify-full&{root}")),
        with(&named, "sslmode=verify-full&sslrootcert=/none.pem"),
    ] {
        let error = refusal(&refused);
        assert!(matches!(error, StoreError::NotAStore(_)), "{error}");
        let error = error.to_string();
        assert!(
            error.contains("certificate") || error.contains("none.pem"),
            "{error}"
        );
    }
    let (before, after) = url.split_once("://").unwrap();
    let (user, host) = after.split_once('@').unwrap();
    let user = user.split(':').next().unwrap();
    let error = refusal(&format!(
        "{before}://{user}:mistaken@{host}?sslmode=require"
    ))
    .to_string();
    assert!(
        error.contains("password") && !error.contains("mistaken"),
        "{error}"
    );
}
