//! Anthropic Messages.
//!
//! A request contains instructions and turns that alternate between user and assistant; tool results
//! are blocks of the user's turn. `thinking` is signed and, like redacted thinking, sent back
//! unchanged. Not every model supports a response schema in this format, so the response is requested
//! as the input of a tool, and the decoder converts it to text.

mod decode;
mod encode;

use reqwest::header::HeaderName;

use super::definition::Wire;
use crate::ServerProfile;
use crate::http::WireEndpoint;

pub(super) static WIRE: Wire = Wire {
    endpoint: WireEndpoint {
        path: &["v1", "messages"],
        replaced_segment: Some("v1"),
        key_header: HeaderName::from_static("x-api-key"),
        key_prefix: "",
        key_variable: "ANTHROPIC_API_KEY",
        headers: &[("anthropic-version", "2023-06-01")],
        example: "https://api.anthropic.com",
    },
    profile: |_| &ServerProfile::ANTHROPIC,
    encode: encode::encode,
    decoder: || Box::<decode::AnthropicDecoder>::default(),
};
