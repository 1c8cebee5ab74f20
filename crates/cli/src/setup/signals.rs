//! Signals of the system that end the program.

use crate::exit::Exit;

/// Waits for a signal that ends the program. Without a handler the system's own would end it at
/// once, and leave the tools running that it has started.
pub(crate) async fn signalled() -> Exit {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind: SignalKind| async move {
            match signal(kind) {
                Ok(mut signals) => signals.recv().await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = listen(SignalKind::hangup()) => Exit::HungUp,
            _ = listen(SignalKind::interrupt()) => Exit::Interrupted,
            _ = listen(SignalKind::quit()) => Exit::Quit,
            _ = listen(SignalKind::terminate()) => Exit::Terminated,
        }
    }
    #[cfg(not(unix))]
    match tokio::signal::ctrl_c().await {
        Ok(()) => Exit::Interrupted,
        Err(_) => std::future::pending().await,
    }
}
