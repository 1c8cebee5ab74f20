//! The table of the harness: what a turn costs, in short and long sessions, in memory and on disk.
//!
//! It runs turns whose graph is one node that answers at once, so that what is
//! measured is the harness and the store. Beside the turns on disk stands what the disk does: an
//! append of the same size to a plain file and its `fsync`.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use logue_graph::{CountingIds, END, GraphBuilder, StateSchema, Update};
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, messages_field};
use logue_harness::store::{Commit, MemoryStore, SharedStore};
use logue_harness::{BoxFuture, Clock, Timestamp};
use logue_message::ChatMessage;
use logue_store::SqliteStore;

pub(crate) type Failed = Box<dyn std::error::Error>;

/// Bytes of what is said and of what is answered.
const SAID: usize = 200;
/// Turns that are measured where the disk is not waited for.
const MANY: usize = 4_000;
/// Turns that are measured on disk.
const FEW: usize = 400;

/// The machine's clock.
pub(crate) struct Machine;

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Timestamp(now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX)))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Prints the table, or only its part for the store in memory.
pub(crate) fn run(is_memory_only: bool) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(table(is_memory_only))
}

async fn table(is_memory_only: bool) -> Result<(), Failed> {
    println!("| job | ours | beside it | ratio | goal | reached? |");
    println!("|---|---|---|---|---|---|");
    let memory = || -> Result<SharedStore, Failed> { Ok(Arc::new(MemoryStore::new())) };
    let each = lengths("in memory", MANY, memory).await?;
    row(
        "a turn of the harness, store in memory",
        &format!("{each:.1} µs"),
        "",
        "",
        "≤ 5 µs",
        Some(each <= 5.0),
    );
    if is_memory_only {
        return Ok(());
    }

    let folder = Path::new("target").join("logue-bench-harness");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder)?;
    let count = AtomicU64::new(0);
    let sqlite = || -> Result<SharedStore, Failed> {
        let number = count.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(SqliteStore::open(
            folder.join(format!("{number}.db")),
        )?))
    };
    lengths("on disk, full sync", FEW, sqlite).await?;
    rates(sqlite, &folder).await?;
    stored(&folder).await?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Turns in sessions of 10, 1,000 and 10,000 messages; microseconds for one in the short one.
async fn lengths(
    kind: &str,
    turns: usize,
    store: impl Fn() -> Result<SharedStore, Failed>,
) -> Result<f64, Failed> {
    let mut short: Option<(f64, f64)> = None;
    for length in [10, 1_000, 10_000] {
        let store = store()?;
        fill(&store, "s", length).await?;
        let chat = chat(&store)?;
        say(&chat, "s").await?;
        let bytes = written()?;
        // The best of several parts: other programs have the machine, too.
        let mut least = f64::MAX;
        for _ in 0..4 {
            let begun = Instant::now();
            for _ in 0..turns / 4 {
                say(&chat, "s").await?;
            }
            least = least.min(begun.elapsed().as_secs_f64() * 1e6 / as_float(turns / 4));
        }
        let bytes = (written()? - bytes) / as_float(turns);
        let (least_short, bytes_short) = *short.get_or_insert((least, bytes));
        let name = format!("a turn behind {length} messages, {kind}");
        row(
            &name,
            &format!("{least:.1} µs"),
            "behind 10",
            &format!("{:.2}", least / least_short),
            "≤ 1.2",
            (length > 10).then_some(least / least_short <= 1.2),
        );
        if bytes_short > 0.0 {
            row(
                "… bytes that it writes",
                &format!("{bytes:.0}"),
                "behind 10",
                &format!("{:.2}", bytes / bytes_short),
                "≤ 1.1",
                (length > 10).then_some(bytes / bytes_short <= 1.1),
            );
        }
    }
    Ok(short.map_or(0.0, |(least, _)| least))
}

