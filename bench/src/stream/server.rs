//! A model server that streams one answer with a fixed delay between its deltas.

use std::io::{self, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::turn::server::request;

/// The deltas of the answer.
const DELTAS: u32 = 40;
const DELAY: Duration = Duration::from_millis(10);

/// The time from the first delta to the last one.
pub(crate) const DURATION: Duration = Duration::from_millis(390);

/// The beginning of the answer.
pub(crate) const FIRST_WORD: &str = "word 0";

/// The end of the answer.
pub(crate) const LAST_WORD: &str = "finished.";

/// Starts the server on a free port; it runs until the process ends.
///
/// # Errors
/// No port can be had.
pub(crate) fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is not the server's failure.
            std::thread::spawn(move || drop(serve(&stream)));
        }
    });
    Ok(address)
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while request(&mut reader)?.is_some() {
        let mut out = stream;
        out.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )?;
        let begun = Instant::now();
        for number in 0..DELTAS {
            // The deltas have a schedule, so that the server's own time is the same in each run.
            let due = begun + DELAY * number;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let text = if number + 1 == DELTAS {
                LAST_WORD.to_owned()
            } else {
                format!("word {number} of the answer, ")
            };
            let delta = json!({"content": text, "role": "assistant"});
            send(out, &event(&delta, None))?;
        }
        let cost = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
        let cost = json!({"id": "x", "object": "chat.completion.chunk", "created": 0,
            "model": "m", "choices": [], "usage": cost});
        let end = event(&json!({}), Some("stop"));
        send(out, &format!("{end}data: {cost}\n\ndata: [DONE]\n\n"))?;
        out.write_all(b"0\r\n\r\n")?;
    }
    Ok(())
}

fn event(delta: &serde_json::Value, reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
    let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 0,
        "model": "m", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

fn send(mut out: &TcpStream, text: &str) -> io::Result<()> {
    out.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}
