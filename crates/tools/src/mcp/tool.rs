//! Tools of servers as tools of the model.

use std::sync::Arc;

use logue_message::ToolDefinition;

use super::catalog::Offer;
use super::names::wire_safe;
use super::server::Server;
use crate::{BoxFuture, Tool, ToolInvocation, ToolResult, ToolSource};

/// One tool of a server.
pub(crate) struct McpTool {
    definition: ToolDefinition,
    /// The name at the server.
    name: String,
    server: Arc<Server>,
}

impl McpTool {
    fn new(offer: &Offer, strict: bool, server: Arc<Server>) -> Self {
        let mut definition = ToolDefinition::new(
            wire_safe(&offer.name),
            offer.description.clone(),
            offer.parameters.clone(),
        );
        definition.strict = strict;
        Self {
            definition,
            name: offer.name.clone(),
            server,
        }
    }
}

impl Tool for McpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            // A tool without parameters may be called with empty arguments.
            let arguments = if call.arguments.as_str().trim().is_empty() {
                serde_json::Map::new()
            } else {
                match call.arguments.object() {
                    Ok(object) => object.into_iter().collect(),
                    Err(error) => {
                        return ToolResult::failure(format!(
                            "E-CALL-SCHEMA: the arguments are {error}"
                        ));
                    }
                }
            };
            self.server.call(&self.name, arguments).await
        })
    }

    fn fingerprint<'a>(&'a self, _: ToolInvocation<'a>) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { Some(format!("{} {}", self.server.fingerprint().await, self.name)) })
    }
}

/// The tools that one declaration uses from a server.
pub(crate) struct Declared {
    pub(crate) server: Arc<Server>,
    /// The names to use, none of them empty; `None` uses all.
    pub(crate) names: Option<Vec<String>>,
    pub(crate) strict: bool,
    pub(crate) prefix: String,
}

impl ToolSource for Declared {
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<dyn Tool>>> {
        Box::pin(async {
            // A server that was unreachable when the turn began offers nothing.
            let catalog = self.server.known().unwrap_or_default();
            let wanted = |offer: &&Offer| {
                let names = self.names.as_ref();
                names.is_none_or(|names| names.contains(&offer.name))
            };
            let offers = catalog.iter().filter(wanted);
            let tool = |offer: &Offer| {
                let server = Arc::clone(&self.server);
                Arc::new(McpTool::new(offer, self.strict, server)) as Arc<dyn Tool>
            };
            offers.map(tool).collect()
        })
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.server.refresh())
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }
}
