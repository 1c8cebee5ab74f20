//! Clients of a server, on connections that are kept.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::model::micros;
use crate::harness::Failed;

/// A request of a client, by its number.
pub(super) type Request = fn(usize) -> (String, String, bool);

/// A streamed turn through the server.
pub(super) fn send(client: usize) -> (String, String, bool) {
    let body = json!({"message": "go"}).to_string();
    (format!("/v1/sessions/c{client}/send"), body, true)
}

/// A streamed request to the model.
pub(super) fn completion(_: usize) -> (String, String, bool) {
    let messages = json!([{"role": "user", "content": "go"}]);
    let body = json!({"model": "m", "stream": true, "messages": messages}).to_string();
    ("/v1/chat/completions".to_owned(), body, true)
}

/// A turn whose outcome is awaited.
pub(super) fn whole(client: usize) -> (String, String, bool) {
    let (path, body, _) = send(client);
    (path, body, false)
}

/// A turn with a long message.
pub(super) fn long(client: usize) -> (String, String, bool) {
    let (path, ..) = send(client);
    let body = json!({"message": "many words ".repeat(1_000)}).to_string();
    (path, body, false)
}

/// Returns the text of a request.
fn post(address: SocketAddr, (path, body, is_stream): (String, String, bool)) -> String {
    let accept = if is_stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\naccept: {accept}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Runs turns of several clients; returns the times to the first delta, or to the whole answer.
pub(super) async fn turns(
    address: SocketAddr,
    clients: usize,
    turns: usize,
    request: Request,
) -> Result<Vec<Duration>, Failed> {
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        tasks.spawn(async move {
            let mut stream = BufReader::new(TcpStream::connect(address).await?);
            stream.get_ref().set_nodelay(true)?;
            let request = request(client);
            let is_stream = request.2;
            let text = post(address, request);
            let mut times = Vec::new();
            // The first turn creates the session.
            for turn in 0..=turns {
                let begun = Instant::now();
                stream.write_all(text.as_bytes()).await?;
                let first = answer(&mut stream).await?;
                let end = if is_stream {
                    first
                } else {
                    Some(Instant::now())
                };
                if turn > 0 || turns == 1 {
                    times.push(end.unwrap_or_else(Instant::now) - begun);
                }
            }
            Ok::<_, std::io::Error>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(task) = tasks.join_next().await {
        times.extend(task.map_err(|error| error.to_string())??);
    }
    Ok(times)
}

/// Reads an answer; returns the time of its first delta.
async fn answer(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Instant>> {
    let head = head(stream).await?;
    if !head.starts_with("http/1.1 200") {
        return Err(std::io::Error::other(head));
    }
    if let Some(length) = head.split("content-length:").nth(1) {
        let length = length.lines().next().unwrap_or_default().trim().parse();
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        return Ok(None);
    }
    let mut first = None;
    while let Some(chunk) = chunk(stream).await? {
        let is_delta = contains(&chunk, b"answer.delta") || contains(&chunk, b"\"content\"");
        if first.is_none() && is_delta {
            first = Some(Instant::now());
        }
    }
    Ok(first)
}

async fn head(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            return Ok(head.to_ascii_lowercase());
        }
        head.push_str(&line);
    }
}

/// Reads a chunk of a body; `None` at its end.
async fn chunk(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
    let mut chunk = vec![0; length + 2];
    stream.read_exact(&mut chunk).await?;
    chunk.truncate(length);
    Ok((length > 0).then_some(chunk))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

async fn follow(address: SocketAddr, path: &str) -> std::io::Result<BufReader<TcpStream>> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    let text = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(text.as_bytes()).await?;
    Ok(stream)
}

/// Subscribers, which end when it is dropped.
pub(super) type Subscribers = (JoinSet<()>, Vec<BufReader<TcpStream>>);

/// Subscribes to the session of the first client.
pub(super) async fn subscribe(
    address: SocketAddr,
    all: usize,
    silent: usize,
) -> Result<Subscribers, Failed> {
    let (mut readers, mut unread) = (JoinSet::new(), Vec::new());
    for number in 0..all {
        let mut stream = follow(address, "/v1/sessions/c0/events").await?;
        if number < silent {
            unread.push(stream);
            continue;
        }
        head(&mut stream).await?;
        readers.spawn(async move { while let Ok(Some(_)) = chunk(&mut stream).await {} });
    }
    Ok((readers, unread))
}

/// Begins a turn in each session, and returns the lags of the deltas at each listener.
pub(super) async fn listen(
    address: SocketAddr,
    sessions: usize,
    (listeners, deltas): (usize, usize),
) -> Result<Vec<Duration>, Failed> {
    // A turn creates each session; its listeners follow the next one.
    let mut tasks = JoinSet::new();
    for session in 0..sessions {
        tasks.spawn(async move {
            let text = post(address, send(session));
            let mut stream = BufReader::new(TcpStream::connect(address).await?);
            stream.write_all(text.as_bytes()).await?;
            let mut all = vec![stream];
            for _ in 1..listeners {
                // The session exists when the first bytes arrive.
                head(&mut all[0]).await?;
                let path = format!("/v1/sessions/c{session}/events");
                all.push(follow(address, &path).await?);
            }
            let mut readers = JoinSet::new();
            for (number, mut stream) in all.into_iter().enumerate() {
                let has_head = number == 0 && listeners > 1;
                readers.spawn(async move {
                    if !has_head {
                        head(&mut stream).await?;
                    }
                    let lags = lags(&mut stream).await?;
                    // The other listeners may have come after the first ones.
                    if number == 0 && lags.len() != deltas {
                        let lost = format!("{} of {deltas} deltas arrived", lags.len());
                        return Err(std::io::Error::other(lost));
                    }
                    Ok(lags)
                });
            }
            let mut lags = Vec::new();
            while let Some(reader) = readers.join_next().await {
                lags.extend(reader.map_err(std::io::Error::other)??);
            }
            Ok::<_, std::io::Error>(lags)
        });
    }
    let mut lags = Vec::new();
    while let Some(task) = tasks.join_next().await {
        lags.extend(task.map_err(|error| error.to_string())??);
    }
    Ok(lags)
}

/// Reads the events of a turn; each text of a delta is the time of its beginning.
async fn lags(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<Duration>> {
    let mut lags = Vec::new();
    while let Some(chunk) = chunk(stream).await? {
        let now = micros();
        let text = String::from_utf8_lossy(&chunk);
        for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            if !data.starts_with("{\"type\":\"answer.delta\"") {
                if data.starts_with("{\"type\":\"turn.completed\"") {
                    return Ok(lags);
                }
                continue;
            }
            add_lags(&serde_json::from_str(data)?, now, &mut lags);
        }
    }
    Ok(lags)
}

/// Adds the age of each time in the text of an event, of the server or of the model.
fn add_lags(event: &serde_json::Value, now: u128, lags: &mut Vec<Duration>) {
    let of_model = || event["choices"][0]["delta"]["content"].as_str();
    let text = event["text"].as_str().or_else(of_model).unwrap_or_default();
    for sent in text.split(' ').filter_map(|word| word.parse::<u128>().ok()) {
        let lag = u64::try_from(now.saturating_sub(sent)).unwrap_or(u64::MAX);
        lags.push(Duration::from_micros(lag));
    }
}

/// The times of paced turns.
#[derive(Default)]
pub(super) struct Paced {
    /// From each request to its first token.
    pub(super) first: Vec<Duration>,
    /// From the model to the client, for each token.
    pub(super) tokens: Vec<Duration>,
}

/// Runs turns of several clients, each of which sends its next message after the end of an answer.
pub(super) async fn paced(
    address: SocketAddr,
    clients: usize,
    turns: usize,
    request: Request,
) -> Result<Paced, Failed> {
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        tasks.spawn(async move {
            // The clients do not begin in step.
            tokio::time::sleep(Duration::from_millis(25) * u32::try_from(client).unwrap_or(0))
                .await;
            let mut stream = BufReader::new(TcpStream::connect(address).await?);
            stream.get_ref().set_nodelay(true)?;
            let text = post(address, request(client));
            let mut paced = Paced::default();
            // The first turn creates the session.
            for turn in 0..=turns {
                let begun = Instant::now();
                stream.write_all(text.as_bytes()).await?;
                let (first, tokens) = paced_answer(&mut stream).await?;
                if turn > 0 {
                    paced.first.extend(first.map(|first| first - begun));
                    paced.tokens.extend(tokens);
                }
            }
            Ok::<_, std::io::Error>(paced)
        });
    }
    let mut all = Paced::default();
    while let Some(task) = tasks.join_next().await {
        let paced = task.map_err(|error| error.to_string())??;
        all.first.extend(paced.first);
        all.tokens.extend(paced.tokens);
    }
    Ok(all)
}

/// Reads an answer; returns the time of its first token, and the lag of each.
async fn paced_answer(
    stream: &mut BufReader<TcpStream>,
) -> std::io::Result<(Option<Instant>, Vec<Duration>)> {
    let head = head(stream).await?;
    if !head.starts_with("http/1.1 200") {
        return Err(std::io::Error::other(head));
    }
    let (mut first, mut lags) = (None, Vec::new());
    while let Some(chunk) = chunk(stream).await? {
        let (at, now) = (Instant::now(), micros());
        let text = String::from_utf8_lossy(&chunk);
        for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            if data.contains("answer.delta") || data.contains("\"content\"") {
                add_lags(&serde_json::from_str(data)?, now, &mut lags);
            }
        }
        if first.is_none() && !lags.is_empty() {
            first = Some(at);
        }
    }
    Ok((first, lags))
}
