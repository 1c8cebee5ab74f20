//! Language models behind one trait.
//!
//! A [`Provider`] takes a [`Request`] (messages, tools, settings) and gives a [`Response`], and
//! tells on the way what it hears, as [`Event`]s. Three providers are here: [`ChatCompletions`]
//! speaks to any server with the OpenAI wire format, [`Replay`] plays a recording, and
//! [`Recorder`] wraps another one and makes such a recording; [`Echo`] only repeats. Every failure is a
//! [`ProviderError`] with a stable [`Category`], whatever the server did.
//!
//! The data flows one way: request → wire JSON → bytes → [`SseDecoder`] → chunks → events and the
//! assembled message. This crate knows no session, no tool and no file format but the recording's.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod assemble;
mod chat;
mod dialect;
mod echo;
mod error;
mod harmony;
mod http;
mod plain_names;
mod probe;
mod provider;
mod record;
mod recording;
mod refusal;
mod replay;
mod retry_after;
mod retrying;
mod selection;
mod sse;
mod structured;
mod validity;
mod wire;

pub use chat::{ChatCompletions, ChatOptions};
pub use dialect::Dialect;
pub use echo::Echo;
pub use error::{Category, ProviderError};
pub use harmony::{HarmonyCompletions, HarmonyOptions, HarmonyServer, PromptForm};
pub use http::Limits;
pub use plain_names::PlainNames;
pub use probe::{ServerProbe, ServerReport};
pub use provider::{
    BoxFuture, Event, EventSink, FinishReason, Provider, Request, Response, Settings, ToolChoice,
    Usage,
};
pub use record::{RecordError, Recorder};
pub use recording::{Recording, RecordingError};
pub use replay::Replay;
pub use retrying::{Chance, RetryBudget, Retrying};
pub use selection::{ModelSelection, ProviderKind};
pub use sse::{SseDecoder, SseError};
pub use structured::Structured;
