//! Validation of arguments before a call.
//!
//! Definitions come from prompts, programs and servers. An unusable schema must not fail a turn:
//! calls of its tool are not validated, with one warning.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logue_message::schema::Schema;
use logue_message::{Arguments, CallKind, ToolCall, ToolDefinition};
use serde_json::{Map, Value};

/// Maximum number of violations reported to the model per call.
const MAX_REPORTED: usize = 5;

/// A tool whose arguments cannot be validated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaWarning {
    /// The name of the tool.
    pub tool: String,
    /// The reason why its schema is unusable.
    pub reason: String,
}

/// The compiled schemas, each compiled on first use.
#[derive(Clone, Default)]
pub(super) struct Schemas {
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    /// By tool name: the parameters and the schema compiled from them. A server may change the
    /// parameters of a tool.
    schemas: BTreeMap<String, (Value, Option<Arc<Schema>>)>,
    warnings: Vec<SchemaWarning>,
}

impl Schemas {
    /// Validates arguments; the error is a message for the model.
    pub(super) fn check(
        &self,
        call: &ToolCall,
        arguments: &Arguments,
        definition: &ToolDefinition,
    ) -> Result<(), String> {
        // Free text is not JSON.
        if call.kind == CallKind::Custom {
            return Ok(());
        }
        let object = arguments
            .object()
            .map_err(|error| format!("the arguments are {error}"))?;
        self.check_object(object, definition).map_err(|violations| {
            let name = &definition.name;
            format!("the arguments are not what `{name}` takes, so it was not run{violations}")
        })
    }

    /// Validates an object; the error is a list of the violations, each on a line.
    pub(super) fn check_object(
        &self,
        object: Map<String, Value>,
        definition: &ToolDefinition,
    ) -> Result<(), String> {
        let Some(schema) = self.of(definition) else {
            return Ok(());
        };
        let faults = schema.violations(&Value::Object(object));
        if faults.is_empty() {
            return Ok(());
        }
        let mut message = String::new();
        for fault in faults.iter().take(MAX_REPORTED) {
            message.push_str(&format!("\n- {fault}"));
        }
        match faults.len().saturating_sub(MAX_REPORTED) {
            0 => {}
            more => message.push_str(&format!("\n- and {more} more")),
        }
        Err(message)
    }

    /// Removes and returns the new warnings.
    pub(super) fn take_warnings(&self) -> Vec<SchemaWarning> {
        std::mem::take(&mut self.lock().warnings)
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
            // Without a schema there is nothing to validate.
            Err(_) if definition.parameters.is_null() => None,
            Err(error) => {
                known.warnings.push(SchemaWarning {
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
