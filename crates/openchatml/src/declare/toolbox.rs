//! The tools of a whole conversation, and what they say of a call.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::{CallSchemas, Declarations, DeclaredTool};
use crate::argument_schema::SchemaMismatch;
use crate::messages::tool_of;
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
    /// The built-in tools that a header lists, if it has a list.
    builtins: Option<BTreeSet<String>>,
    /// The schemas of those built-in tools.
    schemas: CallSchemas,
    /// Whether the message that declares built-in tools is not known.
    has_other_builtins: bool,
    /// Whether a declaration could not be read or is not known.
    has_unread: bool,
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
    /// The arguments do not fit the schema of this built-in tool.
    Builtin { mismatch: SchemaMismatch },
}

impl ToolIndex {
    /// Adds what another body declares.
    pub(crate) fn add(&mut self, declarations: Declarations) {
        let body = self.bodies.len();
        self.has_unread |= !declarations.issues().is_empty();
        for (index, tool) in declarations.tools().iter().enumerate() {
            self.by_name.insert(tool.name.clone(), (body, index));
        }
        for (namespace, complete) in declarations.namespaces() {
            let known = self.namespaces.entry(namespace.to_owned()).or_insert(true);
            *known &= complete;
        }
        self.bodies.push(declarations);
    }

    /// Adds the list of built-in tools of a header.
    ///
    /// `schemas` are those of all built-in tools.
    pub(crate) fn list_builtins(&mut self, names: Option<&Value>, schemas: &CallSchemas) {
        let names = match names {
            Some(Value::Array(names)) => names.as_slice(),
            Some(name @ Value::String(_)) => std::slice::from_ref(name),
            _ => return,
        };
        let names = names.iter().filter_map(Value::as_str);
        self.schemas = schemas.listed(names.clone());
        self.has_unread |= names.clone().any(|name| !schemas.knows(name));
        self.builtins = Some(names.map(str::to_owned).collect());
    }

    /// Accepts every built-in tool, because the message that declares them is not known.
    pub(crate) const fn accept_builtins(&mut self) {
        self.has_other_builtins = true;
    }

    /// The tool with this full name, and the body that declares it.
    pub(crate) fn tool(&self, name: &str) -> Option<(usize, &DeclaredTool)> {
        let (body, index) = *self.by_name.get(name)?;
        Some((body, self.bodies.get(body)?.tools().get(index)?))
    }

    /// Checks the arguments of a call of `name`, if its tool has a schema.
    pub(crate) fn judge(&self, name: &str, arguments: &[u8]) -> Result<bool, CallError<'_>> {
        // A built-in tool runs calls of a function with its name.
        let builtin = tool_of(name);
        if self.schemas.has(builtin) {
            let mismatch = self.schemas.mismatch(builtin, arguments);
            return mismatch.map_or(Ok(false), |mismatch| Err(CallError::Builtin { mismatch }));
        }
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

    /// The owner of the declarations among which a name certainly is not.
    fn undeclared(&self, name: &str) -> Option<&str> {
        let builtin = name.strip_prefix(FUNCTIONS).unwrap_or(name);
        let family = builtin.split('.').next().unwrap_or(builtin);
        if is_builtin(builtin) && !self.namespaces.contains_key(family) {
            return self.undeclared_builtin(builtin, family);
        }
        if self.namespaces.is_empty() {
            return self.unlisted(name, builtin);
        }
        let ends = memchr::memchr_iter(b'.', name.as_bytes()).take(NAMESPACE_PARTS);
        let longest = ends
            .filter_map(|end| self.namespaces.get_key_value(name.get(..end)?))
            .last();
        longest.and_then(|(namespace, complete)| complete.then_some(namespace.as_str()))
    }

    /// The list of built-in tools, if a function is certainly not declared beside it.
    fn unlisted(&self, name: &str, builtin: &str) -> Option<&str> {
        let listed = self.builtins.as_ref()?;
        let is_function = name.starts_with(FUNCTIONS);
        let is_open = self.has_other_builtins || self.has_unread || listed.contains(builtin);
        (is_function && !is_open).then_some("builtin_tools")
    }

    /// A built-in tool needs to be listed or declared where any tool is.
    fn undeclared_builtin(&self, name: &str, family: &str) -> Option<&str> {
        let is_listed = self
            .builtins
            .as_ref()
            .is_some_and(|builtins| builtins.contains(family) || builtins.contains(name));
        let is_open = self.builtins.is_none() && self.namespaces.values().all(|complete| !complete);
        let is_declared = self.has_other_builtins
            || self.by_name.contains_key(family)
            || self
                .by_name
                .keys()
                .any(|tool| tool.strip_prefix(FUNCTIONS) == Some(name));
        if is_listed || is_open || is_declared {
            return None;
        }
        let first = self.namespaces.keys().next();
        Some(first.map_or("builtin_tools", String::as_str))
    }
}
