//! Anthropic Messages.
//!
//! A request contains instructions and turns that alternate between user and assistant; tool results
//! are blocks of the user's turn. `thinking` is signed and, like redacted thinking, sent back
//! unchanged. Not every model supports a response schema in this format, so the response is requested
//! as the input of a tool, and the decoder converts it to text.

mod decode;
mod encode;

use super::definition::Wire;
use crate::http::WireEndpoint;
use crate::{ProviderAccount, ServerProfile};

pub(super) static WIRE: Wire = Wire {
    endpoint: WireEndpoint {
        replaced_segment: Some("v1"),
        account: ProviderAccount::ANTHROPIC,
        example: "https://api.anthropic.com",
    },
    profile: |_| &ServerProfile::ANTHROPIC,
    encode: encode::encode,
    decoder: || Box::<decode::AnthropicDecoder>::default(),
};
