//! Concurrent execution of the calls of one response.

use std::collections::VecDeque;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::{BoxFuture, ToolResult};

/// Calls that start in the order of their addition and end in any order.
///
/// An exclusive call starts after every earlier call has ended, and later calls start after it has
/// ended, so effects occur in the order of the response. Nothing runs unless [`next`](Self::next)
/// is polled. Dropping the batch cancels all of its calls.
pub struct Batch<'a> {
    most: usize,
    added: usize,
    waiting: VecDeque<Waiting<'a>>,
    running: FuturesUnordered<BoxFuture<'a, (usize, ToolResult)>>,
    /// An exclusive call is running.
    alone: bool,
}

struct Waiting<'a> {
    index: usize,
    exclusive: bool,
    future: BoxFuture<'a, ToolResult>,
}

impl<'a> Batch<'a> {
    /// Creates a batch with a limit of concurrent calls, at least one.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            added: 0,
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
            alone: false,
        }
    }

    /// Adds a call and returns its index, from 0.
    pub fn add(&mut self, exclusive: bool, future: BoxFuture<'a, ToolResult>) -> usize {
        let index = self.added;
        self.added += 1;
        self.waiting.push_back(Waiting {
            index,
            exclusive,
            future,
        });
        index
    }

    /// Waits for the next call to end; `None` after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<(usize, ToolResult)> {
        self.start();
        let ended = self.running.next().await;
        if self.running.is_empty() {
            self.alone = false;
        }
        ended
    }

    fn start(&mut self) {
        while self.running.len() < self.most && !self.alone {
            let Some(next) = self.waiting.front() else {
                return;
            };
            if next.exclusive && !self.running.is_empty() {
                return;
            }
            let Some(next) = self.waiting.pop_front() else {
                return;
            };
            self.alone = next.exclusive;
            let (index, future) = (next.index, next.future);
            self.running
                .push(Box::pin(async move { (index, future.await) }));
        }
    }
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("most", &self.most)
            .field("waiting", &self.waiting.len())
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}
