//! Signals of the system that end the program.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use logue_agent::TurnStop;

use tokio::runtime::{Builder, Runtime};

use crate::exit::{CliError, Exit};

/// The time for which an end waits for the transcript or the store.
const SAVING: Duration = Duration::from_secs(2);

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

/// Runs a turn until it ends; a signal that ends the program drops it.
///
/// The part of the answer that was received is made durable first.
pub(crate) async fn until_stopped<F: Future>(turn: F, stop: &TurnStop) -> Result<F::Output, Exit> {
    let mut turn = pin!(turn);
    let exit = tokio::select! {
        biased;
        exit = signalled() => exit,
        output = &mut turn => return Ok(output),
    };
    save_part(turn, stop).await;
    Err(exit)
}

/// Makes the received part of an answer durable; `turn` drives the turn meanwhile.
pub(crate) async fn save_part<T>(turn: impl Future<Output = T>, stop: &TurnStop) {
    stop.request();
    tokio::select! {
        biased;
        () = stop.saved() => {}
        _ = turn => {}
        () = tokio::time::sleep(SAVING) => {}
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
