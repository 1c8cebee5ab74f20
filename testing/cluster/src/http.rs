//! A client of the HTTP interface that expects every failure.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// The time in which a server on this machine accepts a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// A whole answer of a server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Whether it says when to try again.
    pub has_retry_after: bool,
    /// The body, or `Null` for one that is not JSON.
    pub body: Value,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number of the event.
    pub seq: u64,
    /// The generation of the numbers.
    pub generation: String,
    /// The content.
    pub data: String,
}

/// The next part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// An event.
    Event(Event),
    /// A comment, which says that the server is there.
    Comment,
    /// The end.
    End,
}

/// An open stream of events.
#[derive(Debug)]
pub struct EventStream {
    reader: BufReader<TcpStream>,
    /// The received bytes that are not an event yet.
    buffer: Vec<u8>,
}

/// Sends a request and reads the whole answer.
///
/// # Errors
/// Returns an error if the connection fails, is silent for the patience, or ends within the answer.
pub fn request(
    address: &str,
    line: (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
    patience: Duration,
) -> io::Result<Answer> {
    let mut reader = open(address, line, headers, body, patience)?;
    let (status, head) = read_head(&mut reader)?;
    answer(&mut reader, status, &head)
}

/// Opens a stream of events; the answer is another one if the server refuses.
///
/// # Errors
/// As [`request`].
pub fn events(
    address: &str,
    path: &str,
    after: &str,
    patience: Duration,
) -> io::Result<Result<EventStream, Answer>> {
    let mut headers = Vec::new();
    if !after.is_empty() {
        headers.push(("last-event-id", after));
    }
    send_stream(address, ("GET", path), &headers, "", patience)
}

/// Sends a request whose answer is a stream of events, as [`events`].
///
/// # Errors
/// As [`request`].
pub fn send_stream(
    address: &str,
    line: (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
    patience: Duration,
) -> io::Result<Result<EventStream, Answer>> {
    let mut all = vec![("accept", "text/event-stream")];
    all.extend(headers);
    let mut reader = open(address, line, &all, body, patience)?;
    let (status, head) = read_head(&mut reader)?;
    if status == 200 && head.contains("text/event-stream") {
        let buffer = Vec::new();
        return Ok(Ok(EventStream { reader, buffer }));
    }
    answer(&mut reader, status, &head).map(Err)
}

impl EventStream {
    /// Reads the next event or comment.
    ///
    /// # Errors
    /// Returns an error if the connection fails or is silent for the patience.
    pub fn receive(&mut self) -> io::Result<Received> {
        loop {
            let end = self.buffer.windows(2).position(|two| two == b"\n\n");
            if let Some(end) = end {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let event = parse(&String::from_utf8_lossy(&block));
                return Ok(event.map_or(Received::Comment, Received::Event));
            }
            match read_chunk(&mut self.reader)? {
                Some(chunk) => self.buffer.extend(chunk),
                None => return Ok(Received::End),
            }
        }
    }
}

/// Returns the event of a block; a comment has none.
fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let (seq, generation) = field("id: ")?.split_once('-')?;
    Some(Event {
        seq: seq.parse().ok()?,
        generation: generation.to_owned(),
        data: field("data: ")?.to_owned(),
    })
}

fn open(
    address: &str,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
    patience: Duration,
) -> io::Result<BufReader<TcpStream>> {
    let target = address.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&target, CONNECT)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n");
    if !body.is_empty() {
        head.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = body.len();
    head.push_str(&format!(
        "connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    stream.write_all(head.as_bytes())?;
    Ok(BufReader::new(stream))
}

fn read_head(reader: &mut BufReader<TcpStream>) -> io::Result<(u16, String)> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line.to_ascii_lowercase());
    }
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("malformed answer: {head}")))?;
    Ok((status, head))
}

fn answer(reader: &mut BufReader<TcpStream>, status: u16, head: &str) -> io::Result<Answer> {
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|text| text.lines().next()?.trim().parse().ok());
    let mut body = Vec::new();
    if let Some(length) = length {
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
    } else {
        while let Some(chunk) = read_chunk(reader)? {
            body.extend(chunk);
        }
    }
    Ok(Answer {
        status,
        has_retry_after: head.contains("retry-after: "),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// Reads a chunk of a chunked body; `None` at its end.
fn read_chunk(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk)?;
    chunk.truncate(length);
    Ok((length > 0).then_some(chunk))
}
