//! Retries of transient failures within a budget.
//!
//! A [transient](ProviderError::transient) error is retried only before the first event of a response,
//! because a second response would repeat reported text. Waits double with each request and are
//! randomized, so the clients of one server do not return at the same time. A wait that the server
//! requests takes precedence if the budget permits it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    BoxFuture, EventHandler, ModelEvent, ModelRequest, ModelResponse, Provider, ProviderError,
};

/// The limits of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryBudget {
    /// The number of retries; 0 means a single request.
    pub retries: u32,
    /// The time from the first request to the start of the last one.
    pub total: Duration,
    /// The maximum wait between two requests.
    pub longest: Duration,
    /// The wait before the second request; each later wait is twice as long.
    pub first: Duration,
}

impl Default for RetryBudget {
    /// Allows two retries within a minute, the first after half a second.
    fn default() -> Self {
        Self {
            retries: 2,
            total: Duration::from_secs(60),
            longest: Duration::from_secs(60),
            first: Duration::from_millis(500),
        }
    }
}

impl RetryBudget {
    /// Creates a budget without retries.
    pub fn none() -> Self {
        Self::default().with_retries(0)
    }

    /// Sets the number of retries.
    #[must_use]
    pub const fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the time until the last request begins.
    #[must_use]
    pub const fn with_total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Sets the maximum wait.
    #[must_use]
    pub const fn with_longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Sets the first wait.
    #[must_use]
    pub const fn with_first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }
}

/// A random source that returns numbers of at least 0 and less than 1.
pub type Jitter = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A provider adapter that retries transient failures.
///
/// Dropping the future cancels the current request or wait. A [`ModelEvent::Retry`] precedes each wait.
/// The final error contains the number of requests.
#[derive(Clone)]
pub struct RetryProvider<P> {
    provider: P,
    budget: RetryBudget,
    jitter: Jitter,
    can_restart_stream: bool,
}

impl<P: std::fmt::Debug> std::fmt::Debug for RetryProvider<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryProvider")
            .field("provider", &self.provider)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl<P: Provider> RetryProvider<P> {
    /// Wraps a provider with a retry budget.
    pub fn new(provider: P, budget: RetryBudget) -> Self {
        Self {
            provider,
            budget,
            jitter: Arc::new(random),
            can_restart_stream: false,
        }
    }

    /// Sets the random source, such as a deterministic one.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Permits retries after the first event of a response.
    ///
    /// The event handler must discard earlier events after a [`ModelEvent::Retry`].
    #[must_use]
    pub const fn with_stream_restart(mut self) -> Self {
        self.can_restart_stream = true;
        self
    }

    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        events: EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        let started = Instant::now();
        let mut requests = 1;
        loop {
            let mut has_events = false;
            let mut handler = |event: ModelEvent| {
                has_events = true;
                events(event);
            };
            let error = match self.provider.complete(request, &mut handler).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !error.transient || (has_events && !self.can_restart_stream) {
                return Err(error);
            }
            let wait = match self.next_wait(&error, requests, started) {
                Ok(wait) => wait,
                Err(reason) => {
                    return Err(final_error(error, requests, started, reason, self.budget));
                }
            };
            events(ModelEvent::Retry {
                attempt: requests,
                wait,
                category: error.category,
                message: error.message,
            });
            sleep(wait).await;
            requests += 1;
        }
    }

    /// Returns the wait before the next request.
    fn next_wait(
        &self,
        error: &ProviderError,
        requests: u32,
        started: Instant,
    ) -> Result<Duration, StopReason> {
        let budget = self.budget;
        if requests > budget.retries {
            return Err(StopReason::RetriesExhausted);
        }
        let doubled = 2_u32.saturating_pow(requests - 1);
        let steady = budget.first.saturating_mul(doubled).min(budget.longest);
        // Between half of the wait and all of it, also for an invalid random number.
        let fraction = (self.jitter)().clamp(0.0, 1.0);
        let fraction = if fraction.is_nan() { 1.0 } else { fraction };
        let spread = steady.mul_f64(0.5 + fraction / 2.0);
        let wait = match error.retry_after {
            None => spread,
            // All rejected clients receive the same wait, so each adds a random part.
            Some(requested) if requested <= budget.longest => {
                requested.saturating_add(spread).min(budget.longest)
            }
            Some(_) => return Err(StopReason::WaitTooLong),
        };
        if started.elapsed().saturating_add(wait) > budget.total {
            return Err(match error.retry_after {
                Some(_) => StopReason::WaitTooLong,
                None => StopReason::TimeExhausted,
            });
        }
        Ok(wait)
    }
}

impl<P: Provider> Provider for RetryProvider<P> {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn takes_images(&self) -> bool {
        self.provider.takes_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(self.ask(request, events))
    }
}

/// The reason for the last error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    /// All retries have failed.
    RetriesExhausted,
    /// The next request would begin too late.
    TimeExhausted,
    /// The server requests a wait that exceeds the budget.
    WaitTooLong,
}

fn final_error(
    mut error: ProviderError,
    requests: u32,
    started: Instant,
    reason: StopReason,
    budget: RetryBudget,
) -> ProviderError {
    if requests > 1 {
        let seconds = started.elapsed().as_secs();
        error.message = format!("{} ({requests} requests in {seconds} s)", error.message);
    }
    if reason == StopReason::WaitTooLong
        && let Some(wait) = error.retry_after
    {
        let (wait, limit) = (wait.as_secs_f64().ceil(), budget.longest.min(budget.total));
        error.help = Some(format!(
            "run it again in {wait} s, as the server requests, or raise `retry_timeout_seconds` (now {} s) \
             under [model] in logue.toml",
            limit.as_secs()
        ));
    }
    error
}

/// Returns an unpredictable number from 0 to 1.
///
/// It is derived from the random keys of the process's hash tables.
fn random() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 32;
    let bits = u32::try_from(bits).unwrap_or_default();
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
