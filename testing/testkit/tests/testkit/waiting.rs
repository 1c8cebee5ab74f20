//! Bounded waiting.

use std::time::{Duration, Instant};

/// Waits until a condition is true, for at most a minute.
pub(crate) fn wait_until(failure: &str, mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{failure}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
