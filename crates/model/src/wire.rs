//! Wire formats: encoding of requests and decoding of responses.
//!
//! A new JSON format requires a module with `WIRE` (endpoint, profiles, encoder, decoder) and a row in
//! [`WireFormat::wire`]; the HTTP exchange, the body reader and the provider are shared.

mod anthropic;
mod chat;
mod definition;
pub(crate) mod harmony;
mod normalize;
mod request_options;
mod responses;

pub(crate) use chat::tool_body;
pub(crate) use definition::{Wire, WireRequest};

use crate::{ServerKind, ServerProfile};

/// A JSON wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireFormat {
    /// Chat Completions: `POST BASE/chat/completions`.
    Chat,
    /// `OpenAI` Responses: `POST BASE/responses`.
    Responses,
    /// Anthropic Messages: `POST BASE/v1/messages`.
    Anthropic,
}

impl WireFormat {
    /// Returns the implementation of the format.
    pub(crate) const fn wire(self) -> &'static Wire {
        match self {
            Self::Chat => &chat::WIRE,
            Self::Responses => &responses::WIRE,
            Self::Anthropic => &anthropic::WIRE,
        }
    }

    /// Returns the profile of a kind of server for this format.
    pub fn profile(self, kind: ServerKind) -> &'static ServerProfile {
        (self.wire().profile)(kind)
    }
}
