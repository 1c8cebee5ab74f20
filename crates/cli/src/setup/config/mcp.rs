//! `[mcp]` of `logue.toml`: what servers may cost, and what each of them is told.

use std::collections::BTreeMap;
use std::fmt;

use logue_source::Span;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use toml::Spanned;

/// The section: limits, and a table for each server, named by its address as a prompt declares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mcp {
    pub(crate) start_seconds: Option<u64>,
    pub(crate) call_seconds: Option<u64>,
    pub(crate) cache_minutes: Option<u64>,
    pub(crate) output_bytes: Option<usize>,
    /// Everything else is the address of a server; a misspelled limit is no table, and so an error.
    pub(crate) servers: BTreeMap<String, McpServer>,
}

/// What one server is told.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServer {
    /// Headers of every request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The variable that holds the token of every request.
    pub(crate) bearer_env: Option<Spanned<String>>,
    /// The variable that holds the name of the program at the authorization server.
    pub(crate) client_id_env: Option<Spanned<String>>,
    /// The variable that holds its secret.
    pub(crate) client_secret_env: Option<Spanned<String>>,
}

impl<'de> Deserialize<'de> for Mcp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Section)
    }
}

/// Reads the section key by key: a flattened field would lose where its values are in the file.
struct Section;

impl<'de> Visitor<'de> for Section {
    type Value = Mcp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("limits, and a table for each server")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Mcp, A::Error> {
        let mut section = Mcp::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "start_seconds" => section.start_seconds = Some(map.next_value()?),
                "call_seconds" => section.call_seconds = Some(map.next_value()?),
                "cache_minutes" => section.cache_minutes = Some(map.next_value()?),
                "output_bytes" => section.output_bytes = Some(map.next_value()?),
                _ => drop(section.servers.insert(key, map.next_value()?)),
            }
        }
        Ok(section)
    }
}

impl Mcp {
    /// Whether a file may say what it says. A project's file comes with a checkout, and a checkout may
    /// come from anybody: it sends no variable anywhere that was not meant for Logue.
    ///
    /// # Errors
    /// Why not, and its place in the file.
    pub(crate) fn check(&self, own: bool) -> Result<(), (Span, String)> {
        let named = self.servers.values().flat_map(|server| {
            [
                &server.bearer_env,
                &server.client_id_env,
                &server.client_secret_env,
            ]
        });
        for name in named.flatten() {
            if !own && !name.get_ref().starts_with("LOGUE_") {
                let message = format!(
                    "a project's logue.toml may not send the variable `{}`: name one that begins \
                     with LOGUE_, or put the setting into your own logue/config.toml",
                    name.get_ref()
                );
                return Err((Span::from(name.span()), message));
            }
        }
        Ok(())
    }
}
