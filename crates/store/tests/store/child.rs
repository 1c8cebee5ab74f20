//! Processes that the tests start: this binary once more, with a role.

use std::env;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use logue_harness::Timestamp;
use logue_harness::store::{LeaseResult, Store, StoreError};
use logue_store::SqliteStore;
use serde_json::json;

const ROLE: &str = "STORE_TEST_ROLE";
const FILE: &str = "STORE_TEST_FILE";

/// Starts a process with a role on a file. Its reports are lines that begin with `@`.
pub(crate) fn command(role: &str, path: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(arguments());
    in_role(&mut command, role, path);
    command
}

/// Starts a process whose files are limited to `blocks` blocks of 512 bytes.
pub(crate) fn confined(role: &str, path: &Path, blocks: u32) -> Command {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    command.arg("-c").arg(script);
    command.arg(env::current_exe().unwrap()).args(arguments());
    in_role(&mut command, role, path);
    command
}

/// Returns the reports in the output of a process.
pub(crate) fn told(output: &str) -> Vec<String> {
    let lines = output.lines().filter_map(|line| line.strip_prefix('@'));
    lines.map(str::to_owned).collect()
}

/// The entry of the processes; an ordinary run of the tests passes through.
#[test]
fn child() {
    let Ok(role) = env::var(ROLE) else {
        return;
    };
    let path = PathBuf::from(env::var_os(FILE).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    match role.as_str() {
        "take-turns" => runtime.block_on(take_turns(&path)).unwrap(),
        "write-on" => runtime.block_on(write_on(&path)),
        "operate" => runtime.block_on(super::flushes::operate(&path)),
        "sleep" | "retry" => {
            runtime.block_on(super::timers::suspend_and_report(&path, &role));
        }
        other => panic!("no role {other}"),
    }
}

fn arguments() -> [&'static str; 4] {
    ["child::child", "--exact", "--nocapture", "--quiet"]
}

fn in_role(command: &mut Command, role: &str, path: &Path) {
    command.env(ROLE, role).env(FILE, path);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
}

/// Queues fifty entries in one session, and processes fifty entries of any process.
async fn take_turns(path: &Path) -> Result<(), StoreError> {
    let store = SqliteStore::open(path)?;
    let me = std::process::id().to_string();
    for number in 0..50 {
        let key = format!("{me}-{number}");
        store.enqueue("s", super::entry(&key, Some(&key))).await?;
        let lease = loop {
            match store.acquire("s", &me, now(), super::TTL).await? {
                LeaseResult::Lease(lease) => break lease,
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        };
        let begun = store.claim_next(&lease, &key, now()).await?.unwrap();
        assert!(!begun.recovered);
        let seq = store.session("s").await?.unwrap().seq;
        let message = json!({ "entry": begun.entry.entry, "epoch": lease.epoch });
        store
            .commit(&lease, super::done(&key, seq, vec![message]))
            .await?;
        store.release(&lease).await?;
    }
    Ok(())
}

/// Writes to several sessions until it is killed or an operation fails.
///
/// Reports each confirmed step.
async fn write_on(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    let result = tokio::try_join!(
        write_session(&store, "a"),
        write_session(&store, "b"),
        write_session(&store, "c"),
    );
    if let Err(error) = result {
        tell(&format!("error {error}"));
    }
}

async fn write_session(store: &SqliteStore, session: &str) -> Result<(), StoreError> {
    let me = std::process::id();
    for number in 0_u64.. {
        let key = format!("{me}-{number}");
        store
            .enqueue(session, super::entry(&key, Some(&key)))
            .await?;
        tell(&format!("accepted {session} {key}"));
        // The killed process had this owner name too, so its lease does not block.
        let lease = match store.acquire(session, "writer", now(), super::TTL).await? {
            LeaseResult::Lease(lease) => lease,
            other => panic!("no lease: {other:?}"),
        };
        let begun = store.claim_next(&lease, &key, now()).await?.unwrap();
        let id = begun.entry.invocation_id.unwrap();
        store.journal(&lease, &id, vec![json!(number)]).await?;
        tell(&format!("noted {session} {id}"));
        let seq = store.session(session).await?.unwrap().seq;
        let message = json!({ "turn": id, "text": "x".repeat(700) });
        store
            .commit(&lease, super::done(&id, seq, vec![message]))
            .await?;
        tell(&format!("committed {session} {seq} {id}"));
    }
    Ok(())
}

/// Prints a report in one write, so that a kill cannot truncate it.
pub(crate) fn tell(line: &str) {
    let mut out = stdout().lock();
    out.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(u64::try_from(since.as_millis()).unwrap())
}
