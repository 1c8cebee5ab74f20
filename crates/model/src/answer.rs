//! Bytes of an answer to events and the whole message, for every wire format.

use serde_json::Value;

use crate::assemble::Assembler;
use crate::sse::SseDecoder;
use crate::{Category, EventSink, ProviderError, Response, Wire, anthropic, responses};

/// Makes an answer of what one server sent, in whichever pieces it arrives.
///
/// The bytes are an event stream or one JSON object; which of them they are is seen from the first
/// one, because not every server keeps to what it was asked for or says what it sends. How the bytes
/// are cut changes neither the answer nor, joined, the events. Memory is bounded by the answer, and
/// by the limit for what is not complete; time is linear.
#[derive(Debug)]
pub struct AnswerReader {
    decoder: Box<dyn Decoder>,
    sse: SseDecoder,
    form: Form,
    payloads: Vec<Vec<u8>>,
    ended: bool,
    events_seen: bool,
    received: bool,
    opening: Vec<u8>,
}

#[derive(Debug)]
enum Form {
    /// Nothing but white space so far.
    Unknown(Vec<u8>),
    Events,
    Json(Vec<u8>),
}

/// Reads the JSON of one wire format: the events of a stream, or a whole answer.
pub(crate) trait Decoder: std::fmt::Debug + Send {
    /// Takes one event, or a whole answer.
    ///
    /// # Errors
    /// It carries an error of the server, or is nothing of this format.
    fn take(&mut self, value: &Value, events: &mut EventSink<'_>) -> Result<(), ProviderError>;

    /// Whether the server has said why the model stopped: what follows is only accounting.
    fn is_finished(&self) -> bool;

    /// Whether nothing can follow.
    fn has_ended(&self) -> bool {
        false
    }

    /// The complete answer.
    ///
    /// # Errors
    /// It is none.
    fn finish(self: Box<Self>, events: &mut EventSink<'_>) -> Result<Response, ProviderError>;
}

impl AnswerReader {
    /// A reader for an answer in `wire`, which refuses a single event of more than `event_bytes`.
    pub fn new(wire: Wire, event_bytes: usize) -> Self {
        Self::with_decoder(
            match wire {
                Wire::Chat => Box::<Assembler>::default(),
                Wire::Responses => Box::<responses::Decoding>::default(),
                Wire::Anthropic => Box::<anthropic::Decoding>::default(),
            },
            event_bytes,
        )
    }

    pub(crate) fn with_decoder(decoder: Box<dyn Decoder>, event_bytes: usize) -> Self {
        Self {
            decoder,
            sse: SseDecoder::new(event_bytes),
            form: Form::Unknown(Vec::new()),
            payloads: Vec::new(),
            ended: false,
            events_seen: false,
            received: false,
            opening: Vec::new(),
        }
    }

    /// Takes the next bytes. What comes behind the end of an answer is skipped.
    ///
    /// # Errors
    /// The server reports an error, or what it sends is no answer; the reader is of no use
    /// afterwards.
    pub fn push(&mut self, bytes: &[u8], mut events: EventSink<'_>) -> Result<(), ProviderError> {
        self.received |= !bytes.is_empty();
        match &mut self.form {
            Form::Events => self.push_events(bytes, &mut events),
            Form::Json(whole) => {
                whole.extend_from_slice(bytes);
                Ok(())
            }
            Form::Unknown(blank) => {
                blank.extend_from_slice(bytes);
                let first = blank.iter().find(|byte| !is_blank(**byte)).copied();
                let all = std::mem::take(blank);
                match first {
                    None => self.form = Form::Unknown(all),
                    Some(b'{') => self.form = Form::Json(all),
                    Some(_) => {
                        self.form = Form::Events;
                        return self.push_events(&all, &mut events);
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether the server has said why the model stopped: what may follow is accounting.
    pub fn is_finished(&self) -> bool {
        self.decoder.is_finished()
    }

    /// Whether nothing that follows matters.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The answer, once all bytes are there.
    ///
    /// # Errors
    /// The answer is incomplete, empty, or none at all.
    pub fn finish(mut self, mut events: EventSink<'_>) -> Result<Response, ProviderError> {
        if let Form::Json(whole) = &self.form {
            self.decoder.take(&parse(whole)?, &mut events)?;
            return self.decoder.finish(&mut events);
        }
        if self.ended || self.decoder.is_finished() {
            return self.decoder.finish(&mut events);
        }
        Err(if !self.received {
            broken_off("the server sent a success status and then nothing")
        } else if !self.events_seen && !looks_like_events(&self.opening) {
            no_events(&self.opening)
        } else if self.sse.is_inside_event() {
            broken_off("the connection ended in the middle of an event")
        } else {
            broken_off("the stream ended before the model had finished")
        })
    }

    fn push_events(
        &mut self,
        bytes: &[u8],
        events: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        let room = OPENING - self.opening.len();
        self.opening.extend(bytes.iter().take(room));
        let read = self.sse.push(bytes, &mut self.payloads);
        for payload in std::mem::take(&mut self.payloads) {
            self.events_seen = true;
            if payload.trim_ascii() == b"[DONE]" {
                self.ended = true;
                return Ok(());
            }
            self.decoder.take(&parse(&payload)?, events)?;
            if self.decoder.has_ended() {
                self.ended = true;
                return Ok(());
            }
        }
        read.map_err(|error| {
            ProviderError::new(Category::InvalidResponse, error.to_string())
                .with_help("raise `event_bytes` under [model] in logue.toml if this is right")
        })
    }
}

/// An answer that ends before it is complete.
pub(crate) fn broken_off(how: &str) -> ProviderError {
    ProviderError::new(
        Category::Unavailable,
        format!("the answer broke off: {how}"),
    )
    .with_help("nothing of the incomplete answer was kept; run the same command again")
}

/// Bytes of an answer that are kept to say what it was instead of events.
const OPENING: usize = 120;

/// White space, and what a byte order mark is made of.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0xEF | 0xBB | 0xBF)
}

/// Whether the first bytes can be the beginning of an event stream.
fn looks_like_events(opening: &[u8]) -> bool {
    let opening = opening
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(opening)
        .trim_ascii_start();
    opening.is_empty()
        || [b":".as_slice(), b"data", b"event", b"id", b"retry"]
            .iter()
            .any(|field| opening.starts_with(field) || field.starts_with(opening))
}

fn no_events(opening: &[u8]) -> ProviderError {
    let shown = String::from_utf8_lossy(opening);
    ProviderError::new(
        Category::InvalidResponse,
        format!("the server sent something that is neither an event stream nor JSON: {shown:?}"),
    )
    .with_help("check that the base URL is one of such a server, often ending in `/v1`")
}

fn parse(payload: &[u8]) -> Result<Value, ProviderError> {
    serde_json::from_slice(payload).map_err(|error| {
        if error.is_eof() {
            return broken_off("the connection ended in the middle of the JSON");
        }
        let shown: String = String::from_utf8_lossy(payload).chars().take(120).collect();
        ProviderError::new(
            Category::InvalidResponse,
            format!("the server sent something that is not JSON ({error}): {shown:?}"),
        )
        .with_help("check that the base URL is one of such a server")
    })
}
