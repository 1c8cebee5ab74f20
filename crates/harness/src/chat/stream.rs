//! A turn as it happens.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use logue_message::ChatMessage;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use logue_graph::{BoxFuture, RunEvent};

use super::ChatHarness;
use super::options::SendOptions;
use super::outcome::ChatTurnOutcome;
use super::signal::{SignalError, SignalTarget};

/// What is told of a turn while it runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TurnEvent {
    /// The message is durable; so many entries are in front of it.
    Accepted {
        /// Its position in the inbox of its session.
        entry: u64,
    },
    /// Something happened in the run. A turn that another process runs tells nothing of it.
    Run {
        /// The node in which it happened.
        node: String,
        /// What happened.
        event: RunEvent,
    },
    /// The turn ended. This is the last event.
    Outcome(ChatTurnOutcome),
}

/// The events of a turn, the outcome last. Dropping it drops the turn, as dropping the future of
/// [`send`](ChatHarness::send) does.
pub struct TurnStream {
    events: mpsc::UnboundedReceiver<TurnEvent>,
    turn: Option<BoxFuture<'static, ChatTurnOutcome>>,
    outcome: Option<ChatTurnOutcome>,
}

impl TurnStream {
    fn of<F>(turn: impl FnOnce(Sink) -> F) -> Self
    where
        F: Future<Output = ChatTurnOutcome> + Send + 'static,
    {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            events,
            turn: Some(Box::pin(turn(Sink(Some(sender))))),
            outcome: None,
        }
    }

    /// The next event; `None` behind the outcome.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`next`](Self::next) for those who implement a stream of their own over it.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        if let Some(turn) = &mut self.turn
            && let Poll::Ready(outcome) = Pin::new(turn).poll(cx)
        {
            self.outcome = Some(outcome);
            self.turn = None;
        }
        // What the turn told before it ended comes before its outcome.
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(event)),
            Poll::Ready(None) => Poll::Ready(self.outcome.take().map(TurnEvent::Outcome)),
            Poll::Pending if self.turn.is_none() => {
                Poll::Ready(self.outcome.take().map(TurnEvent::Outcome))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl std::fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnStream").finish_non_exhaustive()
    }
}

/// Where the events of a run go, if anybody wants them.
#[derive(Clone, Debug)]
pub(super) struct Sink(Option<mpsc::UnboundedSender<TurnEvent>>);

impl Sink {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    pub(super) fn tell(&self, event: TurnEvent) {
        if let Some(sender) = &self.0 {
            // Nobody listens any more: the turn goes on.
            drop(sender.send(event));
        }
    }

    pub(super) const fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl ChatHarness {
    /// [`send`](Self::send) as a stream of what happens, which ends with the outcome
    /// (harness-chat §9).
    pub fn send_streaming(&self, session_id: &str, message: ChatMessage) -> TurnStream {
        self.send_streaming_with(session_id, message, SendOptions::new())
    }

    /// [`send_streaming`](Self::send_streaming) with choices.
    pub fn send_streaming_with(
        &self,
        session_id: &str,
        message: ChatMessage,
        options: SendOptions,
    ) -> TurnStream {
        let (inner, session) = (Arc::clone(&self.inner), session_id.to_owned());
        TurnStream::of(|sink| async move {
            match inner.accept(&session, &message, options).await {
                Ok(entry) => {
                    sink.tell(TurnEvent::Accepted { entry });
                    inner.settled(&session, entry, &sink).await
                }
                Err(failure) => inner.errored(failure, None),
            }
        })
    }

    /// [`signal`](Self::signal) as a stream of what happens in the turn that goes on. The signal is
    /// durable when this returns.
    ///
    /// # Errors
    /// The signal was not accepted.
    pub async fn signal_streaming(
        &self,
        target: SignalTarget<'_>,
        payload: Map<String, Value>,
    ) -> Result<TurnStream, SignalError> {
        let (session, entry) = self.inner.accept_signal(target, payload).await?;
        let inner = Arc::clone(&self.inner);
        Ok(TurnStream::of(|sink| async move {
            sink.tell(TurnEvent::Accepted { entry });
            inner.settled(&session, entry, &sink).await
        }))
    }
}
