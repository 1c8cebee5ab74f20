//! Wire formats: encoding of requests and decoding of responses.
//!
//! A new JSON format requires a module with `WIRE` (endpoint, profiles, encoder, decoder), for which
//! `anthropic` is a template, a row in [`WireFormat::wire`], and a provider in the file
//! `provider_table.rs`. The HTTP exchange, the body reader and the provider are shared. The encoder also
//! determines the path, which may contain the model's name.

mod anthropic;
mod chat;
mod definition;
pub(crate) mod harmony;
mod normalize;
mod request_options;
mod responses;

pub(crate) use chat::tool_body;
pub(crate) use definition::{Wire, WireRequest};

use crate::{ServerKind, ServerProfile, WireFormat};

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
