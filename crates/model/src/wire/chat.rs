//! Chat Completions.

mod decode;
mod encode;

use reqwest::header::AUTHORIZATION;

pub(crate) use encode::tool_body;

use super::definition::Wire;
use crate::http::WireEndpoint;
use crate::{ServerKind, ServerProfile};

pub(super) static WIRE: Wire = Wire {
    endpoint: WireEndpoint {
        path: &["chat", "completions"],
        replaced_segment: None,
        key_header: AUTHORIZATION,
        key_prefix: "Bearer ",
        key_variable: "OPENAI_API_KEY",
        headers: &[],
        example: "http://localhost:8000/v1",
    },
    profile,
    encode: encode::encode,
    decoder: || Box::<decode::ChatDecoder>::default(),
};

fn profile(kind: ServerKind) -> &'static ServerProfile {
    match kind {
        ServerKind::OpenAi => &ServerProfile::OPENAI,
        ServerKind::Vllm => &ServerProfile::VLLM,
        ServerKind::LlamaCpp => &ServerProfile::LLAMA_CPP,
        ServerKind::Ollama => &ServerProfile::OLLAMA,
        ServerKind::DeepSeek => &ServerProfile::DEEPSEEK,
        ServerKind::OpenRouter => &ServerProfile::OPENROUTER,
        ServerKind::Compatible => &ServerProfile::COMPATIBLE,
    }
}
