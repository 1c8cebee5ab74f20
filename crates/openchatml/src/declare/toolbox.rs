//! The tools of a whole conversation, and what they say of a call.

use std::collections::{BTreeMap, HashMap};

use super::{Declarations, DeclaredTool};
use crate::argument_schema::SchemaMismatch;
use crate::syntax::vocabulary::{FUNCTIONS, is_builtin};

/// Maximum number of parts of a recipient that may be its namespace.
const NAMESPACE_PARTS: usize = 4;

/// The tools that were declared so far; of two with one name, the later one.
#[derive(Debug, Default)]
pub(crate) struct ToolIndex {
    bodies: Vec<Declarations>,
    /// Declarations with the body of each.
    by_name: HashMap<String, (usize, usize)>,
    namespaces: BTreeMap<String, bool>,
}

/// An error of a call.
#[derive(Debug)]
pub(crate) enum CallError<'t> {
    /// The namespace is declared, and the tool is not in it.
    Undeclared { namespace: &'t str },
    /// The arguments do not have the shape that this tool of this body declares.
    Arguments {
        mismatch: SchemaMismatch,
        tool: &'t DeclaredTool,
        body: usize,
    },
}

impl ToolIndex {
    /// Adds what another body declares.
    pub(crate) fn add(&mut self, declarations: Declarations) {
        let body = self.bodies.len();
        for (index, tool) in declarations.tools().iter().enumerate() {
            self.by_name.insert(tool.name.clone(), (body, index));
        }
        for (namespace, complete) in declarations.namespaces() {
            let known = self.namespaces.entry(namespace.to_owned()).or_insert(true);
            *known &= complete;
        }
        self.bodies.push(declarations);
    }

    /// The tool with this full name, and the body that declares it.
    pub(crate) fn tool(&self, name: &str) -> Option<(usize, &DeclaredTool)> {
        let (body, index) = *self.by_name.get(name)?;
        Some((body, self.bodies.get(body)?.tools().get(index)?))
    }

    /// Checks the arguments of a call of `name`, if its tool has a schema.
    pub(crate) fn judge(&self, name: &str, arguments: &[u8]) -> Result<bool, CallError<'_>> {
        let Some((body, tool)) = self.tool(name) else {
            return self.undeclared(name).map_or(Ok(false), |namespace| {
                Err(CallError::Undeclared { namespace })
            });
        };
        let Some(shape) = &tool.schema else {
            return Ok(false);
        };
        match shape.check_call(arguments) {
            Ok(()) => Ok(true),
            Err(mismatch) => Err(CallError::Arguments {
                mismatch,
                tool,
                body,
            }),
        }
    }

    /// The namespace of a name that is certainly not declared.
    fn undeclared(&self, name: &str) -> Option<&str> {
        if self.namespaces.is_empty() || name.strip_prefix(FUNCTIONS).is_some_and(is_builtin) {
            return None;
        }
        let ends = memchr::memchr_iter(b'.', name.as_bytes()).take(NAMESPACE_PARTS);
        let longest = ends
            .filter_map(|end| self.namespaces.get_key_value(name.get(..end)?))
            .last();
        longest.and_then(|(namespace, complete)| complete.then_some(namespace.as_str()))
    }
}
