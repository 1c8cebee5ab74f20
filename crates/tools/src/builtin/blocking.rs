//! File access outside the async threads.

use crate::{BoxFuture, ToolResult};

/// Runs blocking work on the blocking thread pool and converts its result.
pub(super) fn blocking(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> BoxFuture<'static, ToolResult> {
    blocking_result(move || match work() {
        Ok(text) => ToolResult::success(text),
        Err(reason) => ToolResult::failure(reason),
    })
}

/// Runs blocking work on the blocking thread pool.
pub(super) fn blocking_result(
    work: impl FnOnce() -> ToolResult + Send + 'static,
) -> BoxFuture<'static, ToolResult> {
    Box::pin(async move {
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| {
                ToolResult::failure(format!("the files could not be reached: {error}"))
            })
    })
}
