//! Decoding of a response body: bytes → SSE events or JSON → model events → message.

mod decoder;
mod partial;
mod reader;
mod sse;

pub(crate) use decoder::Decoder;
pub(crate) use partial::{
    PartialResponse, PartialToolCall, incomplete, interrupted, make_ids_unique, stream_error,
};
pub use reader::ResponseReader;
pub use sse::{SseDecoder, SseError};
