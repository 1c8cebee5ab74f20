//! The body of a request for a response.

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::chat::parameters::{TurnParameters, refuse_fields, refuse_tools};
use crate::chat::problem::Problem;

/// The longest metadata of a response.
const MAX_PAIRS: usize = 16;
const MAX_NAME: usize = 64;
const MAX_VALUE: usize = 512;

/// A request. Parameters of models are those of the agent, and other fields are ignored.
#[derive(Deserialize)]
pub(super) struct ResponseRequest {
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) input: Value,
    #[serde(default)]
    pub(super) instructions: Option<Value>,
    #[serde(default)]
    pub(super) previous_response_id: Option<String>,
    #[serde(default)]
    conversation: Option<Value>,
    #[serde(default)]
    background: Option<bool>,
    #[serde(default)]
    store: Option<bool>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    metadata: Option<Value>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    text: Option<Value>,
    #[serde(default)]
    prompt: Option<Value>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    max_tool_calls: Option<Value>,
}

impl ResponseRequest {
    /// Parses the body of a request that can be answered.
    ///
    /// # Errors
    /// Returns a problem if the body is malformed or requests what agents do not offer.
    pub(super) fn parse(bytes: &Bytes) -> Result<Self, Problem> {
        let request: Self = serde_json::from_slice(bytes)
            .map_err(|error| Problem::invalid(format!("invalid request body: {error}")))?;
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<(), Problem> {
        refuse_tools(self.tools.as_deref(), self.tool_choice.as_ref())?;
        refuse_fields(&[("max_tool_calls", self.max_tool_calls.as_ref())])?;
        self.parameters()?;
        if self.prompt.as_ref().is_some_and(|prompt| !prompt.is_null()) {
            let problem = Problem::invalid("`prompt` must be empty").with_param("prompt");
            return Err(problem.with_help("name the agent whose prompt is to be used: `model`"));
        }
        if self.previous_response_id.is_some() && self.conversation_id()?.is_some() {
            return Err(Problem::invalid(
                "name `previous_response_id` or `conversation`, not both",
            ));
        }
        if !self.is_stored() && (self.is_background() || self.conversation_id()?.is_some()) {
            return Err(Problem::invalid(
                "`background` and `conversation` require `store`",
            ));
        }
        metadata(self.metadata.as_ref())?;
        Ok(())
    }

    /// Returns the parameters of the turn.
    ///
    /// # Errors
    /// Returns a problem if one is invalid.
    pub(super) fn parameters(&self) -> Result<TurnParameters, Problem> {
        let mut parameters = TurnParameters::default();
        let format = self.text.as_ref().and_then(|text| text.get("format"));
        parameters.set_format(format, "text.format")?;
        parameters.set_max_tokens(self.max_output_tokens, "max_output_tokens")?;
        Ok(parameters)
    }

    /// Returns the required form of the answer, if it has a schema.
    pub(super) fn format(&self) -> Option<Value> {
        let is_structured = self.parameters().is_ok_and(|own| own.is_structured());
        let format = self.text.as_ref().and_then(|text| text.get("format"));
        format.filter(|_| is_structured).cloned()
    }

    /// Returns the part of the request that its entry keeps.
    pub(super) fn kept(&self, has_instructions: bool) -> KeptRequest {
        KeptRequest {
            previous: self.previous_response_id.clone(),
            has_instructions,
            is_background: self.is_background(),
            metadata: self.metadata(),
            format: self.format().map(|format| format_name(&format)),
            max_tokens: self.max_output_tokens,
        }
    }

    /// Returns the id of the conversation, in both of its forms.
    pub(super) fn conversation_id(&self) -> Result<Option<&str>, Problem> {
        match &self.conversation {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(id)) => Ok(Some(id)),
            Some(named) => match named.get("id").and_then(Value::as_str) {
                Some(id) => Ok(Some(id)),
                None => Err(Problem::invalid("`conversation` must be an id")),
            },
        }
    }

