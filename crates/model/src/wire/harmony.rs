//! Harmony prompts and completions of gpt-oss models.

mod completion;
mod decode;
mod logprobs;
mod prompt;
mod scan;
mod stops;

pub use completion::HarmonyServer;
pub use prompt::{HarmonyPrompt, HarmonyPromptOptions};

use self::decode::HarmonyDecoder;
use super::definition::{Fallback, WireRequest};
use crate::http::{RequestTarget, WireEndpoint};
use crate::{ModelRequest, ProviderAccount, ProviderError};

/// The form of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptForm {
    /// Token ids; text if the server rejects ids and the text is safe.
    #[default]
    Auto,
    /// Token ids.
    Ids,
    /// Text; an error if the conversation contains a control token.
    Text,
}

static COMPLETIONS: WireEndpoint = WireEndpoint {
    replaced_segment: None,
    account: ProviderAccount::OPENAI,
    example: "http://localhost:8000/v1",
};

/// The native endpoint of llama.cpp, which is next to `/v1`.
static LLAMA_CPP: WireEndpoint = WireEndpoint {
    replaced_segment: Some("v1"),
    account: ProviderAccount::OPENAI,
    example: "http://localhost:8080",
};

/// Returns the endpoint of a completion server.
pub(crate) fn endpoint(server: HarmonyServer) -> &'static WireEndpoint {
    match server {
        HarmonyServer::LlamaCpp => &LLAMA_CPP,
        _ => &COMPLETIONS,
    }
}

/// Encodes a request for a completion server.
///
/// # Errors
/// Returns an error if the prompt cannot represent the conversation in the requested form.
pub(crate) fn encode<'r>(
    request: &'r ModelRequest<'r>,
    server: HarmonyServer,
    form: PromptForm,
    accepts_incomplete: bool,
) -> Result<WireRequest<'r>, ProviderError> {
    let prompt = HarmonyPrompt::new(request, &HarmonyPromptOptions::default())?;
    let decoder = Box::new(HarmonyDecoder::new(
        request,
        prompt.opening(),
        accepts_incomplete,
    ));
    let body = match form {
        PromptForm::Text => server.body(request, prompt.text()?.into()),
        PromptForm::Ids | PromptForm::Auto => server.body(request, prompt.ids()?.into()),
    };
    let path: &[&'static str] = match server {
        HarmonyServer::LlamaCpp => &["completion"],
        _ => &["completions"],
    };
    let mut encoded = WireRequest::new(RequestTarget::from_path(path), body, decoder);
    if form == PromptForm::Auto {
        encoded.fallback = Some(Fallback {
            applies_to: completion::rejects_ids,
            body: Box::new(move || Ok(server.body(request, prompt.text()?.into()))),
        });
    }
    Ok(encoded)
}
