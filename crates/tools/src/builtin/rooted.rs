//! Reading tools whose calls select a named directory by the argument `root`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use serde_json::{Map, Value, json};

use crate::named_root::NamedRoot;
use crate::roots::RootError;
use crate::{BoxFuture, Roots, Tool, ToolInvocation, ToolResult};

/// A reading tool with the argument `root`.
struct RootedTool {
    definition: ToolDefinition,
    checks_arguments: bool,
    /// Runs calls without `root`; `None` confines them to the named directories.
    unconfined: Option<Arc<dyn Tool>>,
    /// The base of relative paths without `root`.
    base: PathBuf,
    roots: Vec<(NamedRoot, Arc<dyn Tool>)>,
}

/// Adds the argument `root` to a reading tool; `of_root` creates the tool of a directory.
///
/// Calls without `root` run the tool itself, or are confined to the named directories.
pub(super) fn rooted(
    tool: Arc<dyn Tool>,
    base: &Path,
    named: &[NamedRoot],
    is_confined: bool,
    of_root: impl Fn(Arc<Roots>) -> Arc<dyn Tool>,
) -> Arc<dyn Tool> {
    if named.is_empty() {
        return tool;
    }
    let mut definition = tool.definition().clone();
    let ids: Vec<&str> = named.iter().map(|root| root.id.as_str()).collect();
    add_root_parameter(&mut definition.parameters, &ids);
    definition.description.push_str("\n\nNamed folders:");
    for root in named {
        let path = root.path().display();
        let line = match &root.description {
            Some(description) => format!("\n- {}: {path} ({description})", root.id),
            None => format!("\n- {}: {path}", root.id),
        };
        definition.description.push_str(&line);
    }
    Arc::new(RootedTool {
        definition,
        checks_arguments: tool.checks_arguments(),
        unconfined: (!is_confined).then_some(tool),
        base: base.to_owned(),
        roots: named
            .iter()
            .map(|root| (root.clone(), of_root(Arc::clone(&root.roots))))
            .collect(),
    })
}

/// Adds the parameter `root`, which takes one of the names `ids`.
pub(super) fn add_root_parameter(parameters: &mut Value, ids: &[&str]) {
    if let Some(properties) = parameters.get_mut("properties") {
        properties["root"] = json!({
            "type": "string",
            "enum": ids,
            "description": "Named folder; the path is then relative to it",
        });
    }
}

/// Returns arguments without a `root` that is one of the names `ids`.
pub(super) fn without_root(arguments: &Arguments, ids: &[&str]) -> Arguments {
    let Ok(mut object) = arguments.object() else {
        return arguments.clone();
    };
    let is_known = match object.get("root") {
        Some(Value::String(root)) => ids.contains(&root.as_str()),
        root => root.is_some_and(Value::is_null),
    };
    if !is_known || ids.is_empty() {
        return arguments.clone();
    }
    object.remove("root");
    Arguments::from_object(&object)
}

impl RootedTool {
    /// Returns the tool of a call and its arguments for that tool.
    fn target(&self, arguments: &Arguments) -> Result<(Arc<dyn Tool>, Arguments), String> {
        let mut object = arguments
            .object()
            .map_err(|error| format!("E-CALL-SCHEMA: the arguments are {error}"))?;
        let root = match object.remove("root") {
            None | Some(Value::Null) => None,
            Some(Value::String(root)) => Some(root),
            Some(_) => return Err("E-CALL-SCHEMA: root: must be a string".to_owned()),
        };
        let path = path_of(&object);
        if let Some(root) = root {
            let found = self.roots.iter().find(|(named, _)| named.id == root);
            let Some((_, tool)) = found else {
                let ids: Vec<&str> = self
                    .roots
                    .iter()
                    .map(|(root, _)| root.id.as_str())
                    .collect();
                return Err(format!(
                    "E-CALL-SCHEMA: root: {root:?} is unknown; the roots are {}",
                    ids.join(", ")
                ));
            };
            if path.is_some_and(|path| Path::new(path).is_absolute()) {
                return Err("E-CALL-SCHEMA: with `root` the path must be relative to it".to_owned());
            }
            return Ok((Arc::clone(tool), Arguments::from_object(&object)));
        }
        if let Some(tool) = &self.unconfined {
            return Ok((Arc::clone(tool), arguments.clone()));
        }
        let shown = path.unwrap_or(".").to_owned();
        let absolute = self.base.join(&shown).display().to_string();
        let holds = |root: &NamedRoot| !root.roots.is_outside(&absolute);
        let (_, tool) = self
            .roots
            .iter()
            .find(|(root, _)| holds(root))
            .ok_or_else(|| RootError::Outside(shown).to_string())?;
        for name in ["file", "path"] {
            if let Some(value) = object.get_mut(name) {
                *value = Value::String(absolute.clone());
            }
        }
        Ok((Arc::clone(tool), Arguments::from_object(&object)))
    }
}

/// Returns the path among the arguments of a reading tool.
fn path_of(object: &Map<String, Value>) -> Option<&str> {
    let path = object.get("file").or_else(|| object.get("path"))?;
    path.as_str()
}

impl Tool for RootedTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn checks_arguments(&self) -> bool {
        self.checks_arguments
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match self.target(call.arguments) {
                Err(reason) => ToolResult::failure(reason),
                Ok((tool, arguments)) => tool.call(ToolInvocation::new(call.id, &arguments)).await,
            }
        })
    }
}
