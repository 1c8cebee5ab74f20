//! The events of a turn that its log has not taken yet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use logue_agent::TurnEvent;
use logue_graph::RunEvent;
use logue_harness::chat::ChatEvent;
use tokio::sync::Notify;

/// A queue between a turn and its log, which loses nothing.
///
/// A turn never waits for its log: it renews its lease while it runs. Instead, the pieces of a text
/// that follow each other become one event while they wait, so that a slow log costs at most the
/// text of the answer and a few events for each request and each call.
#[derive(Default)]
pub(crate) struct TurnQueue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<ChatEvent<TurnEvent>>,
    has_ended: bool,
}

impl TurnQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub(crate) fn push(&self, mut event: ChatEvent<TurnEvent>) {
        if emitted(&mut event).is_some_and(|event| is_hidden(event)) {
            return;
        }
        let mut waiting = self.lock();
        let rest = match waiting.events.back_mut() {
            Some(last) => joined(last, event),
            None => Some(event),
        };
        waiting.events.extend(rest);
        drop(waiting);
        self.changed.notify_one();
    }

    /// Notes that no event follows.
    pub(crate) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_one();
    }

    /// Returns the waiting events, after at least one has arrived; none at the end.
    pub(crate) async fn take(&self) -> VecDeque<ChatEvent<TurnEvent>> {
        loop {
            if let Some(events) = self.waiting_events() {
                return events;
            }
            self.changed.notified().await;
        }
    }

    fn waiting_events(&self) -> Option<VecDeque<ChatEvent<TurnEvent>>> {
        let mut waiting = self.lock();
        let is_ready = !waiting.events.is_empty() || waiting.has_ended;
        is_ready.then(|| std::mem::take(&mut waiting.events))
    }
}

/// Joins an event to the one before it, or returns it.
fn joined(
    last: &mut ChatEvent<TurnEvent>,
    mut event: ChatEvent<TurnEvent>,
) -> Option<ChatEvent<TurnEvent>> {
    match (emitted(last), emitted(&mut event)) {
        (Some(TurnEvent::Delta(text)), Some(TurnEvent::Delta(next))) => text.push_str(next),
        // Clients learn only that the model reasons.
        (Some(last), Some(next)) if is_reasoning(last) && is_reasoning(next) => {}
        _ => return Some(event),
    }
    None
}

fn emitted(event: &mut ChatEvent<TurnEvent>) -> Option<&mut TurnEvent> {
    match event {
        ChatEvent::Run {
            event: RunEvent::Emitted(event),
            ..
        } => Some(event),
        // Events of different entries are never next to each other: an attempt begins in between.
        ChatEvent::Earlier { event, .. } => emitted(event),
        _ => None,
    }
}

const fn is_reasoning(event: &TurnEvent) -> bool {
    matches!(
        event,
        TurnEvent::Reasoning(_) | TurnEvent::ReasoningSummary { .. }
    )
}

/// Returns whether an event is a piece of the text of a called agent.
///
/// Clients do not receive it.
fn is_hidden(event: &TurnEvent) -> bool {
    match event {
        TurnEvent::OfAgent { event, .. } => {
            matches!(**event, TurnEvent::Delta(_)) || is_reasoning(event) || is_hidden(event)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(event: TurnEvent) -> ChatEvent<TurnEvent> {
        ChatEvent::Run {
            node: "model".to_owned(),
            event: RunEvent::Emitted(event),
        }
    }

    fn texts(events: VecDeque<ChatEvent<TurnEvent>>) -> Vec<String> {
        let names = events.into_iter().map(|event| match event {
            ChatEvent::Run {
                event: RunEvent::Emitted(TurnEvent::Delta(text)),
                ..
            } => text,
            ChatEvent::Run { event, .. } => format!("{event:?}"),
            _ => "other".to_owned(),
        });
        names.collect()
    }

    #[tokio::test]
    async fn pieces_that_wait_become_one_event_and_keep_their_place() {
        let queue = TurnQueue::default();
        queue.push(ChatEvent::Accepted { entry: 1 });
        for number in 0..10_000 {
            queue.push(run(TurnEvent::Delta(format!("{number} "))));
        }
        for _ in 0..1_000 {
            queue.push(run(TurnEvent::Reasoning("hm".to_owned())));
        }
        queue.push(run(TurnEvent::Calling("tool".to_owned())));
        queue.push(run(TurnEvent::Delta("end".to_owned())));
        let numbers: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        let all = numbers.join(" ") + " ";
        let events = texts(queue.take().await);
        assert_eq!(events.len(), 5, "{events:?}");
        assert_eq!((&*events[0], &events[1]), ("other", &all));
        assert_eq!(events[4], "end");
    }

    #[tokio::test]
    async fn what_was_taken_is_not_joined_again() {
        let queue = TurnQueue::default();
        queue.push(run(TurnEvent::Delta("a".to_owned())));
        assert_eq!(texts(queue.take().await), ["a"]);
        queue.push(run(TurnEvent::Delta("b".to_owned())));
        queue.end();
        assert_eq!(texts(queue.take().await), ["b"]);
        assert!(queue.take().await.is_empty());
    }
}
