//! Tool catalogs of servers and their cache.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use logue_message::object_parameters;
use rmcp::model::{ListToolsResult, Tool};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{FileOwners, private_folder, replace_private_file};

/// Maximum number of tools per server.
pub(crate) const MAX_TOOLS: usize = 1_000;

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offer {
    /// The name at the server.
    pub(crate) name: String,
    pub(crate) description: String,
    /// The JSON Schema of the arguments.
    pub(crate) parameters: Value,
}

/// The tools of a server, in its order.
pub(crate) type Catalog = Vec<Offer>;

/// Returns the tools of a page and the cursor of the next page. Invalid tools are skipped.
pub(crate) fn page(result: ListToolsResult) -> (Catalog, Option<String>) {
    let offers = result.tools.into_iter().map(offer).collect();
    (offers, result.next_cursor)
}

/// Reads a page that contains other entries than tools, and skips those.
pub(crate) fn page_of_value(value: &Value) -> Option<(Catalog, Option<String>)> {
    let tools = value.get("tools")?.as_array()?;
    let read = |tool: &Value| serde_json::from_value::<Tool>(tool.clone()).ok();
    let cursor = value.get("nextCursor").and_then(Value::as_str);
    Some((
        tools.iter().filter_map(read).map(offer).collect(),
        cursor.map(str::to_owned),
    ))
}

fn offer(tool: Tool) -> Offer {
    let mut parameters = object_parameters(Value::Object((*tool.input_schema).clone()));
    // Some model servers require the member.
    if let Some(root) = parameters.as_object_mut()
        && root.get("type").is_some_and(|kind| kind == "object")
    {
        root.entry("properties").or_insert_with(|| json!({}));
    }
    let description = tool.description.map(std::borrow::Cow::into_owned);
    Offer {
        description: description.or(tool.title).unwrap_or_default(),
        name: tool.name.into_owned(),
        parameters,
    }
}

/// A directory of cached catalogs with a limited lifetime.
#[derive(Clone, Debug)]
pub struct CatalogCache {
    folder: PathBuf,
    lifetime: Duration,
    owners: FileOwners,
}

impl CatalogCache {
    /// Creates a cache in `folder`, which is created on first use.
    pub fn new(folder: PathBuf, lifetime: Duration) -> Self {
        Self {
            folder,
            lifetime,
            owners: FileOwners::default(),
        }
    }

    /// Sets the users whose catalogs are used.
    #[must_use]
    pub fn with_owners(self, owners: FileOwners) -> Self {
        Self { owners, ..self }
    }

    /// Returns the cache file of a server identified by `identity`.
    pub(crate) fn file(&self, identity: &[&str]) -> PathBuf {
        let identity = json!([env!("CARGO_PKG_VERSION"), identity]).to_string();
        self.folder
            .join(format!("{:x}.json", Sha256::digest(identity)))
    }

    pub(crate) fn get(&self, file: &Path) -> Option<Catalog> {
        let mut file = self.owners.open(file).ok()?;
        let written = file.metadata().ok()?.modified().ok()?;
        // A modification time in the future has an unknown age.
        let age = SystemTime::now().duration_since(written).ok()?;
        if age > self.lifetime {
            return None;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        let read = |offer: &Value| {
            let text = |key: &str| offer.get(key)?.as_str().map(str::to_owned);
            Some(Offer {
                name: text("name")?,
                description: text("description")?,
                parameters: offer.get("parameters")?.clone(),
            })
        };
        value.as_array()?.iter().map(read).collect()
    }

    /// Stores a catalog. Errors are ignored: they cost only a later request.
    pub(crate) fn put(&self, file: &Path, catalog: &[Offer]) {
        let offers = catalog.iter().map(|offer| {
            json!({
                "name": offer.name,
                "description": offer.description,
                "parameters": offer.parameters,
            })
        });
        let text = Value::Array(offers.collect()).to_string();
        // A catalog is never read partially.
        let written =
            private_folder(&self.folder).and_then(|()| replace_private_file(file, text.as_bytes()));
        drop(written);
    }

    /// Removes a catalog.
    pub(crate) fn remove(file: &Path) {
        // The file may not exist.
        drop(fs::remove_file(file));
    }
}

#[cfg(test)]
mod tests {
    use logue_message::schema::Schema;

    use super::*;

    #[test]
    fn the_verdict_on_an_object_is_that_of_the_declared_schema() {
        let object = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        for declared in [
            json!({"$ref": "#/$defs/R", "$defs": {"R": object}}),
            json!({"type": ["object", "null"], "properties": {"a": {"type": "integer"}}}),
            json!({"anyOf": [object]}),
            json!({"properties": {"a": {"type": "integer"}}}),
            object.clone(),
        ] {
            let page = json!({"tools": [{"name": "f", "inputSchema": declared}]});
            let (catalog, _) = page_of_value(&page).unwrap();
            let schema = Schema::compile(&catalog[0].parameters).unwrap();
            assert!(schema.is_valid(&json!({"a": 1})), "{declared}");
            assert!(!schema.is_valid(&json!({"a": "x"})), "{declared}");
        }
    }
}
