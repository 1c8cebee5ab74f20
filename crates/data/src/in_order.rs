//! Work on pieces of an input in several threads, with results in order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The pieces for each thread that are read, worked on or waiting at a time.
const AHEAD: usize = 3;

/// Passes each piece to `work` in several threads, and the results to `take` in order.
///
/// The first piece needs no threads, so that a small input starts none. `next` runs in a thread of
/// its own, which is not awaited if `take` ends the work: it may be waiting for input.
///
/// # Errors
/// Returns the error of `take`, which ends the work.
pub fn in_order<P, R, E>(
    threads: usize,
    next: impl FnMut() -> Option<P> + Send + 'static,
    work: impl Fn(P) -> R + Sync,
    take: impl FnMut(R) -> Result<ControlFlow<()>, E>,
) -> Result<(), E>
where
    P: Send + 'static,
    R: Send + 'static,
{
    in_order_by_size(threads, |_| 1, next, work, take)
}

/// Works as [`in_order`] on pieces of very different sizes.
///
/// `size` is the number of usual pieces that a piece is as large as, so that few large pieces exist at a time.
pub(crate) fn in_order_by_size<P, R, E>(
    threads: usize,
    size: impl Fn(&P) -> usize + Send + 'static,
    mut next: impl FnMut() -> Option<P> + Send + 'static,
    work: impl Fn(P) -> R + Sync,
    mut take: impl FnMut(R) -> Result<ControlFlow<()>, E>,
) -> Result<(), E>
where
    P: Send + 'static,
    R: Send + 'static,
{
    let most = threads * AHEAD;
    let size = move |piece: &P| size(piece).clamp(1, most);
    let mut count = 0;
    while let Some(piece) = next() {
        if threads > 1 && count > 0 {
            let size_of_first = size(&piece);
            return spread(threads, (piece, size_of_first), size, next, work, take);
        }
        if take(work(piece))?.is_break() {
            break;
        }
        count += 1;
    }
    Ok(())
}

/// An event for the thread that takes the results.
enum Event<P, R> {
    /// A piece with its size.
    Piece(P, usize),
    /// The input has no further piece.
    End,
    /// The result of the piece with this number.
    Done(usize, R),
    /// A thread panicked.
    Lost,
}

fn spread<P, R, E>(
    threads: usize,
    (first, size_of_first): (P, usize),
    size: impl Fn(&P) -> usize + Send + 'static,
    mut next: impl FnMut() -> Option<P> + Send + 'static,
    work: impl Fn(P) -> R + Sync,
    take: impl FnMut(R) -> Result<ControlFlow<()>, E>,
) -> Result<(), E>
where
    P: Send + 'static,
    R: Send + 'static,
{
    let (events, incoming) = mpsc::channel();
    let (permits, permitted) = mpsc::channel();
    for _ in size_of_first..threads * AHEAD {
        // The receiver is there until the input ends.
        let _ = permits.send(());
    }
    let of_reader: Sender<Event<P, R>> = events.clone();
    // An error would mean that the main thread is gone.
    drop(of_reader.send(Event::Piece(first, size_of_first)));
    drop(thread::spawn(move || {
        while permitted.recv().is_ok() {
            let Some(piece) = next() else {
                // The receiver may be gone.
                drop(of_reader.send(Event::End));
                return;
            };
            let size = size(&piece);
            let is_permitted = (1..size).all(|_| permitted.recv().is_ok());
            if !is_permitted || of_reader.send(Event::Piece(piece, size)).is_err() {
                return;
            }
        }
    }));
    let (sender, pieces) = mpsc::channel();
    let pieces = Mutex::new(pieces);
    thread::scope(|scope| {
        for _ in 0..threads {
            let events = events.clone();
            let (pieces, work) = (&pieces, &work);
            scope.spawn(move || {
                let guard = PanicGuard(events);
                while let Some((number, piece)) = taken_from(pieces) {
                    let done = Event::Done(number, work(piece));
                    if guard.0.send(done).is_err() {
                        return;
                    }
                }
            });
        }
        collect(&incoming, sender, &permits, take)
    })
}

/// Takes the next piece; `None` once no more are sent.
fn taken_from<P>(pieces: &Mutex<Receiver<(usize, P)>>) -> Option<(usize, P)> {
    let pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
    pieces.recv().ok()
}

