//! A collector of spans, which decodes what it receives over a real socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The reaction of a collector.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reaction {
    /// Accepts the spans.
    Accept,
    /// Answers with the status 500.
    Fail,
    /// Reads the spans and never answers.
    Hang,
}

/// A collector on a local port.
pub(crate) struct Collector {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A received span.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) name: String,
    started: u64,
    /// The attributes, with values as text.
    pub(crate) attributes: Vec<(String, String)>,
    /// The ids of the linked spans, with those of their traces.
    pub(crate) links: Vec<(String, String)>,
    /// 0 if it is not set, 1 for success, 2 for failure.
    pub(crate) status: u64,
}

impl Span {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let mut own = self.attributes.iter();
        own.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }
}

impl Collector {
    pub(crate) fn start(reaction: Reaction) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || serve(&stream.unwrap(), reaction, &log));
            }
        });
        Self { url, received }
    }

    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// Returns everything that was received, as text.
    pub(crate) fn text(&self) -> String {
        let received = self.received.lock().unwrap();
        let texts = received.iter().map(|body| String::from_utf8_lossy(body));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the received spans in the order in which they began.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap();
        let mut spans: Vec<Span> = received.iter().flat_map(|body| spans_of(body)).collect();
        spans.sort_by_key(|span| span.started);
        spans
    }

    /// Returns the path of each span from its root, by names.
    pub(crate) fn paths(&self) -> Vec<String> {
        let spans = self.spans();
        let path = |span: &Span| {
            let mut names = vec![span.name.clone()];
            let mut at = span.parent.clone();
            while let Some(parent) = spans.iter().find(|other| other.id == at) {
                names.push(parent.name.clone());
                at.clone_from(&parent.parent);
            }
            names.reverse();
            names.join(" > ")
        };
        spans.iter().map(path).collect()
    }
}

/// Reads requests of a connection until it ends.
fn serve(stream: &TcpStream, reaction: Reaction, log: &Mutex<Vec<Vec<u8>>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) == 0 {
                return;
            }
            let header = header.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        log.lock().unwrap().push(body);
        let status = match reaction {
            Reaction::Accept => "200 OK",
            Reaction::Fail => "500 Internal Server Error",
            Reaction::Hang => continue,
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        if (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A field of a protobuf message.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

fn spans_of(body: &[u8]) -> Vec<Span> {
    let resources = fields(body).into_iter().filter(|(tag, _)| *tag == 1);
    let scopes = resources.flat_map(|(_, resource)| nested(&resource, 2));
    let spans = scopes.flat_map(|scope| nested(&Field::Bytes(scope), 2));
    spans.map(span).collect()
}

fn span(body: &[u8]) -> Span {
    let mut span = Span::default();
    for (tag, field) in fields(body) {
        match (tag, field) {
            (1, Field::Bytes(bytes)) => span.trace = hex(bytes),
            (2, Field::Bytes(bytes)) => span.id = hex(bytes),
            (3, Field::Bytes(bytes)) => span.state = text(bytes),
            (4, Field::Bytes(bytes)) => span.parent = hex(bytes),
            (5, Field::Bytes(bytes)) => span.name = text(bytes),
            (7, Field::Number(started)) => span.started = started,
            (9, Field::Bytes(bytes)) => span.attributes.push(attribute(bytes)),
            (13, Field::Bytes(bytes)) => {
                let id = |tag| nested(&Field::Bytes(bytes), tag).first().map(|id| hex(id));
                span.links.push((id(1).unwrap(), id(2).unwrap()));
            }
            (15, Field::Bytes(bytes)) => {
                for (tag, field) in fields(bytes) {
                    if let (3, Field::Number(code)) = (tag, field) {
                        span.status = code;
                    }
                }
            }
            _ => {}
        }
    }
    span
}

fn attribute(body: &[u8]) -> (String, String) {
    let mut attribute = (String::new(), String::new());
    for (tag, field) in fields(body) {
        match (tag, field) {
            (1, Field::Bytes(bytes)) => attribute.0 = text(bytes),
            (2, Field::Bytes(bytes)) => attribute.1 = value(bytes),
            _ => {}
        }
    }
    attribute
}

fn value(body: &[u8]) -> String {
    match fields(body).into_iter().next() {
        Some((1, Field::Bytes(bytes))) => text(bytes),
        Some((5, Field::Bytes(bytes))) => {
            let values = nested(&Field::Bytes(bytes), 1).into_iter().map(value);
            values.collect::<Vec<_>>().join(",")
        }
        Some((_, Field::Number(number))) => number.to_string(),
        _ => String::new(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// The messages under a tag.
fn nested<'b>(field: &Field<'b>, wanted: u64) -> Vec<&'b [u8]> {
    let Field::Bytes(body) = field else {
        return Vec::new();
    };
    let own = fields(body).into_iter();
    own.filter_map(|(tag, field)| match field {
        Field::Bytes(bytes) if tag == wanted => Some(bytes),
        _ => None,
    })
    .collect()
}

fn fields(mut body: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let key = varint(&mut body);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut body)),
            1 => Field::Number(u64::from_le_bytes(taken(&mut body, 8).try_into().unwrap())),
            2 => {
                let length = usize::try_from(varint(&mut body)).unwrap();
                Field::Bytes(taken(&mut body, length))
            }
            5 => {
                let bytes = taken(&mut body, 4).try_into().unwrap();
                Field::Number(u32::from_le_bytes(bytes).into())
            }
            other => panic!("unknown wire type {other}"),
        };
        found.push((key >> 3, field));
    }
    found
}

fn taken<'b>(body: &mut &'b [u8], length: usize) -> &'b [u8] {
    let (taken, rest) = body.split_at(length);
    *body = rest;
    taken
}

fn varint(body: &mut &[u8]) -> u64 {
    let mut number = 0;
    let mut shift = 0;
    loop {
        let byte = taken(body, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return number;
        }
    }
}
