//! The scripted server.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::ServerConfig;
use serde_json::Value;

use crate::tls::{self, Stream};
use crate::{Answer, Completion, Gate, Random};

/// The chunking of a response.
#[derive(Clone, Copy, Debug)]
pub enum Delivery {
    /// One chunk.
    Whole,
    /// One byte in each transfer chunk.
    ByteByByte,
    /// Chunks that end at random points within lines, events and characters.
    Random(u64),
    /// Two chunks; the n-th response is split after its n-th byte.
    EverySplit,
}

/// The reaction to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Streams an answer.
    Answer(Answer),
    /// Streams a raw completion.
    Completion(Completion),
    /// Sends a response with a status, extra headers and a body.
    Status(u16, Vec<(String, String)>, String),
    /// Sends a successful response with a content type, chunked by the [`Delivery`].
    Body(&'static str, Vec<u8>),
    /// Begins a successful stream, sends these bytes and closes the connection.
    Cut(Vec<u8>),
    /// Sends the first bytes of a stream, then the second ones without end.
    Endless(Vec<u8>, Vec<u8>),
    /// Sends the first bytes of a stream, each later piece after a permit, and closes the connection
    /// after the last one.
    Gated(Vec<Vec<u8>>, Gate),
    /// Accepts the request and never responds.
    Silent,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// The request line.
    pub line: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The JSON body, or `Null` for any other body.
    pub body: Value,
}

/// The replies of a server.
#[derive(Clone)]
enum Script {
    /// One for each request, in order; the last one repeats.
    List(Arc<[Reply]>),
    /// One by the content of each request.
    By(Arc<dyn Fn(&Received) -> Reply + Send + Sync>),
}

