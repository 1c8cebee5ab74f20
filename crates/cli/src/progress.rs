//! Progress bars on standard error, for work that takes more than a second.
//!
//! There is a bar only on a terminal that can move its cursor (`TERM` is not `dumb`), and never beside
//! JSON. A bar has no colours. What is printed meanwhile appears above it.

use std::io::{self, IsTerminal as _, Read};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The duration of work without a bar.
const DELAY: Duration = Duration::from_secs(1);
/// The time between two updates without progress.
const TICK: Duration = Duration::from_millis(200);

const BYTES: &str = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
const BYTES_OF_STREAM: &str = "{bytes} {bytes_per_sec}";
const ITEMS: &str = "{wide_bar} {pos}/{len} {per_sec}, {eta} left";
const WAITING: &str = "{spinner} {elapsed}";

/// The bar on the terminal.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// The progress of a command; its bar disappears with it.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Ends the wait for the first display.
    _waiting: Option<Sender<()>>,
}

impl Progress {
    /// Creates the progress through a number of bytes, which a stream does not know.
    pub(crate) fn bytes(total: Option<u64>, is_hidden: bool) -> Self {
        let template = total.map_or(BYTES_OF_STREAM, |_| BYTES);
        Self::new(total, template, is_hidden)
    }

    /// Creates the progress through a number of items.
    pub(crate) fn items(total: u64, is_hidden: bool) -> Self {
        Self::new(Some(total), ITEMS, is_hidden)
    }

    /// Creates the display of work whose progress is not known.
    pub(crate) fn waiting(is_hidden: bool) -> Self {
        Self::new(None, WAITING, is_hidden)
    }

    fn new(total: Option<u64>, template: &str, is_hidden: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_hidden || is_dumb || !io::stderr().is_terminal() {
            return Self {
                bar: ProgressBar::hidden(),
                _waiting: None,
            };
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let (sender, waiting) = mpsc::channel::<()>();
        let shown = bar.clone();
        drop(thread::spawn(move || {
            if waiting.recv_timeout(DELAY) == Err(mpsc::RecvTimeoutError::Timeout) {
                let mut current = current();
                if !shown.is_finished() {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    shown.enable_steady_tick(TICK);
                    *current = Some(shown);
                }
            }
        }));
        Self {
            bar,
            _waiting: Some(sender),
        }
    }

    /// Adds to the work that is done.
    pub(crate) fn advance(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Sets the work that is done.
    pub(crate) fn set(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Returns a reader whose bytes are the progress.
    pub(crate) fn reader<R: Read + Send + 'static>(
        &self,
        input: R,
    ) -> impl Read + Send + 'static + use<R> {
        self.bar.wrap_read(input)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut current = current();
        self.bar.finish_and_clear();
        current.take();
    }
}

/// Prints while no bar is on the terminal.
pub(crate) fn suspended<R>(print: impl FnOnce() -> R) -> R {
    let bar = current().clone();
    match bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

fn current() -> MutexGuard<'static, Option<ProgressBar>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
