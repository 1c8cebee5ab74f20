//! A model that streams the time of each delta as its text.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The deltas of each answer, and the time between them.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) deltas: u64,
    pub(super) delay: Duration,
    /// Whether the first delta is sent at once.
    pub(super) is_first_instant: bool,
}

/// Starts the model in a thread of its own; it runs until the process ends.
///
/// # Errors
/// No port can be had.
pub(super) fn start(pace: Pace) -> std::io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                // A client that goes away is not the model's failure.
                tokio::spawn(async move { drop(serve(stream, pace).await) });
            }
        });
    });
    Ok(address)
}

/// Returns the microseconds since 1970.
pub(super) fn micros() -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_micros()
}

async fn serve(mut stream: TcpStream, pace: Pace) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    while read_request(&mut stream, &mut received).await? {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        let mut due = tokio::time::Instant::now();
        for number in 0..pace.deltas {
            let waits = number > 0 || !pace.is_first_instant;
            if waits && !pace.delay.is_zero() {
                due += pace.delay;
                tokio::time::sleep_until(due).await;
            }
            let text = format!("{} ", micros());
            write(&mut stream, &event(&json!({"content": text}), None)).await?;
        }
        let end = event(&json!({}), Some("stop"));
        write(&mut stream, &format!("{end}data: [DONE]\n\n")).await?;
        stream.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

fn event(delta: &serde_json::Value, reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
    let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 0,
        "model": "m", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

async fn write(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
    stream.write_all(chunk.as_bytes()).await
}

/// Reads one request with its body; `false` at the end of the connection.
async fn read_request(stream: &mut TcpStream, received: &mut Vec<u8>) -> std::io::Result<bool> {
    loop {
        let head = received.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(received.get(..head).unwrap_or_default());
            let text = text.to_ascii_lowercase();
            let length = text.split("content-length:").nth(1);
            let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
            let whole = head + 4 + length.unwrap_or(0_usize);
            if received.len() >= whole {
                received.drain(..whole);
                return Ok(true);
            }
        }
        let mut buffer = [0; 8192];
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(false);
        }
        received.extend_from_slice(buffer.get(..read).unwrap_or_default());
    }
}
