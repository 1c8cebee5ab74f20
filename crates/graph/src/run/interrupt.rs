//! A table of suspensions and errors that must bypass the code between engine and node.
//!
//! Every step of every graph of the invocation has a *slot* while it runs, and every attempt of a
//! node body has a *ticket* within the slot of its step. A suspension goes to the slot if its
//! ticket is still open. A suspension whose ticket is closed, or that never had one because it
//! comes from a middleware, is a mistake and goes to the slot as an error; if the slot is closed
//! too, the next step that checks finds it. A graph inside a node forwards its own interrupt to the
//! slot of that node, so that no code between the two can catch it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::error::{EngineError, SuspensionErrorKind};
use crate::pause::suspension::SuspendRequest;
use futures_util::future::BoxFuture;

/// The end of a step, regardless of the code in between.
#[derive(Debug)]
pub(crate) enum Interrupt {
    Suspended(SuspendRequest),
    Failed(EngineError),
}

/// The result of a step.
pub(crate) enum Attempt<T> {
    Returned(T),
    Interrupted(Interrupt),
}

/// The slot and ticket through which a node or middleware may interrupt.
#[derive(Clone, Debug)]
pub(crate) struct AttemptHandle {
    pub(crate) slot: u64,
    /// None for middleware, which may not suspend.
    pub(crate) ticket: Option<u64>,
    pub(crate) node: Arc<str>,
}

/// The slots of one invocation.
#[derive(Debug, Default)]
pub(crate) struct InterruptTable {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    slots: HashMap<u64, Slot>,
    /// The open tickets.
    tickets: HashSet<u64>,
    misplaced: Option<EngineError>,
}

#[derive(Debug, Default)]
struct Slot {
    found: Option<Box<Interrupt>>,
    /// The task of the engine: a node may suspend from another task than its own.
    engine: Option<Waker>,
}

impl InterruptTable {
    /// Opens a slot until the guard is dropped.
    pub(crate) fn open(&self) -> SlotGuard<'_> {
        let mut inner = self.lock();
        let number = inner.next();
        inner.slots.insert(number, Slot::default());
        SlotGuard { desk: self, number }
    }

    /// Opens a ticket until the guard is dropped.
    pub(crate) fn ticket(&self) -> AttemptGuard<'_> {
        let mut inner = self.lock();
        let number = inner.next();
        inner.tickets.insert(number);
        AttemptGuard { desk: self, number }
    }

    /// Takes the first suspension that came after the end of its step.
    pub(crate) fn misplaced(&self) -> Option<EngineError> {
        self.lock().misplaced.take()
    }

    /// Records a suspension, unless the step has one: the first one counts.
    pub(crate) fn suspend(&self, seat: &AttemptHandle, request: SuspendRequest) {
        let mut inner = self.lock();
        let reason = match seat.ticket {
            None => SuspensionErrorKind::Middleware,
            Some(ticket) if inner.tickets.contains(&ticket) => {
                inner.leave(seat.slot, Interrupt::Suspended(request));
                return wake(inner, seat.slot);
            }
            Some(_) => SuspensionErrorKind::NodeEnded,
        };
        let mistake = EngineError::SuspensionUnsupported {
            node: seat.node.as_ref().to_owned(),
            signal_id: request.descriptor.signal_id,
            reason,
        };
        if inner.slot(seat.slot).is_some() {
            inner.leave(seat.slot, Interrupt::Failed(mistake));
            return wake(inner, seat.slot);
        }
        inner.misplaced.get_or_insert(mistake);
        let slots = inner.slots.values_mut();
        let engines: Vec<_> = slots.filter_map(|slot| slot.engine.take()).collect();
        drop(inner);
        engines.into_iter().for_each(Waker::wake);
    }

    /// Forwards the interrupt of an inner graph to a slot, and never returns.
    pub(crate) async fn propagate<T>(&self, slot: u64, found: Interrupt) -> T {
        self.leave(slot, found);
        std::future::pending().await
    }

    /// Runs a body until it returns; it never returns after its step has ended.
    pub(crate) async fn body<T>(&self, slot: u64, mut body: BoxFuture<'_, T>) -> T {
        let mut stopped = false;
        std::future::poll_fn(|cx| {
            if stopped {
                return Poll::Pending;
            }
            let polled = body.as_mut().poll(cx);
            stopped = self.is_over(slot);
            if stopped { Poll::Pending } else { polled }
        })
        .await
    }

    /// Runs a step until it returns or its slot receives an interrupt.
    pub(crate) async fn attempt<T>(&self, slot: u64, mut step: BoxFuture<'_, T>) -> Attempt<T> {
        std::future::poll_fn(|cx| {
            self.register_waker(slot, cx.waker());
            let polled = step.as_mut().poll(cx);
            match (self.found(slot), polled) {
                (Some(found), _) => Poll::Ready(Attempt::Interrupted(found)),
                (None, Poll::Ready(value)) => Poll::Ready(Attempt::Returned(value)),
                (None, Poll::Pending) => Poll::Pending,
            }
        })
        .await
    }

    fn leave(&self, slot: u64, found: Interrupt) {
        let mut inner = self.lock();
        inner.leave(slot, found);
        wake(inner, slot);
    }

    fn register_waker(&self, slot: u64, waker: &Waker) {
        let mut inner = self.lock();
        if let Some(slot) = inner.slot(slot) {
            match &mut slot.engine {
                Some(engine) => engine.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
    }

    fn is_over(&self, slot: u64) -> bool {
        let mut inner = self.lock();
        inner.misplaced.is_some() || inner.slot(slot).is_none_or(|slot| slot.found.is_some())
    }

    fn found(&self, slot: u64) -> Option<Interrupt> {
        let mut inner = self.lock();
        let misplaced = inner.misplaced.take().map(Interrupt::Failed);
        let found = inner.slot(slot).and_then(|slot| slot.found.take());
        let found = found.map(|found| *found);
        match found {
            // A mistake takes precedence, because no other code reports it.
            None | Some(Interrupt::Suspended(_)) if misplaced.is_some() => misplaced,
            found => found,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut inner: MutexGuard<'_, Inner>, slot: u64) {
    let engine = inner.slot(slot).and_then(|slot| slot.engine.take());
    drop(inner);
    if let Some(engine) = engine {
        engine.wake();
    }
}

impl Inner {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots.get_mut(&number)
    }

    /// Records the first interrupt, but a mistake replaces a suspension.
    fn leave(&mut self, slot: u64, found: Interrupt) {
        let Some(slot) = self.slot(slot) else {
            return;
        };
        match (slot.found.as_deref(), &found) {
            (None, _) | (Some(Interrupt::Suspended(_)), Interrupt::Failed(_)) => {
                slot.found = Some(Box::new(found));
            }
            _ => {}
        }
    }
}

/// The lifetime of a step; the slot closes on every exit of the step.
pub(crate) struct SlotGuard<'a> {
    desk: &'a InterruptTable,
    pub(crate) number: u64,
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        let slot = self.desk.lock().slots.remove(&self.number);
        // The contents are dropped after the lock is released.
        drop(slot);
    }
}

/// The period in which an attempt may suspend.
pub(crate) struct AttemptGuard<'a> {
    desk: &'a InterruptTable,
    pub(crate) number: u64,
}

impl Drop for AttemptGuard<'_> {
    fn drop(&mut self) {
        self.desk.lock().tickets.remove(&self.number);
    }
}