/// Turns a second, in one session and in 64 side by side.
async fn rates(
    store: impl Fn() -> Result<SharedStore, Failed>,
    folder: &Path,
) -> Result<(), Failed> {
    let mut file = std::fs::File::create(folder.join("plain"))?;
    let begun = Instant::now();
    for _ in 0..FEW {
        file.write_all(&[b'x'; 2 * SAID])?;
        file.sync_data()?;
    }
    let plain = as_float(FEW) / begun.elapsed().as_secs_f64();
    for sessions in [1, 64] {
        let store = store()?;
        let chat = chat(&store)?;
        let turns = FEW.max(sessions * 20) / sessions;
        let begun = Instant::now();
        let local = tokio::task::LocalSet::new();
        let tasks: Vec<_> = (0..sessions)
            .map(|session| {
                let chat = chat.clone();
                local.spawn_local(async move {
                    let session = format!("s{session}");
                    for _ in 0..turns {
                        say(&chat, &session)
                            .await
                            .map_err(|error| error.to_string())?;
                    }
                    Ok::<(), String>(())
                })
            })
            .collect();
        local
            .run_until(async {
                for task in tasks {
                    task.await??;
                }
                Ok::<(), Failed>(())
            })
            .await?;
        let rate = as_float(turns * sessions) / begun.elapsed().as_secs_f64();
        row(
            &format!("turns a second, full sync, sessions side by side: {sessions}"),
            &format!("{rate:.0}"),
            &format!("appends to a plain file, synced: {plain:.0} a second"),
            &format!("{:.2}", rate / plain),
            if sessions > 1 { "≥ 0.6" } else { "" },
            (sessions > 1).then_some(rate / plain >= 0.6),
        );
    }
    Ok(())
}

/// Bytes of the file after 400 turns.
async fn stored(folder: &Path) -> Result<(), Failed> {
    let path = folder.join("stored.db");
    {
        let store: SharedStore = Arc::new(SqliteStore::open(&path)?);
        let chat = chat(&store)?;
        for _ in 0..400 {
            say(&chat, "s").await?;
        }
    }
    let file = as_float(usize::try_from(std::fs::metadata(&path)?.len())?);
    let json = ChatMessage::user(words()).to_json().to_string().len()
        + ChatMessage::assistant(words()).to_json().to_string().len();
    for (what, bytes) in [("text", 2 * SAID), ("messages as JSON", json)] {
        let ratio = file / as_float(400 * bytes);
        row(
            "bytes stored after 400 turns",
            &format!("{:.0} KB", file / 1e3),
            &format!("{what}: {:.0} KB", as_float(400 * bytes) / 1e3),
            &format!("{ratio:.2}"),
            "≤ 1.5 times the text",
            Some(ratio <= 1.5),
        );
    }
    Ok(())
}

fn chat(store: &SharedStore) -> Result<ChatHarness, Failed> {
    let schema = StateSchema::new().with(messages_field());
    let graph = GraphBuilder::new(schema)
        .add_node_fn("answer", |_| async {
            let answer = ChatMessage::assistant(words());
            Ok(Update::new().with("messages", vec![answer]))
        })
        .entry("answer")
        .add_edge("answer", END)
        .compile(CountingIds::new())?;
    let ids = Arc::new(CountingIds::new());
    Ok(ChatHarness::new(
        graph,
        Arc::clone(store),
        Arc::new(Machine),
        ids,
    )?)
}

async fn say(chat: &ChatHarness, session: &str) -> Result<(), Failed> {
    match chat.send(session, ChatMessage::user(words())).await {
        ChatTurnOutcome::Completed(_) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn words() -> String {
    "The quick brown fox. ".repeat(SAID / 21 + 1)[..SAID].to_owned()
}

/// Gives a session a history.
async fn fill(store: &SharedStore, session: &str, messages: usize) -> Result<(), Failed> {
    let now = Machine.now();
    store
        .set_label(session, "of", "a bench".into(), now)
        .await?;
    let lease = match store
        .acquire(session, "bench", now, Duration::from_secs(60))
        .await?
    {
        logue_harness::store::LeaseResult::Lease(lease) => lease,
        other => return Err(format!("{other:?}").into()),
    };
    let filled = Commit {
        invocation_id: "fill".to_owned(),
        expected_seq: 0,
        messages: (0..messages)
            .map(|number| match number % 2 {
                0 => ChatMessage::user(words()).to_json(),
                _ => ChatMessage::assistant(words()).to_json(),
            })
            .collect(),
        fields: serde_json::Map::new(),
        schema_version: None,
        settle: None,
        now,
    };
    store.commit(&lease, filled).await?;
    store.release(&lease).await?;
    Ok(())
}

/// Bytes that this process has given to the operating system to write.
fn written() -> Result<f64, Failed> {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    Ok(line.map_or(Ok(0.0), str::parse)?)
}

fn row(job: &str, ours: &str, beside: &str, ratio: &str, goal: &str, reached: Option<bool>) {
    let reached = reached.map_or("", |reached| if reached { "yes" } else { "NO" });
    println!("| {job} | {ours} | {beside} | {ratio} | {goal} | {reached} |");
}

pub(crate) fn as_float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
