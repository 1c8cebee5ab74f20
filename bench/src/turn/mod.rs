//! The table of turns: what a turn with one tool call costs around the model.
//!
//! It asks a model server that answers at once. In process a turn stands
//! beside the bare exchanges that it is made of; as a whole process one shot stands beside the same
//! of another program, aichat, where it is installed. Jobs run in turn, so that a busy machine slows
//! all of them.

pub(crate) mod process;
pub(crate) mod server;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logue_agent::{Agent, NoListener, NoTranscript, TurnEnd};
use logue_message::ChatMessage;
use logue_model::{EndpointOptions, HttpProvider, Provider, WireFormat};
use logue_tools::{AccessScope, Builtin, Roots};
use serde_json::json;

use process::{Took, median, run};

pub(crate) type Failed = Box<dyn std::error::Error>;

/// Turns that are measured in process.
const TURNS: usize = 400;
/// Processes of each kind that are measured.
const PROCESSES: usize = 60;

const TOOL: &str = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>Read it.</user>\n";
const SHOT: &str = "<config model=\"m\"/>\n<user>Hello</user>\n";

/// Prints the table for the program `logue` and, where it is given, the other program.
pub(crate) fn table(program: &Path, peer: Option<&Path>) -> Result<(), Failed> {
    let address = server::start()?;
    let folder = Path::new("target").join("logue-bench-turn");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    std::fs::write(folder.join("note.txt"), "42\n")?;
    std::fs::write(folder.join("tool.md"), TOOL)?;
    std::fs::write(folder.join("shot.md"), SHOT)?;

    println!("| job | ours | beside it | ratio | goal | reached? |");
    println!("|---|---|---|---|---|---|");
    in_process(address, &folder)?;
    processes(program, peer, address, &folder)
}

/// Turns of one provider, beside the same exchanges over a bare socket.
fn in_process(address: SocketAddr, folder: &Path) -> Result<(), Failed> {
    let options = EndpointOptions::new(format!("http://{address}/v1"));
    let provider: Arc<dyn Provider> = Arc::new(HttpProvider::new(WireFormat::Chat, options)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let roots = Arc::new(Roots::new([folder.to_owned()])?);
    let agent = Agent::builder(provider, "m")
        .shared_tool(Builtin::ReadFile.tool(&AccessScope::new(roots)))
        .max_requests(4)
        .build()?;
    let mut ours = Vec::with_capacity(TURNS);
    let mut bare = Vec::with_capacity(TURNS);
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    for _ in 0..TURNS {
        let history = vec![ChatMessage::user("Read it.")];
        let turn = agent.turn(history, Box::new(NoTranscript));
        let started = Instant::now();
        let ended = runtime.block_on(turn.run(Arc::new(NoListener), None))?;
        ours.push(started.elapsed());
        let TurnEnd::Completed(report) = ended else {
            return Err("a turn did not complete".into());
        };
        if report.requests != 2 {
            return Err(format!("a turn asked {} times", report.requests).into());
        }
        let started = Instant::now();
        exchange(&stream, false)?;
        exchange(&stream, true)?;
        bare.push(started.elapsed());
    }
    let (ours, bare) = (middle(&mut ours), middle(&mut bare));
    let over = ours.saturating_sub(bare);
    println!(
        "| a turn with one tool call, in process | {} µs | two bare exchanges {} µs | {:.2} | | |",
        ours.as_micros(),
        bare.as_micros(),
        ours.as_secs_f64() / bare.as_secs_f64(),
    );
    println!("| … what the turn adds | {} µs | | | | |", over.as_micros());
    Ok(())
}

/// A request and its answer, without a client.
fn exchange(stream: &TcpStream, answered: bool) -> Result<(), Failed> {
    let mut messages = vec![json!({"role": "user", "content": "Read it."})];
    if answered {
        messages.push(json!({"role": "tool", "content": "42", "tool_call_id": "call_1"}));
    }
    let tool = json!({"type": "function", "function": {"name": "read_file"}});
    let body = json!({"model": "m", "stream": true, "messages": messages, "tools": [tool]});
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut out = stream;
    out.write_all(format!("{head}{body}").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    Ok(())
}

fn processes(
    program: &Path,
    peer: Option<&Path>,
    address: SocketAddr,
    folder: &Path,
) -> Result<(), Failed> {
    let base = format!("http://{address}/v1");
    let logue = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .args(["--base-url", &base])
            .current_dir(folder)
            .env("HOME", folder);
        command
    };
    let settings = folder.join("aichat");
    std::fs::create_dir_all(&settings)?;
    std::fs::write(
        settings.join("config.yaml"),
        format!(
            "model: local:m\nstream: false\nsave: false\nclients:\n- type: openai-compatible\n  \
             name: local\n  api_base: {base}\n  api_key: none\n  models:\n  - name: m\n"
        ),
    )?;
    let mut least = Vec::new();
    let mut tool = Vec::new();
    let mut shot = Vec::new();
    let mut kept = Vec::new();
    let mut theirs = Vec::new();
    for round in 0..PROCESSES {
        least.push(run(&mut Command::new("true"))?);
        tool.push(run(&mut logue(&["run", "--no-save", "tool.md"]))?);
        shot.push(run(&mut logue(&["run", "--no-save", "shot.md"]))?);
        let transcript = format!("kept-{round}.md");
        kept.push(run(&mut logue(&["run", "-o", &transcript, "shot.md"]))?);
        if let Some(peer) = peer {
            let mut command = Command::new(peer);
            command
                .arg("Hello")
                .current_dir(folder)
                .env("HOME", folder)
                .env("AICHAT_CONFIG_DIR", &settings);
            theirs.push(run(&mut command)?);
        }
    }
    let least = median(&mut least);
    let beside = |took: Took| {
        format!(
            "`true` {:.1} ms | {:.1} | |",
            millis(least),
            millis(took) / millis(least)
        )
    };
    let tool = median(&mut tool);
    println!(
        "| a turn with one tool call, whole process | {} | {} |",
        shown(tool),
        beside(tool)
    );
    let shot = median(&mut shot);
    if peer.is_some() {
        let theirs = median(&mut theirs);
        let reached = |yes: bool| if yes { "yes" } else { "NO" };
        println!(
            "| one shot, whole process: time | {:.1} ms | aichat {:.1} ms | {:.2} | <= 1 | {} |",
            millis(shot),
            millis(theirs),
            millis(shot) / millis(theirs),
            reached(shot.time <= theirs.time),
        );
        println!(
            "| one shot, whole process: memory | {:.1} MB | aichat {:.1} MB | {:.2} | <= 1 | {} |",
            megabytes(shot),
            megabytes(theirs),
            megabytes(shot) / megabytes(theirs),
            reached(shot.memory <= theirs.memory),
        );
    } else {
        println!(
            "| one shot, whole process | {} | {} |",
            shown(shot),
            beside(shot)
        );
    }
    let kept = median(&mut kept);
    println!(
        "| one shot that keeps its transcript | {} | {} |",
        shown(kept),
        beside(kept)
    );
    Ok(())
}

fn shown(took: Took) -> String {
    format!("{:.1} ms, {:.1} MB", millis(took), megabytes(took))
}

fn millis(took: Took) -> f64 {
    took.time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "figures of three digits")]
fn megabytes(took: Took) -> f64 {
    took.memory as f64 / 1024.0
}

fn middle(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
