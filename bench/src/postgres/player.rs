//! A process of the table of PostgreSQL: the actions of `bench/peers/langgraph/langgraph_postgres.py`
//! with this workspace's crates.

use std::io::BufRead as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use logue_graph::{
    CompiledGraph, CountingIds, END, Field, FieldType, GraphBuilder, List, NodeError,
    SignalDescriptor, StateSchema, Update,
};
use logue_harness::chat::{
    ChatHarness, ChatTurnOutcome, SendOptions, SignalTarget, messages_field,
};
use logue_harness::{RandomIds, SystemClock};
use logue_message::{ChatMessage, Role};
use logue_store::open_store;
use serde_json::{Map, Value, json};

use super::append;
use crate::harness::Failed;

/// The session of every action for one session.
const SESSION: &str = "s";
/// Turns of each session before its rate is measured.
const WARM_UP: usize = 2;

pub(crate) fn run(words: &[&str]) -> Result<(), Failed> {
    // As the server's.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(act(words))
}

async fn act(words: &[&str]) -> Result<(), Failed> {
    match *words {
        ["setup", store] => {
            open_store(store)?.session(SESSION).await?;
        }
        ["write", store, writer, clients, turns] => {
            write(store, writer, clients.parse()?, turns.parse()?).await?;
        }
        ["read", store] => {
            for message in open_store(store)?.history(SESSION, 0, usize::MAX).await? {
                let message = ChatMessage::from_json(&message)?;
                if message.role == Role::User {
                    println!("{}", json!({ "message": message.text() }));
                }
            }
        }
        ["approve", store, count] => Box::pin(approve(store, count.parse()?)).await?,
        ["long", store, turns, texts] => long(store, turns.parse()?, texts.as_ref()).await?,
        ["rate", store, sessions, turns, texts] => {
            rate(store, sessions.parse()?, turns.parse()?, texts.as_ref()).await?;
        }
        ["append", store, nodes, clients, text] => {
            append::play(store, nodes.parse()?, clients.parse()?, text).await?;
        }
        _ => return Err("unknown action".into()),
    }
    Ok(())
}

