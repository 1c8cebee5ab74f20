//! A process that runs conversations on a SQLite store, controlled by input lines.
//!
//! `player STORE EFFECTS LEASE_MS` reads from standard input:
//!
//! | line | action | output when it is settled |
//! |---|---|---|
//! | `send SESSION KEY TEXT` | a message | `told KEY OUTCOME` |
//! | `stream SESSION KEY TEXT` | a message, streamed | also `begun KEY` when its graph runs |
//! | `signal SIGNAL WORD` | a signal with an approval | `told SIGNAL OUTCOME` |
//! | `listen SESSION MS` | listens for a time | `heard OUTCOME` for each resumed turn |
//! | `fork SESSION N INTO` | a copy of a history | `told INTO forked` |
//!
//! The tool appends a line with the call's id to the file `EFFECTS`, which is on the disk before the
//! call ends. Lines that begin with the same word `&` run concurrently.
#![expect(clippy::print_stdout, reason = "standard output is its interface")]

mod agent;

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use logue_harness::chat::{
    ChatConfig, ChatEvent, ChatHarness, ChatTurnOutcome, SendOptions, SignalTarget,
};
use logue_harness::store::{SessionFork, SharedStore};
use logue_harness::{BoxFuture, Clock, Timestamp};
use logue_message::ChatMessage;
use logue_store::SqliteStore;
use serde_json::{Map, json};

/// The machine's clock.
struct Machine;

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = now.map_or(0, |now| now.as_millis());
        Timestamp(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match play().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("failed {message}");
            ExitCode::FAILURE
        }
    }
}

async fn play() -> Result<(), String> {
    let mut arguments = std::env::args_os().skip(1);
    let mut argument = |name: &str| arguments.next().ok_or(format!("no {name}"));
    let path = PathBuf::from(argument("STORE")?);
    let effects = PathBuf::from(argument("EFFECTS")?);
    let lease = argument("LEASE_MS")?
        .to_string_lossy()
        .parse()
        .unwrap_or(300);
    let store = SqliteStore::open(&path).map_err(|error| error.to_string())?;
    let store: SharedStore = Arc::new(store);
    let chat = chat(Arc::clone(&store), effects, Duration::from_millis(lease))?;
    println!("open");
    let mut side_by_side = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(line) = line.strip_prefix('&') {
            let (chat, store, line) = (chat.clone(), Arc::clone(&store), line.trim().to_owned());
            side_by_side.push(tokio::task::spawn(async move {
                act(&chat, &store, &line).await;
            }));
            continue;
        }
        for task in side_by_side.drain(..) {
            drop(task.await);
        }
        act(&chat, &store, &line).await;
    }
    for task in side_by_side {
        drop(task.await);
    }
    Ok(())
}

fn chat(
    store: SharedStore,
    effects: PathBuf,
    lease: Duration,
) -> Result<ChatHarness<agent::Begun>, String> {
    let count = AtomicU64::new(0);
    let begun = Machine.now().0;
    let process = std::process::id();
    let ids = move || {
        format!(
            "{begun}-{process}-{}",
            count.fetch_add(1, Ordering::Relaxed)
        )
    };
    let limits = ChatConfig::default()
        .with_lease(lease)
        .with_poll(Duration::from_millis(3));
    ChatHarness::builder(
        agent::graph(effects),
        store,
        Arc::new(Machine),
        Arc::new(ids),
    )
    .with_config(limits)
    .build()
    .map_err(|error| error.to_string())
}

async fn act(chat: &ChatHarness<agent::Begun>, store: &SharedStore, line: &str) {
    let words: Vec<&str> = line.splitn(4, ' ').collect();
    let (key, told) = match *words.as_slice() {
        ["send", session, key, text] => {
            let options = SendOptions::new().with_idempotency_key(key);
            let outcome = chat
                .send_with(session, ChatMessage::user(text), options)
                .await;
            (key, tell(&outcome))
        }
        ["stream", session, key, text] => {
            let options = SendOptions::new().with_idempotency_key(key);
            let mut stream = chat.send_streaming_with(session, ChatMessage::user(text), options);
            let mut told = "nothing".to_owned();
            let mut begun = false;
            while let Some(event) = stream.next().await {
                match event {
                    ChatEvent::Outcome(outcome) => told = tell(&outcome),
                    ChatEvent::Run { .. } if !begun => {
                        println!("begun {key}");
                        begun = true;
                    }
                    _ => {}
                }
            }
            (key, told)
        }
        ["signal", signal, word] => {
            let payload = Map::from_iter([("approval".to_owned(), json!(word))]);
            let outcome = chat.signal(SignalTarget::Signal(signal), payload).await;
            let told = match outcome {
                Ok(outcome) => tell(&outcome),
                Err(error) => format!("refused {}: {error}", error.category()),
            };
            (signal, told)
        }
        ["fork", session, upto, into] => {
            let upto = upto.parse().unwrap_or(0);
            let forked = store
                .fork(session, SessionFork::new(upto, into, Machine.now()))
                .await;
            (
                into,
                forked.map_or_else(
                    |error| format!("refused: {error}"),
                    |()| "forked".to_owned(),
                ),
            )
        }
        ["listen", session, millis] => {
            let heard = |outcome: &ChatTurnOutcome| println!("heard {}", tell(outcome));
            let subscription = chat.subscribe(session, heard).await;
            println!("listening {session}");
            let time = Duration::from_millis(millis.parse().unwrap_or(1_000));
            drop(tokio::time::timeout(time, chat.listen()).await);
            drop(subscription);
            (session, "listened".to_owned())
        }
        _ => ("?", format!("refused: {line}")),
    };
    // One write, so that a killed process leaves no partial lines.
    let line = format!("told {key} {told}\n");
    let mut out = std::io::stdout().lock();
    drop(out.write_all(line.as_bytes()).and_then(|()| out.flush()));
}

fn tell(outcome: &ChatTurnOutcome) -> String {
    let texts: Vec<String> = outcome.messages().iter().map(ChatMessage::text).collect();
    match outcome {
        ChatTurnOutcome::Errored(turn) if turn.invocation_id.is_none() => {
            format!("nobody-knows {}: {}", turn.error_category, turn.diagnostic)
        }
        ChatTurnOutcome::Errored(turn) => format!("errored {}", turn.error_category),
        other => format!("{} {}", other.as_str(), texts.join("|")),
    }
}
