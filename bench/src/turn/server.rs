//! A model server that answers at once, so that what is measured is everything around it.
//!
//! It calls the tool that it is offered, and says `done` when it has the result or is offered none;
//! as a stream or whole, as it is asked to.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use serde_json::{Value, json};

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
    while let Some(request) = request(&mut reader)? {
        let answer = answer(&request);
        let mut out = stream;
        out.write_all(&answer)?;
    }
    Ok(())
}

/// The next request's body; `None` where the client has gone.
pub(crate) fn request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Value>> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn answer(request: &Value) -> Vec<u8> {
    let messages = request.get("messages").and_then(Value::as_array);
    let last = messages.and_then(|messages| messages.last());
    let answered = last.is_some_and(|last| last.get("role") == Some(&json!("tool")));
    let tool = request
        .pointer("/tools/0/function/name")
        .filter(|_| !answered);
    let (message, reason) = match tool {
        Some(name) => {
            let function = json!({"name": name, "arguments": "{\"path\":\"note.txt\"}"});
            let call =
                json!({"index": 0, "id": "call_1", "type": "function", "function": function});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            (message, "tool_calls")
        }
        None => (json!({"role": "assistant", "content": "done"}), "stop"),
    };
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    if request.get("stream") == Some(&Value::Bool(true)) {
        let delta = json!({"choices": [{"index": 0, "delta": message, "finish_reason": null}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        let cost = json!({"choices": [], "usage": usage});
        let body = format!("data: {delta}\n\ndata: {end}\n\ndata: {cost}\n\ndata: [DONE]\n\n");
        respond("text/event-stream", &body)
    } else {
        let choice = json!({"index": 0, "message": message, "finish_reason": reason});
        let whole = json!({"id": "x", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [choice], "usage": usage});
        respond("application/json", &whole.to_string())
    }
}

fn respond(kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}
