//! Messages as lines, the transport of servers that are programs.
//!
//! Programs print more than messages: banners, logs, malformed JSON. Lines that are not messages
//! are skipped and counted; they neither end the connection nor get a response. A message above the
//! size limit ends the connection, because its request would never be answered.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use super::process::{Input, Output};

/// Errors in the output of a server.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Number of lines that are not messages.
    pub(crate) skipped: AtomicU64,
    /// Set when a message exceeds the size limit.
    pub(crate) too_long: AtomicBool,
}

/// A transport of lines.
pub(crate) struct Lines {
    read: BufReader<Output>,
    /// The partially read line, stored here because reading may be cancelled at any point.
    line: Vec<u8>,
    limit: usize,
    write: Arc<Mutex<Option<Input>>>,
    /// Messages received together.
    waiting: VecDeque<ServerJsonRpcMessage>,
    faults: Arc<Faults>,
}

impl Lines {
    pub(crate) fn new(read: Output, write: Input, limit: usize, faults: Arc<Faults>) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            limit,
            write: Arc::new(Mutex::new(Some(write))),
            waiting: VecDeque::new(),
            faults,
        }
    }

    /// Reads up to and including the next newline; `false` at the end of the stream.
    async fn read_line(&mut self) -> bool {
        loop {
            let Ok(available) = self.read.fill_buf().await else {
                return false;
            };
            if available.is_empty() {
                return false;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let take = end.map_or(available.len(), |at| at + 1);
            if self.line.len() + take > self.limit {
                self.faults.too_long.store(true, Ordering::Relaxed);
                return false;
            }
            self.line.extend(available.iter().take(take));
            self.read.consume(take);
            if end.is_some() {
                return true;
            }
        }
    }

    /// Parses a line.
    fn take(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        if text.is_empty() {
            return;
        }
        if text.first() == Some(&b'[') {
            // Version 2025-03-26 permits batches.
            match serde_json::from_slice::<Vec<Value>>(text) {
                Ok(values) => {
                    for value in values {
                        self.take_one(serde_json::from_value(value.clone()).ok(), || Some(value));
                    }
                }
                Err(_) => self.skip(),
            }
            return;
        }
        let message = serde_json::from_slice(text).ok();
        self.take_one(message, || serde_json::from_slice(text).ok());
    }

    fn take_one(
        &mut self,
        message: Option<ServerJsonRpcMessage>,
        value: impl FnOnce() -> Option<Value>,
    ) {
        if let Some(message) = message {
            self.waiting.push_back(message);
            return;
        }
        self.skip();
        // An unreadable response still completes its request.
        let value = value().unwrap_or_default();
        let id = value.get("id").filter(|_| value.get("method").is_none());
        let id = id.and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
        if let Some(id) = id {
            let error = ErrorData::internal_error("the answer is malformed", None);
            self.waiting
                .push_back(ServerJsonRpcMessage::error(error, Some(id)));
        }
    }

    fn skip(&self) {
        self.faults.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends a message. The future is independent of the transport.
    pub(super) fn send(
        &self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let Some(stream) = write.as_mut() else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            stream.write_all(&line).await?;
            stream.flush().await
        }
    }

    /// Receives a message; `None` at the end. Cancel safe.
    pub(super) async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut turns = 0_u32;
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            if !self.read_line().await {
                return None;
            }
            self.take();
            turns += 1;
            if turns.is_multiple_of(64) {
                // A flood of lines must not starve other tasks.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Closes the input of the server.
    pub(super) async fn close(&self) {
        drop(self.write.lock().await.take());
    }
}
