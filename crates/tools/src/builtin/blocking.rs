//! File access outside the async threads.

use crate::{BoxFuture, ToolResult};

/// Runs blocking work on the blocking thread pool and converts its result.
pub(super) fn blocking(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> BoxFuture<'static, ToolResult> {
    Box::pin(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(text)) => ToolResult::success(text),
            Ok(Err(reason)) => ToolResult::failure(reason),
            Err(error) => ToolResult::failure(format!("the files could not be reached: {error}")),
        }
    })
}
