//! Tools that change files: what they would do is shown, and what was shown is what they do.

use logue_message::Arguments;

use super::blocking;
use crate::writing::{Plan, exclusively};
use crate::{BoxFuture, Call, Outcome, Preview, Reach};

/// A tool that changes files.
pub(super) trait Changing: Clone + Send + 'static {
    /// What it may write.
    fn reach(&self) -> &Reach;

    /// What a call would do, without doing it. Nobody else of this program writes meanwhile.
    fn plan(&self, arguments: &Arguments) -> Result<Plan, String>;
}

/// Does what a call asks for, if it is what was approved.
pub(super) fn carry_out(tool: &impl Changing, call: Call<'_>) -> BoxFuture<'static, Outcome> {
    let (tool, arguments) = (tool.clone(), call.arguments.clone());
    let approved = call.approved.map(str::to_owned);
    blocking(move || {
        let _alone = exclusively();
        let plan = tool.plan(&arguments)?;
        plan.carry_out(tool.reach(), approved.as_deref())
    })
}

/// Shows what a call would do.
pub(super) fn preview(tool: &impl Changing, call: Call<'_>) -> BoxFuture<'static, Option<Preview>> {
    let (tool, arguments) = (tool.clone(), call.arguments.clone());
    Box::pin(async move {
        let look = move || {
            let _alone = exclusively();
            Plan::preview(tool.plan(&arguments), tool.reach())
        };
        tokio::task::spawn_blocking(look).await.ok()
    })
}
