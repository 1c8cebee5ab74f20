//! Arguments held against the schemas of their tools, before anything runs.
//!
//! Definitions come from prompts, programs and servers. One whose schema is of no use must not cost
//! a turn: the calls of its tool go unchecked, and that is noted once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logue_message::schema::Schema;
use logue_message::{Arguments, CallKind, ToolCall, ToolDefinition};
use serde_json::Value;

/// Faults of one call that the model is told.
const MAX_VIOLATIONS: usize = 5;

/// A tool whose arguments nobody can check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaWarning {
    /// The tool.
    pub tool: String,
    /// Why its schema is of no use.
    pub reason: String,
}

/// The schemas of tools, each read when it is needed first.
#[derive(Clone, Default)]
pub(super) struct Schemas {
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    /// By the tool's name: what was read, and what it was read from. A server may give a tool of the
    /// same name other parameters.
    schemas: BTreeMap<String, (Value, Option<Arc<Schema>>)>,
    notes: Vec<SchemaWarning>,
}

impl Schemas {
    /// Whether arguments are what a definition asks for, or what the model is told instead.
    pub(super) fn check(
        &self,
        call: &ToolCall,
        arguments: &Arguments,
        definition: &ToolDefinition,
    ) -> Result<(), String> {
        // Free text is no JSON.
        if call.kind == CallKind::Custom {
            return Ok(());
        }
        let object = arguments
            .object()
            .map_err(|error| format!("the arguments are {error}"))?;
        let Some(schema) = self.of(definition) else {
            return Ok(());
        };
        let faults = schema.violations(&Value::Object(object));
        if faults.is_empty() {
            return Ok(());
        }
        let name = &definition.name;
        let mut told = format!("the arguments are not what `{name}` takes, so it was not run");
        for fault in faults.iter().take(MAX_VIOLATIONS) {
            told.push_str(&format!("\n- {fault}"));
        }
        match faults.len().saturating_sub(MAX_VIOLATIONS) {
            0 => {}
            more => told.push_str(&format!("\n- and {more} more")),
        }
        Err(told)
    }

    /// What was noted since the last time.
    pub(super) fn take_notes(&self) -> Vec<SchemaWarning> {
        std::mem::take(&mut self.lock().notes)
    }

    fn of(&self, definition: &ToolDefinition) -> Option<Arc<Schema>> {
        let mut known = self.lock();
        if let Some((parameters, schema)) = known.schemas.get(&definition.name)
            && *parameters == definition.parameters
        {
            return schema.clone();
        }
        let schema = match Schema::compile(&definition.parameters) {
            Ok(schema) => Some(Arc::new(schema)),
            // A tool that says nothing of its parameters has none to check.
            Err(_) if definition.parameters.is_null() => None,
            Err(error) => {
                known.notes.push(SchemaWarning {
                    tool: definition.name.clone(),
                    reason: error.to_string(),
                });
                None
            }
        };
        let read = (definition.parameters.clone(), schema.clone());
        known.schemas.insert(definition.name.clone(), read);
        schema
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Schemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schemas")
            .field("read", &self.lock().schemas.len())
            .finish_non_exhaustive()
    }
}
