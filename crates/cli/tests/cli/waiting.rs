//! Waiting for what another process does.

use std::path::Path;
use std::time::{Duration, Instant};

/// The time after which a test fails, far above what a slow machine needs.
const LIMIT: Duration = Duration::from_secs(30);
/// The interval between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

/// Waits until `is_met`; fails with `failure` if that takes too long.
pub(crate) fn wait_until(failure: impl Fn() -> String, mut is_met: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_met() {
        assert!(started.elapsed() < LIMIT, "{}", failure());
        std::thread::sleep(INTERVAL);
    }
}

/// Waits for a file that a tool makes.
pub(crate) fn wait_for_file(path: &Path) {
    wait_until(
        || format!("{} was not created", path.display()),
        || path.exists(),
    );
}

/// Waits until a file contains a text.
pub(crate) fn wait_for_text(path: &Path, text: &str) {
    wait_until(
        || format!("`{text}` was not written to {}", path.display()),
        || std::fs::read_to_string(path).is_ok_and(|content| content.contains(text)),
    );
}