/// Numbers the pieces, and takes their results in the order of the numbers.
///
/// The workers end when `sender` is dropped, the reader when `permits` are.
fn collect<P, R, E>(
    incoming: &Receiver<Event<P, R>>,
    sender: Sender<(usize, P)>,
    permits: &Sender<()>,
    mut take: impl FnMut(R) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut waiting = BTreeMap::new();
    let mut sizes = VecDeque::new();
    let (mut sent, mut taken, mut is_over) = (0, 0, false);
    while !(is_over && taken == sent) {
        match incoming.recv() {
            Ok(Event::Piece(piece, size)) => {
                sizes.push_back(size);
                // The workers are there as long as this thread is.
                drop(sender.send((sent, piece)));
                sent += 1;
            }
            Ok(Event::End) => is_over = true,
            Ok(Event::Done(number, result)) => {
                waiting.insert(number, result);
                while let Some(result) = waiting.remove(&taken) {
                    taken += 1;
                    if take(result)?.is_break() {
                        return Ok(());
                    }
                    for _ in 0..sizes.pop_front().unwrap_or(1) {
                        // The reader may have ended.
                        let _ = permits.send(());
                    }
                }
            }
            // The scope reports the panic.
            Ok(Event::Lost) | Err(_) => return Ok(()),
        }
    }
    drop(sender);
    Ok(())
}

/// Reports a panic of its thread, whose result would be awaited for all time.
struct PanicGuard<P, R>(Sender<Event<P, R>>);

impl<P, R> Drop for PanicGuard<P, R> {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(self.0.send(Event::Lost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AHEAD, in_order, in_order_by_size};
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn numbers(count: usize) -> impl FnMut() -> Option<usize> + Send {
        let mut numbers = 0..count;
        move || numbers.next()
    }

    #[test]
    fn results_have_the_order_of_their_pieces() {
        for threads in [1, 2, 7] {
            let mut taken = Vec::new();
            let ended: Result<(), ()> = in_order(
                threads,
                numbers(1000),
                |number| number * 2,
                |result| {
                    taken.push(result);
                    Ok(ControlFlow::Continue(()))
                },
            );
            assert_eq!(ended, Ok(()));
            let expected: Vec<usize> = (0..1000).map(|number| number * 2).collect();
            assert_eq!(taken, expected, "{threads} threads");
        }
    }

    #[test]
    fn an_early_end_awaits_no_input() {
        let (sender, input) = std::sync::mpsc::channel();
        for number in 0..10 {
            sender.send(number).unwrap();
        }
        // The sender stays, so that reading waits after the tenth piece.
        let next = move || input.recv().ok();
        let mut taken = Vec::new();
        let ended = in_order(
            2,
            next,
            |number| number,
            |number| {
                taken.push(number);
                if number == 5 {
                    Err("no")
                } else {
                    Ok(ControlFlow::Continue(()))
                }
            },
        );
        assert_eq!(ended, Err("no"));
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
        drop(sender);
    }

    #[test]
    fn few_pieces_exist_at_a_time() {
        let open = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let (opened, highest) = (Arc::clone(&open), Arc::clone(&most));
        let mut numbers = 0..500;
        let next = move || {
            let number = numbers.next()?;
            let now = opened.fetch_add(1, Ordering::SeqCst) + 1;
            highest.fetch_max(now, Ordering::SeqCst);
            Some(number)
        };
        let ended: Result<(), ()> = in_order(
            3,
            next,
            |number| number,
            |_| {
                open.fetch_sub(1, Ordering::SeqCst);
                Ok(ControlFlow::Continue(()))
            },
        );
        assert_eq!(ended, Ok(()));
        assert!(most.load(Ordering::SeqCst) <= 3 * AHEAD);
    }

    #[test]
    fn few_large_pieces_exist_at_a_time() {
        let open = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let (opened, highest) = (Arc::clone(&open), Arc::clone(&most));
        let mut numbers = 0..200;
        let next = move || {
            let number = numbers.next()?;
            let now = opened.fetch_add(1, Ordering::SeqCst) + 1;
            highest.fetch_max(now, Ordering::SeqCst);
            Some(number)
        };
        let mut taken = Vec::new();
        let ended: Result<(), ()> = in_order_by_size(
            2,
            |_| 100,
            next,
            |number| number,
            |number| {
                taken.push(number);
                open.fetch_sub(1, Ordering::SeqCst);
                Ok(ControlFlow::Continue(()))
            },
        );
        assert_eq!(ended, Ok(()));
        assert_eq!(taken, (0..200).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_is_not_awaited() {
        let panicked = std::panic::catch_unwind(|| {
            let work = |number: usize| assert!(number != 5, "a fault");
            in_order(2, numbers(10), work, |()| {
                Ok::<_, ()>(ControlFlow::Continue(()))
            })
        });
        assert!(panicked.is_err());
    }
}
