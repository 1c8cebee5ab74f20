//! Chat Completions.

mod decode;
mod encode;

pub(crate) use encode::tool_body;

use super::definition::Wire;
use crate::http::WireEndpoint;
use crate::{ProviderAccount, ServerKind, ServerProfile};

pub(super) static WIRE: Wire = Wire {
    endpoint: WireEndpoint {
        replaced_segment: None,
        account: ProviderAccount::OPENAI,
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
