//! Preview, approval and write of the tools that change files.

use std::fmt;

use logue_message::{Arguments, ToolDefinition};
use serde_json::Value;

use super::blocking::blocking;
use crate::writing::{Plan, lock_writes};
use crate::{AccessScope, BoxFuture, Preview, Tool, ToolInvocation, ToolResult};

/// Plans the changes of a call without making them. The text of an error is for the model.
type PlanFn = fn(&AccessScope, &Arguments) -> Result<Plan, String>;

/// A tool that changes files below the roots.
///
/// A call is planned, shown as a diff with a fingerprint, planned again and written only if the
/// fingerprint is still the approved one.
#[derive(Clone)]
pub(super) struct FileEdit {
    definition: ToolDefinition,
    scope: AccessScope,
    plan: PlanFn,
}

impl FileEdit {
    pub(super) fn new(
        scope: &AccessScope,
        name: &str,
        description: &str,
        parameters: Value,
        plan: PlanFn,
    ) -> Self {
        Self {
            definition: ToolDefinition::new(name, description, parameters),
            scope: scope.clone(),
            plan,
        }
    }
}

impl Tool for FileEdit {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn checks_arguments(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let (tool, arguments) = (self.clone(), call.arguments.clone());
        let approved = call.approved.map(str::to_owned);
        blocking(move || {
            let _lock = lock_writes();
            let plan = (tool.plan)(&tool.scope, &arguments)?;
            plan.carry_out(&tool.scope, approved.as_deref())
        })
    }

    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        let (tool, arguments) = (self.clone(), call.arguments.clone());
        Box::pin(async move {
            let preview = move || {
                let _lock = lock_writes();
                Plan::preview((tool.plan)(&tool.scope, &arguments), &tool.scope)
            };
            tokio::task::spawn_blocking(preview).await.ok()
        })
    }
}

impl fmt::Debug for FileEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileEdit")
            .field("name", &self.definition.name)
            .finish_non_exhaustive()
    }
}
