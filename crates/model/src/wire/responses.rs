//! `OpenAI` Responses.
//!
//! The server stores nothing (`store: false`): each request contains the complete conversation.
//! Reasoning arrives encrypted and is sent back. A reasoning item is one
//! [`ContentBlock::Thinking`](logue_message::ContentBlock::Thinking) per part of its summary. All parts have
//! the item's id; the last one has the encrypted content as its signature.

mod decode;
mod encode;

use super::definition::Wire;
use crate::http::WireEndpoint;
use crate::{ProviderAccount, ServerKind, ServerProfile};

pub(super) static WIRE: Wire = Wire {
    endpoint: WireEndpoint {
        replaced_segment: None,
        account: ProviderAccount::OPENAI,
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
