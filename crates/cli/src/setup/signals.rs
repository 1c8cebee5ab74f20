//! Signals of the system that end the program.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use crate::exit::{CliError, Exit};

/// Builds the runtime of a command, which runs everything in this thread.
pub(crate) fn runtime() -> Result<Runtime, CliError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| CliError::new(Exit::Internal, "internal", error.to_string()))
}

/// Runs a future until it ends; a signal that ends the program drops it.
pub(crate) async fn until_signal<F: Future>(future: F) -> Result<F::Output, Exit> {
    tokio::select! {
        biased;
        exit = signalled() => Err(exit),
        output = future => Ok(output),
    }
}

/// Waits for a signal that ends the program.
///
/// The default handlers would end the program at once and leave its tools running.
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
