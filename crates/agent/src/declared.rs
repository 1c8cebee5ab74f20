//! A function that somebody declares and nothing here can run.

use logue_message::ToolDefinition;
use logue_tools::{BoxFuture, Call, Outcome, Tool};

/// Offered to the model; a turn ends where it is called.
#[derive(Debug)]
pub(crate) struct Declared(pub(crate) ToolDefinition);

impl Tool for Declared {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call<'a>(&'a self, _: Call<'a>) -> BoxFuture<'a, Outcome> {
        let name = &self.0.name;
        let outcome = Outcome::failed(format!("nothing here can run `{name}`"));
        Box::pin(std::future::ready(outcome))
    }

    fn is_runnable(&self) -> bool {
        false
    }
}
