//! One interface to language models.
//!
//! A [`Provider`] receives a [`ModelRequest`] (messages, tools, settings), reports [`ModelEvent`]s and
//! returns a [`ModelResponse`]. [`HttpProvider`] reaches a server in one of the [`WireFormat`]s, and
//! [`HarmonyCompletions`] reaches a gpt-oss model at a raw completion endpoint. [`Replay`] plays a
//! recording, and [`Echo`] repeats the user. [`RetryProvider`], [`StructuredProvider`],
//! [`SanitizedNames`] and [`Recorder`] wrap another provider. Every failure is a [`ProviderError`] with
//! a stable [`Category`].
//!
//! ```
//! use logue_message::ChatMessage;
//! use logue_model::{Echo, ModelEvent, ModelRequest, Provider, SamplingSettings};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), logue_model::ProviderError> {
//! let messages = [ChatMessage::user("Hello!")];
//! let settings = SamplingSettings::default();
//! let request = ModelRequest::new("any-model", &messages, &settings);
//!
//! let mut streamed = String::new();
//! let mut handler = |event: ModelEvent| {
//!     if let ModelEvent::Text(text) = event {
//!         streamed.push_str(&text);
//!     }
//! };
//! let response = Echo.complete(&request, &mut handler).await?;
//! assert_eq!(response.message.text(), "Hello!");
//! assert_eq!(streamed, "Hello!");
//! # Ok(())
//! # }
//! ```
//!
//! # Data flow
//!
//! Request → adaptation to the [`ServerProfile`] → JSON → HTTP → bytes → [`ResponseReader`] → events and
//! message. The crate has neither sessions nor tools, and its only file format is the [`Recording`].
//!
//! # Features
//!
//! The crate has no optional features. TLS uses `rustls` with `ring` and the system's certificates.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod adapter;
mod error;
mod http;
mod logprobs;
mod provider;
mod provider_table;
mod recording;
mod request;
mod response;
mod selection;
mod server;
mod stream;
mod wire;

pub use adapter::{Jitter, RetryBudget, RetryProvider, SanitizedNames, StructuredProvider};
pub use error::{Category, ProviderError};
pub use futures_util::future::BoxFuture;
pub use http::{
    EndpointOptions, HttpLimits, RequestCapture, is_base_url, is_placeholder_key, redacted_base_url,
};
pub use logprobs::{ScoredToken, TokenLogprob};
pub use provider::{
    Echo, EventHandler, HarmonyCompletions, HarmonyOptions, HttpProvider, Provider,
};
pub use provider_table::{
    ProviderAccount, ProviderBackend, ProviderEntry, ProviderKind, ServerProtocol, WireFormat,
};
pub use recording::{RecordError, Recorder, Recording, RecordingError, Replay};
pub use request::{ModelRequest, SamplingSettings, ToolChoice};
pub use response::{FinishReason, ModelEvent, ModelResponse, Usage};
pub use selection::ModelSelection;
pub use server::{
    EffortEncoding, ListedModel, ReasoningEvidence, ReasoningReplay, ServerKind, ServerProbe,
    ServerProfile, ServerReport, StructuredOutputMode, SystemPlacement, ToolChoiceSupport,
    ToolImagePlacement,
};
pub use stream::{ResponseReader, SseDecoder, SseError};
pub use wire::harmony::{HarmonyPrompt, HarmonyPromptOptions, HarmonyServer, PromptForm};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
