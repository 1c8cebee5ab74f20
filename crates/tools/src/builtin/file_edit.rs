//! Tools that change files: what they would do is shown, and what was shown is what they do.

use logue_message::Arguments;

use super::blocking;
use crate::writing::{Plan, exclusively};
use crate::{AccessScope, BoxFuture, Preview, ToolInvocation, ToolResult};

/// A tool that changes files.
pub(super) trait FileEdit: Clone + Send + 'static {
    /// What it may write.
    fn scope(&self) -> &AccessScope;

    /// What a call would do, without doing it. Nobody else of this program writes meanwhile.
    fn plan(&self, arguments: &Arguments) -> Result<Plan, String>;
}

/// Does what a call asks for, if it is what was approved.
pub(super) fn carry_out(
    tool: &impl FileEdit,
    call: ToolInvocation<'_>,
) -> BoxFuture<'static, ToolResult> {
    let (tool, arguments) = (tool.clone(), call.arguments.clone());
    let approved = call.approved.map(str::to_owned);
    blocking(move || {
        let _alone = exclusively();
        let plan = tool.plan(&arguments)?;
        plan.carry_out(tool.scope(), approved.as_deref())
    })
}

/// Shows what a call would do.
pub(super) fn preview(
    tool: &impl FileEdit,
    call: ToolInvocation<'_>,
) -> BoxFuture<'static, Option<Preview>> {
    let (tool, arguments) = (tool.clone(), call.arguments.clone());
    Box::pin(async move {
        let look = move || {
            let _alone = exclusively();
            Plan::preview(tool.plan(&arguments), tool.scope())
        };
        tokio::task::spawn_blocking(look).await.ok()
    })
}
