//! A node that does what its directives say, in the order in which they are written.

use std::sync::Arc;

use logue_graph::{
    List, Middleware, Next, Node, NodeContext, NodeError, SignalDescriptor, State, Update,
};
use logue_harness::BoxFuture;
use logue_message::ChatMessage;
use serde_json::{Map, Value, json};
use tracing::Level;

use crate::seen::Seen;
use crate::vocabulary::{Directive, MiddlewareDef, Raises, SaveDef, SuspendDef};

pub(crate) struct ScriptNode {
    pub(crate) directives: Vec<Directive>,
    pub(crate) seen: Arc<Seen>,
}

impl Node for ScriptNode {
    fn run(&self, ctx: NodeContext) -> BoxFuture<'_, Result<Update, NodeError>> {
        Box::pin(self.perform(ctx))
    }
}

impl ScriptNode {
    async fn perform(&self, ctx: NodeContext) -> Result<Update, NodeError> {
        self.seen.body_ran();
        let mut update = Update::new();
        for directive in &self.directives {
            match directive {
                Directive::Update(fields) => set_all(&mut update, fields),
                Directive::Raises(raises) => self.raise(raises, &ctx)?,
                Directive::Suspend(suspend) => stop(&ctx, suspend).await,
                Directive::ConditionalSuspend(conditional) => {
                    if ctx.place().fan_out_index() == Some(conditional.suspend_on_item_index) {
                        stop(&ctx, &conditional.descriptor).await;
                    }
                }
                Directive::OnOtherIndices(other) => {
                    set_all(&mut update, other.update.as_ref().unwrap_or(&Map::new()));
                    if let Some(from_field) = &other.update_from_field {
                        multiplied(&mut update, from_field, ctx.state())?;
                    }
                }
                Directive::SaveSession(save) => self.save(save, &ctx).await?,
                Directive::EmitsLog(log) => emit(log.level.as_deref(), &log.message),
                Directive::Observes(observes) => {
                    if let Some(field) = &observes.session_id {
                        update.set(field, json!(ctx.session_id().unwrap_or_default()));
                    }
                    if let Some(field) = &observes.messages {
                        let messages = ctx.state().list_of::<ChatMessage>("messages");
                        let messages = messages.map_or(0, List::len);
                        update.set(field, json!(messages));
                    }
                    if let Some(field) = &observes.attempt_index {
                        update.set(field, json!(ctx.attempt_index()));
                    }
                }
                Directive::Meets(count) => {
                    self.seen.meeting(*count).wait().await;
                }
                Directive::Pauses(times) => {
                    for _ in 0..*times {
                        tokio::task::yield_now().await;
                    }
                }
                // What the builder has made of the node.
                Directive::Subgraph(_)
                | Directive::Mapping(_)
                | Directive::Outputs(_)
                | Directive::FanOut(_)
                | Directive::Branches(_)
                | Directive::Middleware(_) => {}
            }
        }
        Ok(update)
    }

    fn raise(&self, raises: &Raises, ctx: &NodeContext) -> Result<(), NodeError> {
        if raises
            .when
            .as_ref()
            .is_some_and(|when| !holds(when, ctx.state()))
        {
            return Ok(());
        }
        let before = self.seen.raised(&ctx.place().namespace());
        if raises.times.is_some_and(|times| before >= times) {
            return Ok(());
        }
        Err(raised(raises))
    }

    /// Saves the session with everything that the node is going to return.
    async fn save(&self, save: &SaveDef, ctx: &NodeContext) -> Result<(), NodeError> {
        let mut update = Update::new();
        for directive in &self.directives {
            if let Directive::Update(fields) = directive {
                set_all(&mut update, fields);
            }
        }
        let swallow = match save {
            SaveDef::Plain(false) => return Ok(()),
            SaveDef::Plain(true) => false,
            SaveDef::Careful(careful) => careful.swallow,
        };
        match ctx.save_session(Some(&update)).await {
            Err(error) if !swallow => Err(error),
            _ => Ok(()),
        }
    }
}

