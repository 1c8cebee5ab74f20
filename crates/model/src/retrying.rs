//! Asking again when a server is away for a moment, within a budget.
//!
//! Only an error that is [transient](ProviderError::transient) is worth another request, and only
//! while nothing of an answer was told: whoever listens has heard the beginning of an answer that
//! broke off, and another one would begin again. Waits grow twofold with each request and are spread
//! by chance, so that many clients of one server do not all come back at the same moment. A server
//! that says how long to wait is believed, if the budget has room for it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{BoxFuture, Event, EventSink, Provider, ProviderError, Request, Response};

/// What asking again may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryBudget {
    /// How often the model is asked again; with 0 it is asked once.
    pub retries: u32,
    /// Time from the first request until the last one begins.
    pub total: Duration,
    /// The longest wait between two requests.
    pub longest: Duration,
    /// The wait before the second request; each further one is twice as long.
    pub first: Duration,
}

impl Default for RetryBudget {
    /// Two more requests within a minute, the first of them after half a second.
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
    /// No further request.
    pub fn none() -> Self {
        Self::default().with_retries(0)
    }

    /// The same with so many further requests.
    #[must_use]
    pub const fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The same with so much time until the last request begins.
    #[must_use]
    pub const fn with_total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// The same with another longest wait.
    #[must_use]
    pub const fn with_longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// The same with another first wait.
    #[must_use]
    pub const fn with_first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }
}

/// Chance: a number of at least 0 and less than 1, another one at each call.
pub type Chance = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A provider that is asked again when it fails for a moment.
///
/// Dropping the future ends it wherever it is: in a request, or between two. Before each wait an
/// [`Event::Retrying`] is told. An error that is given up names how often the model was asked.
#[derive(Clone)]
pub struct Retrying<P> {
    provider: P,
    budget: RetryBudget,
    chance: Chance,
    repeats_events: bool,
}

impl<P: std::fmt::Debug> std::fmt::Debug for Retrying<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retrying")
            .field("provider", &self.provider)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl<P: Provider> Retrying<P> {
    /// Asks `provider` again within `budget`.
    pub fn new(provider: P, budget: RetryBudget) -> Self {
        Self {
            provider,
            budget,
            chance: Arc::new(chance),
            repeats_events: false,
        }
    }

    /// The same with another source of chance, such as one that repeats itself.
    #[must_use]
    pub fn with_chance(mut self, chance: Chance) -> Self {
        self.chance = chance;
        self
    }

    /// The same for a listener that can hear an answer begin again: after an [`Event::Retrying`] it
    /// forgets what it heard before. Then an answer that broke off is asked for again, too.
    #[must_use]
    pub const fn repeating_events(mut self) -> Self {
        self.repeats_events = true;
        self
    }

    async fn ask(
        &self,
        request: &Request<'_>,
        events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        let started = Instant::now();
        let mut asked = 1;
        loop {
            let mut heard = false;
            let mut listen = |event: Event| {
                heard = true;
                events(event);
            };
            let error = match self.provider.complete(request, &mut listen).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !error.transient || (heard && !self.repeats_events) {
                return Err(error);
            }
            let wait = match self.next_wait(&error, asked, started) {
                Ok(wait) => wait,
                Err(why) => return Err(given_up(error, asked, started, why, self.budget)),
            };
            events(Event::Retrying {
                attempt: asked,
                wait,
                category: error.category,
                message: error.message,
            });
            sleep(wait).await;
            asked += 1;
        }
    }

    /// How long to wait before the next request.
    fn next_wait(
        &self,
        error: &ProviderError,
        asked: u32,
        started: Instant,
    ) -> Result<Duration, GivenUp> {
        let budget = self.budget;
        if asked > budget.retries {
            return Err(GivenUp::Asked);
        }
        let doubled = 2_u32.saturating_pow(asked - 1);
        let steady = budget.first.saturating_mul(doubled).min(budget.longest);
        // Between half of it and all of it; at most once as long for a chance that is none.
        let part = (self.chance)().clamp(0.0, 1.0);
        let part = if part.is_nan() { 1.0 } else { part };
        let spread = steady.mul_f64(0.5 + part / 2.0);
        let wait = match error.retry_after {
            None => spread,
            // Everybody who was sent away is told the same time, so some come a little later.
            Some(said) if said <= budget.longest => said.saturating_add(spread).min(budget.longest),
            Some(_) => return Err(GivenUp::TooLong),
        };
        if started.elapsed().saturating_add(wait) > budget.total {
            return Err(match error.retry_after {
                Some(_) => GivenUp::TooLong,
                None => GivenUp::Spent,
            });
        }
        Ok(wait)
    }
}

impl<P: Provider> Provider for Retrying<P> {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(self.ask(request, events))
    }
}

/// Why there is no further request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivenUp {
    /// There were as many as allowed.
    Asked,
    /// The next one would come too late.
    Spent,
    /// The server asks for a wait that the budget has no room for.
    TooLong,
}

fn given_up(
    mut error: ProviderError,
    asked: u32,
    started: Instant,
    why: GivenUp,
    budget: RetryBudget,
) -> ProviderError {
    if asked > 1 {
        let seconds = started.elapsed().as_secs();
        error.message = format!("{} (asked {asked} times in {seconds} s)", error.message);
    }
    if why == GivenUp::TooLong
        && let Some(wait) = error.retry_after
    {
        let (wait, room) = (wait.as_secs_f64().ceil(), budget.longest.min(budget.total));
        error.help = Some(format!(
            "the server asks to wait {wait} s, and at most {} s are waited: run it again then, or \
             raise `retry_seconds` under [model] in logue.toml",
            room.as_secs()
        ));
    }
    error
}

/// A number from 0 to 1 that nobody can foresee, out of what the hash tables of this process are
/// keyed with.
fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 32;
    let bits = u32::try_from(bits).unwrap_or_default();
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
