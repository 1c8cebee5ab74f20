//! The declaration of a tool.

use serde_json::{Map, Value, json};

/// Keywords that providers reject at the root of a schema without a type.
const REJECTED: [&str; 6] = ["anyOf", "oneOf", "allOf", "not", "enum", "$ref"];

/// The declaration of one tool in a provider request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The name of the tool in calls.
    pub name: String,
    /// The purpose of the tool, written for the model.
    pub description: String,
    /// JSON Schema of the arguments, which are an object.
    ///
    /// Calls are validated against it; requests contain [`ToolDefinition::provider_parameters`].
    pub parameters: Value,
    /// Whether the provider should enforce the schema exactly.
    pub strict: bool,
}

impl ToolDefinition {
    /// Creates a definition that is not strict.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            strict: false,
        }
    }

    /// Sets whether the provider should enforce the schema exactly.
    #[must_use]
    pub const fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Returns the parameters for a request, whose root must be of the type `object`.
    ///
    /// A root of that type is verbatim. Another root gets the keywords of the definition that its
    /// `$ref` names, and loses the keywords that providers reject.
    pub fn provider_parameters(&self) -> Value {
        let Value::Object(declared) = &self.parameters else {
            return any_object();
        };
        if is_object_type(declared) {
            return self.parameters.clone();
        }
        let mut root = declared.clone();
        let pointer = declared.get("$ref").and_then(Value::as_str);
        let target = pointer
            .and_then(|pointer| self.parameters.pointer(pointer.strip_prefix('#')?))
            .and_then(Value::as_object);
        for (key, value) in target.into_iter().flatten() {
            root.entry(key).or_insert_with(|| value.clone());
        }
        root.retain(|key, _| !REJECTED.contains(&key.as_str()));
        root.insert("type".to_owned(), json!("object"));
        root.entry("properties").or_insert_with(|| json!({}));
        Value::Object(root)
    }
}

/// Returns the schema against which the calls of a tool are validated.
///
/// It is the declared schema. One whose type excludes objects becomes one that accepts every object,
/// because arguments are always an object.
///
/// ```
/// use logue_message::object_parameters;
/// use serde_json::json;
///
/// let schema = json!({"$ref": "#/$defs/R", "$defs": {"R": {"required": ["a"]}}});
/// assert_eq!(object_parameters(schema.clone()), schema);
/// assert_eq!(object_parameters(json!({"type": "string"}))["type"], "object");
/// ```
pub fn object_parameters(declared: Value) -> Value {
    let accepts_objects = declared
        .as_object()
        .is_some_and(|root| match root.get("type") {
            None => true,
            Some(Value::Array(types)) => types.contains(&json!("object")),
            Some(_) => is_object_type(root),
        });
    if accepts_objects {
        declared
    } else {
        any_object()
    }
}

fn is_object_type(root: &Map<String, Value>) -> bool {
    root.get("type").is_some_and(|kind| kind == "object")
}

fn any_object() -> Value {
    json!({"type": "object", "properties": {}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(parameters: Value) -> Value {
        ToolDefinition::new("f", "", parameters).provider_parameters()
    }

    #[test]
    fn a_request_has_an_object_at_the_root() {
        let typed = json!({"type": "object", "anyOf": [{"required": ["a"]}]});
        assert_eq!(sent(typed.clone()), typed);
        let definitions =
            json!({"R": {"type": "object", "properties": {"a": {}}, "required": ["a"]}});
        assert_eq!(
            sent(json!({"$ref": "#/$defs/R", "$defs": definitions})),
            json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "$defs": definitions})
        );
        assert_eq!(
            sent(json!({"type": ["object", "null"], "required": ["a"]})),
            json!({"type": "object", "properties": {}, "required": ["a"]})
        );
        for other in [
            json!({"anyOf": [{}, {}]}),
            json!({"$ref": "#/none"}),
            json!(true),
        ] {
            assert_eq!(sent(other), any_object());
        }
    }

    #[test]
    fn a_schema_that_accepts_no_object_is_not_enforced() {
        for declared in [
            json!({"type": "string"}),
            json!({"type": ["null"]}),
            json!(false),
        ] {
            assert_eq!(object_parameters(declared), any_object());
        }
    }
}
