//! A turn as it happens.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use logue_message::ChatMessage;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use logue_graph::{BoxFuture, RunEvent};

use crate::store::Lease;

use super::ChatHarness;
use super::options::SendOptions;
use super::outcome::ChatTurnOutcome;
use super::signal::{SignalError, SignalTarget};

/// An event of a turn while it runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChatEvent<E = ()> {
    /// The message is durable, with this many entries in front of it.
    Accepted {
        /// Its position in the inbox of its session.
        entry: u64,
    },
    /// This process runs the turn from here on; the following events are of this attempt.
    ///
    /// A turn has another attempt after its lease was lost. One that runs in another process has none.
    Claimed {
        /// The lease under which it runs.
        lease: Lease,
        /// Whether an earlier attempt did not end.
        is_recovered: bool,
    },
    /// An event of an earlier entry, which this process runs first.
    Earlier {
        /// The position of that entry.
        entry: u64,
        /// Its event: [`Claimed`](Self::Claimed) or [`Run`](Self::Run).
        event: Box<Self>,
    },
    /// An event of the run.
    Run {
        /// The node in which it happened.
        node: String,
        /// The event.
        event: RunEvent<E>,
    },
    /// The turn ended. This is the last event.
    Outcome(Box<ChatTurnOutcome>),
}

/// The events of a turn, the outcome last. Dropping it drops the turn, as dropping the future of
/// [`send`](ChatHarness::send) does.
pub struct TurnStream<E = ()> {
    events: mpsc::UnboundedReceiver<ChatEvent<E>>,
    turn: Option<BoxFuture<'static, ChatTurnOutcome>>,
    outcome: Option<ChatTurnOutcome>,
}

impl<E: Send + 'static> TurnStream<E> {
    pub(super) fn from_turn<F>(turn: impl FnOnce(Sink<E>) -> F) -> Self
    where
        F: Future<Output = ChatTurnOutcome> + Send + 'static,
    {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            events,
            turn: Some(Box::pin(turn(Sink {
                sender: Some(sender),
                earlier: None,
            }))),
            outcome: None,
        }
    }

    /// The next event; `None` after the outcome.
    pub async fn next(&mut self) -> Option<ChatEvent<E>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn outcome(&mut self) -> Option<ChatEvent<E>> {
        let outcome = self.outcome.take()?;
        Some(ChatEvent::Outcome(Box::new(outcome)))
    }

    /// [`next`](Self::next) for those who implement a stream of their own over it.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ChatEvent<E>>> {
        // The turn continues when its events were received.
        if let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            return Poll::Ready(Some(event));
        }
        if let Some(turn) = &mut self.turn
            && let Poll::Ready(outcome) = Pin::new(turn).poll(cx)
        {
            self.outcome = Some(outcome);
            self.turn = None;
        }
        // The events of the turn come before its outcome.
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(event)),
            Poll::Ready(None) => Poll::Ready(self.outcome()),
            Poll::Pending if self.turn.is_none() => Poll::Ready(self.outcome()),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<E> std::fmt::Debug for TurnStream<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnStream").finish_non_exhaustive()
    }
}

/// The optional receiver of the events of a run.
pub(super) struct Sink<E> {
    sender: Option<mpsc::UnboundedSender<ChatEvent<E>>>,
    /// The earlier entry whose events these are.
    earlier: Option<u64>,
}

impl<E> Clone for Sink<E> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            earlier: self.earlier,
        }
    }
}

impl<E> Sink<E> {
    pub(super) const fn none() -> Self {
        Self {
            sender: None,
            earlier: None,
        }
    }

    /// Returns the receiver of the events of an earlier entry.
    pub(super) fn of_earlier(&self, entry: u64) -> Self {
        Self {
            sender: self.sender.clone(),
            earlier: Some(entry),
        }
    }

    pub(super) fn emit(&self, event: ChatEvent<E>) {
        let event = match self.earlier {
            Some(entry) => ChatEvent::Earlier {
                entry,
                event: Box::new(event),
            },
            None => event,
        };
        if let Some(sender) = &self.sender {
            // The receiver is gone: the turn continues.
            drop(sender.send(event));
        }
    }

    pub(super) const fn is_none(&self) -> bool {
        self.sender.is_none()
    }
}

impl<E: Send + 'static> ChatHarness<E> {
    /// [`send`](Self::send) as a stream of what happens, which ends with the outcome
    /// (harness-chat §9).
    pub fn send_streaming(&self, session_id: &str, message: ChatMessage) -> TurnStream<E> {
        self.send_streaming_with(session_id, message, SendOptions::new())
    }

    /// [`send_streaming`](Self::send_streaming) with choices.
    pub fn send_streaming_with(
        &self,
        session_id: &str,
        message: ChatMessage,
        options: SendOptions,
    ) -> TurnStream<E> {
        let (inner, session) = (Arc::clone(&self.inner), session_id.to_owned());
        TurnStream::from_turn(|sink| async move {
            match inner.accept(&session, &message, options).await {
                Ok(accepted) => {
                    let entry = accepted.entry;
                    sink.emit(ChatEvent::Accepted { entry });
                    inner.settled_after(&session, accepted, &sink).await
                }
                Err(failure) => inner.errored(failure, None),
            }
        })
    }

    /// Sends a [`signal`](Self::signal) and streams the events of the resumed turn.
    ///
    /// The signal is durable when this returns.
    ///
    /// # Errors
    /// The signal was not accepted.
    pub async fn signal_streaming(
        &self,
        target: SignalTarget<'_>,
        payload: Map<String, Value>,
    ) -> Result<TurnStream<E>, SignalError> {
        let accepted = self.accept_signal(target, payload).await?;
        let inner = Arc::clone(&self.inner);
        Ok(TurnStream::from_turn(|sink| async move {
            let entry = accepted.entry();
            sink.emit(ChatEvent::Accepted { entry });
            inner.settled(accepted.session(), entry, &sink).await
        }))
    }
}
