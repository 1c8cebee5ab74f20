//! Requirements on the responses of a turn.

use std::sync::Arc;

use logue_message::schema::Schema;
use logue_message::{ChatMessage, Role, ToolDefinition};
use logue_model::{Category, ModelRequest, ProviderError, SamplingSettings, ToolChoice};
use serde_json::Value;

/// Requirements on the responses of a turn.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ResponseRequirements {
    /// The tools that the model must call in the request that answers the user's message.
    ///
    /// `None` leaves it to the prompt. Corrections and requests with results of tools are free: a model
    /// that had to call a tool each time would never answer.
    pub tool_choice: Option<ToolChoice>,
    /// The JSON Schema of the turn's answer, with an object at its root.
    ///
    /// A response that calls tools is exempt, because another one follows.
    pub response_schema: Option<Arc<Value>>,
}

impl ResponseRequirements {
    /// Sets the tools that the model must call first.
    #[must_use]
    pub fn with_tool_choice(mut self, choice: impl Into<Option<ToolChoice>>) -> Self {
        self.tool_choice = choice.into();
        self
    }

    /// Sets the JSON Schema of the turn's answer; `None` removes it.
    #[must_use]
    pub fn with_response_schema(mut self, schema: impl Into<Option<Arc<Value>>>) -> Self {
        self.response_schema = schema.into();
        self
    }

    /// Returns the requirements, with those of `other` for the absent ones.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tool_choice: self.tool_choice.or(other.tool_choice),
            response_schema: self.response_schema.or(other.response_schema),
        }
    }

    /// Checks that the requirements can be met with these tools.
    ///
    /// # Errors
    /// Returns `provider_invalid_request` if a chosen tool is not offered or the schema is invalid.
    pub fn check(&self, tools: &[ToolDefinition]) -> Result<(), ProviderError> {
        let (messages, settings) = ([ChatMessage::user("?")], SamplingSettings::default());
        let request = ModelRequest::new("", &messages, &settings).with_tools(tools);
        self.applied(request).validate()?;
        let Some(schema) = &self.response_schema else {
            return Ok(());
        };
        Schema::compile(schema).map(drop).map_err(|error| {
            let message = format!("the response schema: {error}");
            ProviderError::new(Category::InvalidRequest, message)
                .with_help("mend the schema; only references into itself (`#/…`) are followed")
        })
    }

    /// Applies the requirements to a request.
    pub(crate) fn applied<'a>(&'a self, mut request: ModelRequest<'a>) -> ModelRequest<'a> {
        let last = request.messages.last();
        let is_first = last.is_some_and(|message| message.role == Role::User);
        if let Some(choice) = self.tool_choice.as_ref().filter(|_| is_first) {
            request.tool_choice = choice;
        }
        request.response_schema = self.response_schema.as_deref();
        request
    }
}
