//! Bounded waiting for servers.

use std::io;
use std::time::{Duration, Instant};

/// The longest wait for a server.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval between two looks at a server.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until a condition is true.
pub(crate) fn wait_until(
    failure: &str,
    mut is_true: impl FnMut() -> io::Result<bool>,
) -> io::Result<()> {
    let begin = Instant::now();
    while !is_true()? {
        if begin.elapsed() > PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, failure));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
