//! What is asked of an answer, besides that it goes on with the conversation.

use std::sync::Arc;

use logue_message::schema::Schema;
use logue_message::{ChatMessage, ToolDefinition};
use logue_model::{Category, ProviderError, Request, Settings, ToolChoice};
use serde_json::Value;

/// What is asked of the answers of a turn.
#[derive(Clone, Debug, Default)]
pub struct Demands {
    /// Whether the model has to call tools. It holds for the first request of a turn only: a model
    /// that had to call a tool each time would never answer.
    pub tool_choice: ToolChoice,
    /// The JSON Schema that the turn's answer has to meet; an object at its root. An answer that
    /// calls tools is not held to it, as another one follows.
    pub response_schema: Option<Arc<Value>>,
}

impl Demands {
    /// Whether they can be met with these tools: for whoever wants to know before anything is
    /// written.
    ///
    /// # Errors
    /// `provider_invalid_request`: a tool is chosen that is not offered, or the schema is none.
    pub fn check(&self, tools: &[ToolDefinition]) -> Result<(), ProviderError> {
        let (messages, settings) = ([ChatMessage::user("?")], Settings::default());
        let request = Request::new("", &messages, &settings).with_tools(tools);
        self.applied(request, 1).validate()?;
        let Some(schema) = &self.response_schema else {
            return Ok(());
        };
        Schema::compile(schema).map(drop).map_err(|error| {
            let message = format!("the response schema: {error}");
            ProviderError::new(Category::InvalidRequest, message)
                .with_help("mend the schema; only references into itself (`#/…`) are followed")
        })
    }

    /// The n-th request of a turn, from 1, with what is asked of its answer.
    pub(crate) fn applied<'a>(&'a self, mut request: Request<'a>, number: u64) -> Request<'a> {
        if number == 1 {
            request.tool_choice = &self.tool_choice;
        }
        request.response_schema = self.response_schema.as_deref();
        request
    }
}