/// Sends messages of several clients to one session, from the moment that a line is received.
async fn write(store: &str, writer: &str, clients: usize, turns: usize) -> Result<(), Failed> {
    let chat = chat(store, vec!["yes".to_owned()])?;
    chat.store().session(SESSION).await?;
    println!("{}", json!({ "ready": true }));
    let line = || std::io::stdin().lock().read_line(&mut String::new());
    tokio::task::spawn_blocking(line).await??;
    let tasks = (0..clients).map(|client| {
        let (chat, writer) = (chat.clone(), writer.to_owned());
        tokio::spawn(async move {
            for turn in 0..turns {
                let text = format!("{writer}-{client}-{turn}");
                match say(&chat, SESSION, &text).await {
                    Ok(()) => println!("{}", json!({ "answered": text })),
                    Err(error) => eprintln!("{text}: {error}"),
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await?;
    }
    Ok(())
}

/// Delivers each approval at the same time by two harnesses, with a store each.
async fn approve(store: &str, count: usize) -> Result<(), Failed> {
    let effects = Effects::default();
    let node = || -> Result<ChatHarness, Failed> { harness(store, approved(&effects)?) };
    let (first, second) = (node()?, node()?);
    for number in 0..count {
        let session = format!("approval-{number}");
        let message = ChatMessage::user(session.clone());
        let ChatTurnOutcome::Suspended(turn) = first.send(&session, message).await else {
            return Err("the turn does not wait".into());
        };
        let target = SignalTarget::Invocation(&turn.invocation_id);
        let payload = Map::from_iter([("approval".to_owned(), json!("yes"))]);
        let results = tokio::join!(
            first.signal(target, payload.clone()),
            second.signal(target, payload)
        );
        let errors: Vec<String> = [results.0, results.1]
            .into_iter()
            .filter_map(|result| match result {
                Ok(ChatTurnOutcome::Completed(_)) => None,
                other => Some(format!("{other:?}")),
            })
            .collect();
        let effects = effects.lock().unwrap_or_else(PoisonError::into_inner);
        let effects = effects.iter().filter(|effect| **effect == session).count();
        println!("{}", json!({ "effects": effects, "errors": errors }));
    }
    Ok(())
}

/// Takes turns in one session, and prints the time of each.
async fn long(store: &str, turns: usize, texts: &Path) -> Result<(), Failed> {
    let texts = read_texts(texts)?;
    let chat = chat(store, texts.clone())?;
    chat.store().session(SESSION).await?;
    for turn in 0..turns {
        let text = texts.get(2 * turn % texts.len()).ok_or("no text")?;
        let begun = Instant::now();
        say(&chat, SESSION, text).await?;
        let seconds = begun.elapsed().as_secs_f64();
        println!("{}", json!({ "turn": turn + 1, "seconds": seconds }));
    }
    Ok(())
}

/// Takes turns in sessions side by side, and prints the time of all.
async fn rate(store: &str, sessions: usize, turns: usize, texts: &Path) -> Result<(), Failed> {
    let texts = read_texts(texts)?;
    let chat = chat(store, texts.clone())?;
    let texts = Arc::new(texts);
    let run = async |turns: usize| -> Result<(), Failed> {
        let tasks = (0..sessions).map(|session| {
            let (chat, texts) = (chat.clone(), Arc::clone(&texts));
            tokio::spawn(async move {
                let session = format!("rate-{session}");
                for turn in 0..turns {
                    let text = texts.get(2 * turn % texts.len());
                    say(&chat, &session, text.ok_or("no text")?).await?;
                }
                Ok::<(), String>(())
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await??;
        }
        Ok(())
    };
    // The first turns open the connections of the store.
    run(WARM_UP).await?;
    let begun = Instant::now();
    run(turns).await?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{}",
        json!({ "turns": sessions * turns, "seconds": seconds })
    );
    Ok(())
}

fn read_texts(path: &Path) -> Result<Vec<String>, Failed> {
    let lines = std::fs::read_to_string(path)?;
    Ok(lines
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

/// Sends a message. Its turn is durable when it returns.
async fn say(chat: &ChatHarness, session: &str, text: &str) -> Result<(), String> {
    let message = ChatMessage::user(text);
    match chat.send_with(session, message, SendOptions::new()).await {
        ChatTurnOutcome::Completed(_) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn harness(store: &str, graph: CompiledGraph) -> Result<ChatHarness, Failed> {
    let store = open_store(store)?;
    Ok(ChatHarness::new(
        graph,
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds),
    )?)
}

/// One node, which answers with the text that follows the last one.
fn chat(store: &str, texts: Vec<String>) -> Result<ChatHarness, Failed> {
    let texts = Arc::new(texts);
    let graph = GraphBuilder::new(StateSchema::new().with(messages_field()))
        .add_node_fn("model", move |ctx| {
            let texts = Arc::clone(&texts);
            async move {
                let messages = ctx.state().list_of::<ChatMessage>("messages");
                let length = messages.map_or(0, List::len);
                let text = texts.get(length % texts.len());
                let text = text.ok_or_else(|| NodeError::new("no text"))?;
                let answer = ChatMessage::assistant(text.clone());
                Ok(Update::new().with("messages", vec![answer]))
            }
        })
        .entry("model")
        .add_edge("model", END)
        .compile(CountingIds::new())?;
    harness(store, graph)
}

/// The sessions of the effects.
type Effects = Arc<Mutex<Vec<String>>>;

/// One node that waits for an approval, and one that has an effect.
fn approved(effects: &Effects) -> Result<CompiledGraph, Failed> {
    let schema = StateSchema::new()
        .with(messages_field())
        .with(Field::new("approval", FieldType::String));
    let effects = Arc::clone(effects);
    Ok(GraphBuilder::new(schema)
        .add_node_fn("ask", |ctx| async move {
            match ctx.suspend(SignalDescriptor::new("approve")).await {}
        })
        .add_node_fn("work", move |ctx| {
            let effects = Arc::clone(&effects);
            async move {
                let approval = ctx.state().json("approval").and_then(Value::as_str);
                let messages = ctx.state().list_of::<ChatMessage>("messages");
                let request = messages.and_then(List::last).map(ChatMessage::text);
                if approval == Some("yes") {
                    let mut effects = effects.lock().unwrap_or_else(PoisonError::into_inner);
                    effects.extend(request);
                }
                let answer = ChatMessage::assistant("done");
                Ok(Update::new().with("messages", vec![answer]))
            }
        })
        .entry("ask")
        .add_edge("ask", "work")
        .add_edge("work", END)
        .compile(CountingIds::new())?)
}
