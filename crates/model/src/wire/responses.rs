//! `OpenAI` Responses.
//!
//! The server stores nothing (`store: false`): each request contains the complete conversation.
//! Reasoning arrives encrypted and is sent back. A reasoning item is one
//! [`ContentBlock::Thinking`](logue_message::ContentBlock::Thinking) per part of its summary. All parts have
//! the item's id; the last one has the encrypted content as its signature.

mod decode;
mod encode;

use reqwest::header::AUTHORIZATION;

use super::definition::Wire;
use crate::http::WireEndpoint;
use crate::{ServerKind, ServerProfile};

pub(super) static WIRE: Wire = Wire {
    endpoint: WireEndpoint {
        path: &["responses"],
        replaced_segment: None,
        key_header: AUTHORIZATION,
        key_prefix: "Bearer ",
        key_variable: "OPENAI_API_KEY",
        headers: &[],
        example: "https://api.openai.com/v1",
    },
    profile,
    encode: encode::encode,
    decoder: || Box::<decode::ResponsesDecoder>::default(),
};

fn profile(kind: ServerKind) -> &'static ServerProfile {
    match kind {
        ServerKind::OpenAi => &ServerProfile::RESPONSES,
        _ => &ServerProfile::RESPONSES_COMPATIBLE,
    }
}
