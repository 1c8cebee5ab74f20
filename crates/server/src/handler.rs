//! The requests of clients and their responses.

use std::sync::{Arc, Mutex, PoisonError};

use logue_agent::{Listener, TurnEvent};
use logue_message::{Content, ImageSource, Role as Speaker};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, Prompt, PromptArgument,
    PromptMessage, PromptsCapability, Role, ServerCapabilities, ServerConfig, SubscriptionFilter,
    Tool, ToolsCapability,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::call::{answer, evaluate};
use crate::server::PromptServer;

impl ServerHandler for PromptServer {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        capabilities.tools = Some(tools);
        let mut prompts = PromptsCapability::default();
        prompts.list_changed = Some(true);
        capabilities.prompts = Some(prompts);
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("logue", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Each tool runs a prompt with a history of its own: it receives `input` and returns the \
             answer. The prompts of the same names return their messages."
                .to_owned(),
        );
        info
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.changes();
        let peer = context.peer;
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let notified = async {
                    peer.notify_tool_list_changed().await?;
                    peer.notify_prompt_list_changed().await
                };
                if notified.await.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::default();
        accepted.tools_list_changed = requested.tools_list_changed;
        accepted.prompts_list_changed = requested.prompts_list_changed;
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    // A notification without a subscription is refused, as intended.
                    drop(context.sink().notify_tool_list_changed().await);
                    drop(context.sink().notify_prompt_list_changed().await);
                }
            }
        }
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let catalog = self.catalog();
        let tools = catalog.iter().map(|entry| {
            let schema = json!({
                "type": "object",
                "properties": {
                    "input": {"type": "string", "description": "The input of the prompt."}
                },
                "required": ["input"],
                "additionalProperties": false,
            });
            let schema: Map<String, Value> = schema.as_object().cloned().unwrap_or_default();
            Tool::new(
                entry.name.clone(),
                entry.description.clone(),
                Arc::new(schema),
            )
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let catalog = self.catalog();
        let prompts = catalog.iter().map(|entry| {
            let input = PromptArgument::new("input")
                .with_description("A message of the user after the prompt.")
                .with_required(false);
            Prompt::new(
                entry.name.clone(),
                Some(entry.description.clone()),
                Some(vec![input]),
            )
        });
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let entry = self.entry(&request.name)?;
        let _turn = self.turn(&context).await?;
        let prompt = tokio::select! {
            () = context.ct.cancelled() => return Err(cancelled()),
            prompt = evaluate(self.host(), &entry.file) => prompt,
        };
        let prompt = prompt.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let mut messages: Vec<PromptMessage> = Vec::new();
        for message in &prompt.messages {
            // MCP has no role for instructions and no place for tools.
            let role = match message.role {
                Speaker::Assistant => Role::Assistant,
                Speaker::Tool => continue,
                _ => Role::User,
            };
            let text = message.text();
            if !text.is_empty() {
                messages.push(PromptMessage::new_text(role.clone(), text));
            }
            messages.extend(
                images(&message.content).map(|image| PromptMessage::new(role.clone(), image)),
            );
        }
        let input = request.arguments.as_ref();
        let input = input.and_then(|arguments| arguments.get("input")?.as_str());
        if let Some(input) = input.filter(|input| !input.trim().is_empty()) {
            messages.push(PromptMessage::new_text(Role::User, input));
        }
        let mut result = GetPromptResult::new(messages);
        result.description = Some(entry.description);
        Ok(result.into())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let entry = self.entry(&request.name)?;
        let input = request.arguments.as_ref();
        let input = input.and_then(|arguments| arguments.get("input")?.as_str());
        let Some(input) = input else {
            return Ok(error(
                "E-CALL-SCHEMA: the arguments are not an object with the string `input`",
            ));
        };
        let _turn = self.turn(&context).await?;
        let progress = Arc::new(ProgressText::default());
        let listener = Arc::clone(&progress);
        let answering = answer(self.host(), &entry.file, input, listener);
        let reporting = report_progress(&context, &progress);
        tokio::select! {
            () = context.ct.cancelled() => Err(cancelled()),
            () = reporting => Err(cancelled()),
            answered = answering => Ok(match answered {
                Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
                Err(failed) => error(&failed.to_string()),
            }),
        }
    }
}

fn error(text: &str) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(text)]).into()
}

/// The error of a cancelled request; its client does not read it.
pub(crate) fn cancelled() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

/// Converts the images of a message: data as content, addresses as links.
fn images(content: &Content) -> impl Iterator<Item = ContentBlock> + '_ {
    let blocks: &[logue_message::ContentBlock] = match content {
        Content::Blocks(blocks) => blocks,
        _ => &[],
    };
    blocks.iter().filter_map(|block| match block {
        logue_message::ContentBlock::Image {
            source, media_type, ..
        } => Some(match source {
            ImageSource::Inline(data) => {
                let kind = media_type.as_deref().unwrap_or("image/png");
                ContentBlock::image(data.clone(), kind)
            }
            ImageSource::Url(url) => ContentBlock::text(format!("[image: {url}]")),
            _ => ContentBlock::text("[image]"),
        }),
        _ => None,
    })
}

/// Text of a response that was not reported yet.
#[derive(Default)]
struct ProgressText {
    words: Mutex<String>,
    news: Notify,
}

impl Listener for ProgressText {
    fn event(&self, event: TurnEvent) {
        if let TurnEvent::Delta(text) = event {
            let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
            words.push_str(&text);
            self.news.notify_one();
        }
    }
}

/// Reports text of the response to a client that requests progress. Never ends.
async fn report_progress(context: &RequestContext<RoleServer>, progress: &ProgressText) {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let mut count = 0_u32;
    loop {
        progress.news.notified().await;
        let words = {
            let mut words = progress
                .words
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *words)
        };
        count = count.saturating_add(1);
        let news = ProgressNotificationParam::new(token.clone(), f64::from(count));
        // A closed connection ends the call elsewhere.
        drop(context.peer.notify_progress(news.with_message(words)).await);
    }
}