pub(crate) fn raised(raises: &Raises) -> NodeError {
    let message = raises.message.as_ref().unwrap_or(&raises.category);
    NodeError::new(message.clone()).with_category(raises.category.clone())
}

fn set_all(update: &mut Update, fields: &Map<String, Value>) {
    for (name, value) in fields {
        update.set(name, value.clone());
    }
}

/// Suspends, unless the state says that it need not.
async fn stop(ctx: &NodeContext, suspend: &SuspendDef) {
    if suspend
        .unless
        .as_ref()
        .is_some_and(|unless| holds(unless, ctx.state()))
    {
        return;
    }
    let descriptor = descriptor(suspend);
    match suspend.mark_node_completed {
        Some(false) => match ctx.suspend_and_rerun(descriptor).await {},
        _ => match ctx.suspend(descriptor).await {},
    }
}

pub(crate) fn descriptor(suspend: &SuspendDef) -> SignalDescriptor {
    let descriptor = SignalDescriptor::new(suspend.signal_id.clone());
    match &suspend.metadata {
        Some(metadata) => descriptor.with_metadata(metadata.clone()),
        None => descriptor,
    }
}

/// Whether all these fields of the state have these values.
fn holds(fields: &Map<String, Value>, state: &State) -> bool {
    fields.iter().all(|(name, wanted)| {
        state
            .get(name)
            .is_some_and(|value| value.to_json() == *wanted)
    })
}

/// `{target: source, multiplier: n}`.
fn multiplied(
    update: &mut Update,
    from_field: &Map<String, Value>,
    state: &State,
) -> Result<(), NodeError> {
    let by = from_field.get("multiplier");
    let by = by.map_or(Some(1), Value::as_i64);
    for (target, source) in from_field {
        if target == "multiplier" {
            continue;
        }
        let source = source.as_str().unwrap_or_default();
        let value = state.json(source).and_then(Value::as_i64);
        match (value, by) {
            (Some(value), Some(by)) => update.set(target, json!(value.saturating_mul(by))),
            _ => return Err(NodeError::new(format!("`{source}` is no whole number"))),
        }
    }
    Ok(())
}

fn emit(level: Option<&str>, message: &str) {
    match level.and_then(|level| level.parse().ok()) {
        Some(Level::ERROR) => tracing::error!("{message}"),
        Some(Level::WARN) => tracing::warn!("{message}"),
        Some(Level::DEBUG) => tracing::debug!("{message}"),
        Some(Level::TRACE) => tracing::trace!("{message}"),
        _ => tracing::info!("{message}"),
    }
}

pub(crate) struct ScriptMiddleware {
    pub(crate) script: MiddlewareDef,
    pub(crate) seen: Arc<Seen>,
}

impl Middleware for ScriptMiddleware {
    fn around<'a>(
        &'a self,
        ctx: NodeContext,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(async move {
            let script = &self.script;
            if script.logs_session_id {
                self.seen.log(ctx.session_id().unwrap_or_default());
            }
            if let Some(line) = &script.pre_log {
                self.seen.log(line);
            }
            if let Some(suspend) = &script.pre_next_calls_suspend_with_descriptor {
                stop(&ctx, suspend).await;
            }
            let fallback = || Update::from(script.fallback.clone().unwrap_or_default());
            if script.skips {
                return Ok(fallback());
            }
            let mut ended = next.run().await;
            for _ in 0..script.retries.unwrap_or(0) {
                if ended.is_err() {
                    ended = next.run().await;
                }
            }
            if let Some(suspend) = &script.post_next_calls_suspend_with_descriptor {
                stop(&ctx, suspend).await;
            }
            if let (Err(_), Some(line)) = (&ended, &script.catches_all_log) {
                self.seen.log(line);
                ended = Ok(fallback());
            }
            if let Some(line) = &script.post_log {
                self.seen.log(line);
            }
            ended
        })
    }
}
