//! `[model.harmony]` of `logue.toml`: the protocol of servers for gpt-oss models.

use logue_model::{HarmonyServer, PromptForm};
use serde::Deserialize;

/// The settings of one file.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Harmony {
    prompt: Option<Prompt>,
    server: Option<Server>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Prompt {
    Auto,
    Ids,
    Text,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Server {
    Any,
    Vllm,
    #[serde(rename = "llama.cpp")]
    LlamaCpp,
    Plain,
}

impl Harmony {
    /// Returns the form in which prompts are sent.
    pub(crate) fn prompt(self) -> Option<PromptForm> {
        self.prompt.map(|prompt| match prompt {
            Prompt::Auto => PromptForm::Auto,
            Prompt::Ids => PromptForm::Ids,
            Prompt::Text => PromptForm::Text,
        })
    }

    /// Returns the kind of the server.
    pub(crate) fn server(self) -> Option<HarmonyServer> {
        self.server.map(|server| match server {
            Server::Any => HarmonyServer::Any,
            Server::Vllm => HarmonyServer::Vllm,
            Server::LlamaCpp => HarmonyServer::LlamaCpp,
            Server::Plain => HarmonyServer::Plain,
        })
    }
}
