//! Reading of a response body in pieces, for every wire format.

use serde_json::Value;

use super::{Decoder, SseDecoder, interrupted};
use crate::{Category, EventHandler, ModelResponse, ProviderError, WireFormat};

/// An incremental reader of one response body.
///
/// The body is an event stream or one JSON object. The first byte decides, because some servers
/// ignore the requested form and mislabel the content type. The chunk boundaries change neither the
/// response nor the concatenated events. Memory is bounded by the response, plus the event limit
/// for incomplete input; time is linear.
#[derive(Debug)]
pub struct ResponseReader {
    decoder: Box<dyn Decoder>,
    sse: SseDecoder,
    form: BodyForm,
    payloads: Vec<Vec<u8>>,
    has_ended: bool,
    has_events: bool,
    has_bytes: bool,
    opening: Vec<u8>,
}

#[derive(Debug)]
enum BodyForm {
    /// Only white space has arrived.
    Unknown(Vec<u8>),
    Events,
    Json(Vec<u8>),
}

impl ResponseReader {
    /// Creates a reader for a response in `format` with a limit of `event_bytes` per event.
    pub fn new(format: WireFormat, event_bytes: usize) -> Self {
        Self::with_decoder((format.wire().decoder)(), event_bytes)
    }

    pub(crate) fn with_decoder(decoder: Box<dyn Decoder>, event_bytes: usize) -> Self {
        Self {
            decoder,
            sse: SseDecoder::new(event_bytes),
            form: BodyForm::Unknown(Vec::new()),
            payloads: Vec::new(),
            has_ended: false,
            has_events: false,
            has_bytes: false,
            opening: Vec::new(),
        }
    }

    /// Reads the next bytes and ignores any bytes after the end of the response.
    ///
    /// # Errors
    /// Returns an error if the server reports one or the bytes are not a response. The reader must
    /// not be used afterwards.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut events: EventHandler<'_>,
    ) -> Result<(), ProviderError> {
        self.has_bytes |= !bytes.is_empty();
        match &mut self.form {
            BodyForm::Events => self.push_events(bytes, &mut events),
            BodyForm::Json(json) => {
                json.extend_from_slice(bytes);
                Ok(())
            }
            BodyForm::Unknown(blank) => {
                blank.extend_from_slice(bytes);
                let first = blank.iter().find(|byte| !is_blank(**byte)).copied();
                let all = std::mem::take(blank);
                match first {
                    None => self.form = BodyForm::Unknown(all),
                    Some(b'{') => self.form = BodyForm::Json(all),
                    Some(_) => {
                        self.form = BodyForm::Events;
                        return self.push_events(&all, &mut events);
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns whether the stop reason has arrived; only usage data may follow.
    pub fn is_finished(&self) -> bool {
        self.decoder.is_finished()
    }

    /// Returns whether the remaining bytes are irrelevant.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Builds the response after the last byte.
    ///
    /// # Errors
    /// Returns an error if the response is incomplete, empty or malformed.
    pub fn finish(mut self, mut events: EventHandler<'_>) -> Result<ModelResponse, ProviderError> {
        if let BodyForm::Json(json) = &self.form {
            self.decoder.decode(&parse(json)?, &mut events)?;
            return self.decoder.finish(&mut events);
        }
        if self.has_ended || self.decoder.is_finished() {
            return self.decoder.finish(&mut events);
        }
        Err(if !self.has_bytes {
            interrupted("the server sent a success status and no body")
        } else if !self.has_events && !is_event_stream_prefix(&self.opening) {
            not_a_response(&self.opening)
        } else if self.sse.is_inside_event() {
            interrupted("the connection ended in the middle of an event")
        } else {
            interrupted("the stream ended before the model had finished")
        })
    }

    fn push_events(
        &mut self,
        bytes: &[u8],
        events: &mut EventHandler<'_>,
    ) -> Result<(), ProviderError> {
        if self.has_ended {
            return Ok(());
        }
        let room = OPENING_BYTES - self.opening.len();
        self.opening.extend(bytes.iter().take(room));
        let result = self.sse.push(bytes, &mut self.payloads);
        for payload in std::mem::take(&mut self.payloads) {
            self.has_events = true;
            if payload.trim_ascii() == b"[DONE]" {
                self.has_ended = true;
                return Ok(());
            }
            self.decoder.decode(&parse(&payload)?, events)?;
            if self.decoder.has_ended() {
                self.has_ended = true;
                return Ok(());
            }
        }
        result.map_err(|error| {
            ProviderError::new(Category::InvalidResponse, error.to_string()).with_help(
                "raise `max_event_bytes` under [model] in logue.toml if this is expected",
            )
        })
    }
}

/// The number of body bytes that an error message quotes.
const OPENING_BYTES: usize = 120;

/// Returns whether a byte is white space or part of a byte order mark.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0xEF | 0xBB | 0xBF)
}

/// Returns whether the first bytes can begin an event stream.
fn is_event_stream_prefix(opening: &[u8]) -> bool {
    let opening = opening
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(opening)
        .trim_ascii_start();
    opening.is_empty()
        || [b":".as_slice(), b"data", b"event", b"id", b"retry"]
            .iter()
            .any(|field| opening.starts_with(field) || field.starts_with(opening))
}

fn not_a_response(opening: &[u8]) -> ProviderError {
    let excerpt = String::from_utf8_lossy(opening);
    ProviderError::new(
        Category::InvalidResponse,
        format!("the server sent neither an event stream nor JSON: {excerpt:?}"),
    )
    .with_help("check the base URL; it often ends in `/v1`")
}

fn parse(payload: &[u8]) -> Result<Value, ProviderError> {
    serde_json::from_slice(payload).map_err(|error| {
        if error.is_eof() {
            return interrupted("the connection ended in the middle of the JSON");
        }
        let excerpt: String = String::from_utf8_lossy(payload).chars().take(120).collect();
        ProviderError::new(
            Category::InvalidResponse,
            format!("the server sent invalid JSON ({error}): {excerpt:?}"),
        )
        .with_help("check that the base URL belongs to a model server")
    })
}
