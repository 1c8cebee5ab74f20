//! Argument schemas of the tools that a conversation names, for checks without a run.
//!
//! They are those of the tools that a run sets up, which refuse the same calls.

use chatmd::{Document, ToolKind};
use logue_message::{Arguments, ToolDefinition};
use logue_tools::{Builtin, Roots, ShellOptions, Tool as _};
use openchatml::declare::CallSchemas;

use crate::agents::agent_tool::agent_definition;
use crate::prompt::toolbox::command;

/// Returns the schemas of all built-in tools, by the names that `builtin_tools` lists.
pub fn builtin_schemas() -> CallSchemas {
    let mut schemas = CallSchemas::new();
    for builtin in Builtin::ALL.iter().copied() {
        let definition = builtin.definition(&[]);
        for name in builtin.names() {
            schemas = schemas.with_name(*name, &[&definition.name]);
        }
        schemas = with_builtin(schemas, builtin, &definition, &[]);
    }
    let browser = Builtin::named("browser").unwrap_or_default().into_iter();
    let browser: Vec<&str> = browser.flat_map(Builtin::names).copied().collect();
    schemas.with_name("browser", &browser)
}

/// Returns the schemas of the tools that a ChatMD document declares.
///
/// Tools of servers have none: they are not started for a check.
pub fn declared_schemas(document: &Document) -> CallSchemas {
    let roots = document.tools().flat_map(|tool| &tool.roots);
    let roots: Vec<&str> = roots.map(|root| root.id.as_str()).collect();
    let mut schemas = CallSchemas::new();
    for tool in document.tools() {
        match &tool.kind {
            ToolKind::Builtin { name } => {
                for builtin in Builtin::named(name).unwrap_or_default() {
                    let definition = builtin.definition(&roots);
                    // Older transcripts call a built-in by the name that declares it.
                    if builtin.names().contains(&name.as_str()) {
                        let mut older = definition.clone();
                        older.name.clone_from(name);
                        schemas = with_builtin(schemas, builtin, &older, &roots);
                    }
                    schemas = with_builtin(schemas, builtin, &definition, &roots);
                }
            }
            ToolKind::Command { .. } | ToolKind::AnyProgram { .. } => {
                let tool = command(tool, &Roots::default(), ShellOptions::default());
                if let Some(Ok(tool)) = tool {
                    schemas = schemas.with_tool(tool.definition());
                }
            }
            ToolKind::Agent {
                name,
                agent,
                description,
                ..
            } => {
                let definition = agent_definition(name, description.as_deref(), agent);
                schemas = schemas.with_tool(&definition);
            }
            _ => {}
        }
    }
    schemas
}

/// Adds a built-in tool, which may check its arguments itself.
fn with_builtin(
    schemas: CallSchemas,
    builtin: Builtin,
    definition: &ToolDefinition,
    roots: &[&str],
) -> CallSchemas {
    let roots: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
    let probe = Arguments::from_text("{}");
    if builtin.check_arguments(&probe, &[]).is_none() {
        return schemas.with_tool(definition);
    }
    schemas.with_checked_tool(definition, move |arguments| {
        let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
        builtin.check_arguments(arguments, &roots).unwrap_or(Ok(()))
    })
}