impl Script {
    fn reply(&self, number: usize, request: &Received) -> Option<Reply> {
        match self {
            Self::List(replies) => replies.get(number).or(replies.last()).cloned(),
            Self::By(reply) => Some(reply(request)),
        }
    }
}

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    scheme: &'static str,
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server on a free local port.
    ///
    /// Requests receive the replies in order; later requests receive the last reply.
    ///
    /// # Errors
    /// Returns an error if no port is available.
    pub fn start(replies: Vec<Reply>, delivery: Delivery) -> io::Result<Self> {
        Self::start_with(Script::List(replies.into()), delivery, None)
    }

    /// Starts a server that replies to each request by its content.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_by(
        reply: impl Fn(&Received) -> Reply + Send + Sync + 'static,
        delivery: Delivery,
    ) -> io::Result<Self> {
        Self::start_with(Script::By(Arc::new(reply)), delivery, None)
    }

    /// Starts a server with TLS, whose certificate is [`certificate`](crate::certificate).
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_tls(replies: Vec<Reply>, delivery: Delivery) -> io::Result<Self> {
        Self::start_with(Script::List(replies.into()), delivery, Some(tls::config()?))
    }

    fn start_with(
        script: Script,
        delivery: Delivery,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (log, flag) = (Arc::clone(&received), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            serve(&listener, &script, delivery, &log, &flag, tls.as_ref());
        });
        Ok(Self {
            scheme,
            address,
            received,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the base URL for a client.
    pub fn base_url(&self) -> String {
        format!("{}://{}/v1", self.scheme, self.address)
    }

    /// Returns the received requests in order.
    pub fn received(&self) -> Vec<Received> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A connection wakes the listener, which then reads the flag.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn serve(
    listener: &TcpListener,
    script: &Script,
    delivery: Delivery,
    log: &Arc<Mutex<Vec<Received>>>,
    stop: &Arc<AtomicBool>,
    tls: Option<&Arc<ServerConfig>>,
) {
    for stream in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let (Ok(stream), script) = (stream, script.clone()) else {
            continue;
        };
        let Ok(stream) = Stream::new(stream, tls) else {
            continue;
        };
        let (log, stop) = (Arc::clone(log), Arc::clone(stop));
        // A client may close the connection within a response.
        std::thread::spawn(move || drop(answer(stream, &script, delivery, &log, &stop)));
    }
}

fn answer(
    mut stream: Stream,
    script: &Script,
    delivery: Delivery,
    log: &Mutex<Vec<Received>>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let request = read_request(&mut stream)?;
    let is_list = request.line.starts_with("GET ") && request.line.contains("/models ");
    let number = {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(request.clone());
        log.len() - 1
    };
    let Some(reply) = script.reply(number, &request) else {
        return Ok(());
    };
    let reply = &reply;
    if is_list && matches!(reply, Reply::Answer(_)) {
        // A server that answers questions lists its model.
        let list = r#"{"object":"list","data":[{"id":"gpt-4o","object":"model"}]}"#;
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
        let head = format!("{head}content-length: {}\r\n\r\n{list}", list.len());
        return stream.write_all(head.as_bytes());
    }
    let seed = match delivery {
        Delivery::Random(seed) => seed,
        _ => 1,
    };
    let mut random = Random::new(seed.wrapping_add(number as u64));
    match reply {
        Reply::Answer(_) | Reply::Completion(_) => {
            let body = match reply {
                Reply::Answer(answer) => answer.stream(&mut random),
                Reply::Completion(completion) => completion.stream(),
                _ => Vec::new(),
            };
            stream.write_all(STREAM_HEAD)?;
            for piece in cut(&body, delivery, number, &mut random) {
                send_chunk(&mut stream, piece)?;
            }
            stream.write_all(b"0\r\n\r\n")
        }
        Reply::Status(status, headers, body) => {
            let mut head = format!("HTTP/1.1 {status} Scripted\r\nconnection: close\r\n");
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
            stream.write_all(head.as_bytes())
        }
        Reply::Body(kind, bytes) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\
                 transfer-encoding: chunked\r\n\r\n"
            );
            stream.write_all(head.as_bytes())?;
            let seed = match delivery {
                Delivery::Random(seed) => seed,
                _ => 1,
            };
            let mut random = Random::new(seed.wrapping_add(number as u64));
            for piece in cut(bytes, delivery, number, &mut random) {
                send_chunk(&mut stream, piece)?;
            }
            stream.write_all(b"0\r\n\r\n")
        }
        Reply::Cut(bytes) => {
            stream.write_all(STREAM_HEAD)?;
            send_chunk(&mut stream, bytes)?;
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        }
        Reply::Endless(first, again) => {
            stream.write_all(STREAM_HEAD)?;
            send_chunk(&mut stream, first)?;
            while !stop.load(Ordering::SeqCst) {
                send_chunk(&mut stream, again)?;
            }
            Ok(())
        }
        Reply::Gated(pieces, gate) => {
            stream.write_all(STREAM_HEAD)?;
            for (at, piece) in pieces.iter().enumerate() {
                if at > 0 && !gate.pass(|| stop.load(Ordering::SeqCst)) {
                    return Ok(());
                }
                send_chunk(&mut stream, piece)?;
            }
            stream.write_all(b"0\r\n\r\n")
        }
        Reply::Silent => {
            while !stop.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        }
    }
}

const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    connection: close\r\ntransfer-encoding: chunked\r\n\r\n";

fn send_chunk(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    stream.write_all(&chunk)
}

fn cut<'a>(
    body: &'a [u8],
    delivery: Delivery,
    number: usize,
    random: &mut Random,
) -> Vec<&'a [u8]> {
    match delivery {
        Delivery::EverySplit => {
            let (first, second) = body.split_at(number.min(body.len()));
            vec![first, second]
        }
        Delivery::Whole => vec![body],
        Delivery::ByteByByte => body.chunks(1).collect(),
        Delivery::Random(_) => {
            let mut pieces = Vec::new();
            let mut rest = body;
            while !rest.is_empty() {
                let longest = [3, 17, 200][random.below(3)];
                let (piece, next) = rest.split_at((1 + random.below(longest)).min(rest.len()));
                pieces.push(piece);
                rest = next;
            }
            pieces
        }
    }
}

fn read_request(stream: &mut Stream) -> io::Result<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        // A client that only looks whether the port is open sends nothing.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut headers = Vec::new();
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':') {
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
            if name == "content-length" {
                length = value.parse().unwrap_or(0);
            }
            headers.push((name, value));
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Received {
        line: line.trim().to_owned(),
        headers,
        body,
    })
}
