//! The received part of an answer, which is durable before the answer is complete.
//!
//! Pieces are collected and noted in the journal together: after a second, after 4 KiB, when the
//! request fails, and when the turn is cancelled or asked to stop. So a process that is killed loses at most a
//! second of the text that it has shown.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use logue_graph::{NodeContext, NodeError};
use logue_harness::chat::TurnNote;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::turn::listener::TurnEvent;

/// The time for which a piece is only in memory.
const INTERVAL: Duration = Duration::from_secs(1);

/// The share of the time that writing may take: a slow write lengthens the interval.
const SLOWEST_SHARE: u32 = 20;

/// The bytes that are only in memory.
const SIZE: usize = 4 * 1024;

/// A request to stop a turn after the received part of an answer is durable.
///
/// Cloning shares it. A stopped turn does not continue; its owner drops the future.
#[derive(Clone, Debug, Default)]
pub struct TurnStop {
    inner: Arc<StopState>,
}

#[derive(Debug, Default)]
struct StopState {
    is_requested: AtomicBool,
    /// Set while received text is made durable before a turn is cancelled.
    is_flushing: AtomicBool,
    requested: Notify,
    /// Set while received text is not durable.
    is_unsaved: AtomicBool,
    saved: Notify,
}

impl TurnStop {
    /// Creates a stop without a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether both are clones of one stop.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Requests the stop.
    pub fn request(&self) {
        self.inner.is_requested.store(true, Ordering::SeqCst);
        self.inner.requested.notify_waiters();
    }

    /// Stops the turn that runs, and waits until all received text is durable.
    ///
    /// The turn must be polled meanwhile, and be dropped afterwards. A later turn is not stopped.
    pub async fn flush(&self) {
        let _flushing = Flushing::new(&self.inner.is_flushing);
        self.inner.requested.notify_waiters();
        self.saved().await;
    }

    /// Waits until all received text is durable. The turn must be polled meanwhile.
    pub async fn saved(&self) {
        loop {
            let mut saved = pin!(self.inner.saved.notified());
            saved.as_mut().enable();
            if !self.inner.is_unsaved.load(Ordering::SeqCst) {
                return;
            }
            saved.await;
        }
    }

    fn is_requested(&self) -> bool {
        self.inner.is_requested.load(Ordering::SeqCst)
            || self.inner.is_flushing.load(Ordering::SeqCst)
    }

    fn set_unsaved(&self, is_unsaved: bool) {
        self.inner.is_unsaved.store(is_unsaved, Ordering::SeqCst);
        if !is_unsaved {
            self.inner.saved.notify_waiters();
        }
    }
}

/// Marks a stop while a turn is flushed.
struct Flushing<'a>(&'a AtomicBool);

impl<'a> Flushing<'a> {
    fn new(is_flushing: &'a AtomicBool) -> Self {
        is_flushing.store(true, Ordering::SeqCst);
        Self(is_flushing)
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// The pieces of one answer that are not in the journal yet.
pub(crate) struct AnswerParts {
    pieces: Mutex<String>,
    stop: TurnStop,
}

impl Drop for AnswerParts {
    fn drop(&mut self) {
        self.stop.set_unsaved(false);
    }
}

impl AnswerParts {
    pub(crate) fn new(stop: &TurnStop) -> Self {
        Self {
            pieces: Mutex::default(),
            stop: stop.clone(),
        }
    }

    /// Adds a piece that was received.
    pub(crate) fn received(&self, piece: &str) {
        self.pieces().push_str(piece);
        self.stop.set_unsaved(true);
    }

    /// Awaits the answer and notes its pieces in the journal meanwhile.
    ///
    /// # Errors
    /// Returns the error of the journal.
    pub(crate) async fn keep<T, E>(
        &self,
        ctx: &NodeContext<TurnEvent>,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, NodeError> {
        let mut answer = pin!(answer);
        let mut interval = INTERVAL;
        loop {
            let mut timer = None;
            let mut requested = pin!(self.stop.inner.requested.notified());
            requested.as_mut().enable();
            let ended = poll_fn(|task| {
                if let Poll::Ready(answer) = answer.as_mut().poll(task) {
                    return Poll::Ready(Some(answer));
                }
                let waiting = self.pieces().len();
                if waiting == 0 {
                    return Poll::Pending;
                }
                let timer = timer.get_or_insert_with(|| Box::pin(sleep(interval)));
                let is_due = waiting >= SIZE
                    || self.stop.is_requested()
                    || timer.as_mut().poll(task).is_ready()
                    || requested.as_mut().poll(task).is_ready();
                if is_due {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                }
            })
            .await;
            match ended {
                Some(Ok(answer)) => return Ok(Ok(answer)),
                Some(Err(error)) => {
                    self.note(ctx).await?;
                    return Ok(Err(error));
                }
                None => {
                    let started = Instant::now();
                    self.note(ctx).await?;
                    interval = INTERVAL.max(started.elapsed() * SLOWEST_SHARE);
                }
            }
            if self.stop.is_requested() {
                return std::future::pending().await;
            }
        }
    }

    async fn note(&self, ctx: &NodeContext<TurnEvent>) -> Result<(), NodeError> {
        let pieces = std::mem::take(&mut *self.pieces());
        if !pieces.is_empty() {
            ctx.journal(TurnNote::part(&pieces)).await?;
        }
        self.stop.set_unsaved(false);
        Ok(())
    }

    fn pieces(&self) -> MutexGuard<'_, String> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