    pub(super) fn is_background(&self) -> bool {
        self.background.unwrap_or_default()
    }

    pub(super) fn is_stored(&self) -> bool {
        self.store.unwrap_or(true)
    }

    pub(super) fn is_streamed(&self) -> bool {
        self.stream.unwrap_or_default()
    }

    pub(super) fn metadata(&self) -> Map<String, Value> {
        metadata(self.metadata.as_ref()).unwrap_or_default()
    }
}

/// Parses metadata: texts by names.
///
/// # Errors
/// Returns a problem if there are too many, or if one is too long or no text.
pub(super) fn metadata(given: Option<&Value>) -> Result<Map<String, Value>, Problem> {
    let pairs = match given {
        None | Some(Value::Null) => return Ok(Map::new()),
        Some(Value::Object(pairs)) if pairs.len() <= MAX_PAIRS => pairs,
        Some(_) => {
            let detail = format!("`metadata` must be an object of at most {MAX_PAIRS} texts");
            return Err(Problem::invalid(detail));
        }
    };
    for (name, value) in pairs {
        let is_valid = value.as_str().is_some_and(|value| value.len() <= MAX_VALUE);
        if !is_valid || name.len() > MAX_NAME {
            return Err(Problem::invalid(format!(
                "`metadata` has names of at most {MAX_NAME} bytes and texts of at most {MAX_VALUE}"
            )));
        }
    }
    Ok(pairs.clone())
}

/// The part of a request that the key of its entry contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptRequest {
    pub(super) previous: Option<String>,
    /// Whether the first part of the message is the instructions.
    pub(super) has_instructions: bool,
    pub(super) is_background: bool,
    pub(super) metadata: Map<String, Value>,
    /// The label of the session with the required form of the answer.
    pub(super) format: Option<String>,
    pub(super) max_tokens: Option<u64>,
}

/// Returns the label of a session for a form, which requests may share.
pub(super) fn format_name(format: &Value) -> String {
    let digest = format!("{:x}", Sha256::digest(format.to_string()));
    format!("response_format:{digest}")
}

/// The first characters of the keys of entries.
const KEY: &str = "response:";

impl KeptRequest {
    /// Returns the key of an entry: `unique` names the request.
    pub(super) fn to_key(&self, unique: &str) -> String {
        let mut kept = Map::new();
        if let Some(previous) = &self.previous {
            kept.insert("previous".to_owned(), json!(previous));
        }
        for (name, value) in [
            ("instructions", self.has_instructions),
            ("background", self.is_background),
        ] {
            if value {
                kept.insert(name.to_owned(), json!(true));
            }
        }
        if !self.metadata.is_empty() {
            kept.insert("metadata".to_owned(), json!(self.metadata));
        }
        if let Some(format) = &self.format {
            kept.insert("format".to_owned(), json!(format));
        }
        if let Some(max) = self.max_tokens {
            kept.insert("max_tokens".to_owned(), json!(max));
        }
        format!("{KEY}{unique}:{}", Value::Object(kept))
    }

    /// Reads the key of an entry; other keys contain nothing.
    pub(super) fn from_key(key: Option<&str>) -> Self {
        let kept = key.and_then(|key| key.strip_prefix(KEY)?.split_once(':'));
        let kept: Value = kept
            .and_then(|(_, kept)| serde_json::from_str(kept).ok())
            .unwrap_or_default();
        let is_set = |name: &str| kept.get(name) == Some(&Value::Bool(true));
        let previous = kept.get("previous").and_then(Value::as_str);
        let metadata = kept.get("metadata").and_then(Value::as_object);
        Self {
            previous: previous.map(str::to_owned),
            has_instructions: is_set("instructions"),
            is_background: is_set("background"),
            metadata: metadata.cloned().unwrap_or_default(),
            format: kept
                .get("format")
                .and_then(Value::as_str)
                .map(str::to_owned),
            max_tokens: kept.get("max_tokens").and_then(Value::as_u64),
        }
    }
}
