//! The spend of a run and its limits, agents included.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logue_model::{ModelRequest, ModelResponse, Usage};
use serde_json::{Value, json};

/// The category of a turn that reaches a spend limit.
pub(crate) const BUDGET_EXCEEDED: &str = "budget_exceeded";

/// The bytes per token of an estimate, for servers that do not report usage.
const BYTES_PER_TOKEN: usize = 4;

/// The price of a model, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Price {
    /// Request tokens.
    pub input: f64,
    /// Response tokens, reasoning included.
    pub output: f64,
    /// Request tokens that the server had cached; `input` if absent.
    pub cached_input: Option<f64>,
}

/// The token and cost limits of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpendLimits {
    /// The maximum number of tokens of requests and responses together.
    pub max_tokens: Option<u64>,
    /// The maximum cost in US dollars.
    pub max_cost: Option<f64>,
    /// Prices of models by their names at the provider.
    pub prices: BTreeMap<String, Price>,
}

/// The tokens and the cost of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Spend {
    /// Tokens as reported by servers.
    pub usage: Option<Usage>,
    /// Tokens of requests and responses, estimated where a server does not report them.
    pub tokens: u64,
    /// The cost in US dollars, or `None` if a model has no known price.
    pub cost: Option<f64>,
}

/// The limits of a run and its spend.
///
/// Clones share one spend, so a turn and its agents use clones of one budget.
///
/// Limits are checked before each request. A request that has started is paid for, so a run may
/// exceed its limits by the cost of its running requests.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    limits: SpendLimits,
    /// The enclosing budget; spend here is added there as well.
    whole: Option<Budget>,
    spent: Mutex<Spend>,
    /// Whether it is the budget of a fork.
    is_fork: bool,
    /// The limit of the requests that are counted here.
    max_requests: Option<u64>,
    /// The requests before this budget began.
    earlier_requests: u64,
    /// The requests that were sent.
    requests: Mutex<u64>,
    /// Suspended turns whose spend is included.
    waiting: Mutex<BTreeSet<String>>,
}

/// The error of a request beyond a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BudgetExceeded(String);

/// The error of a request beyond the request limit of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run has made {}, agents included, the maximum for one run", requests(*.0))]
pub(crate) struct RequestLimitReached(pub(crate) u64);

tokio::task_local! {
    /// The budget for the agents of the current turn.
    static OF_TURN: Budget;
}

impl Price {
    /// Creates a price from US dollars per million request and response tokens.
    pub const fn new(input: f64, output: f64) -> Self {
        Self {
            input,
            output,
            cached_input: None,
        }
    }

    /// Sets the price of cached request tokens; `None` stands for the price of request tokens.
    #[must_use]
    pub fn with_cached_input(mut self, price: impl Into<Option<f64>>) -> Self {
        self.cached_input = price.into();
        self
    }

    /// The cost of tokens.
    fn cost(&self, usage: Usage) -> f64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let full = usage.input_tokens - cached;
        let cached_price = self.cached_input.unwrap_or(self.input);
        let dollars = millions(full) * self.input + millions(cached) * cached_price;
        dollars + millions(usage.output_tokens) * self.output
    }
}

impl SpendLimits {
    /// Sets the maximum number of tokens; `None` removes the limit.
    #[must_use]
    pub fn with_max_tokens(mut self, tokens: impl Into<Option<u64>>) -> Self {
        self.max_tokens = tokens.into();
        self
    }

    /// Sets the maximum cost in US dollars; `None` removes the limit.
    #[must_use]
    pub fn with_max_cost(mut self, dollars: impl Into<Option<f64>>) -> Self {
        self.max_cost = dollars.into();
        self
    }

    /// Sets the prices of models by their names at the provider.
    #[must_use]
    pub fn with_prices(mut self, prices: BTreeMap<String, Price>) -> Self {
        self.prices = prices;
        self
    }

    /// Returns the price of a provider's model, if known.
    ///
    /// Recordings and `echo` cost nothing.
    pub fn price(&self, provider: &str, model: &str) -> Option<Price> {
        match provider {
            "replay" | "echo" => Some(Price::default()),
            _ => self.prices.get(model).copied(),
        }
    }

    fn is_none(&self) -> bool {
        self.max_tokens.is_none() && self.max_cost.is_none()
    }
}

impl Budget {
    /// A budget without spend. The default budget has no limits.
    pub fn new(limits: SpendLimits) -> Self {
        Self {
            inner: Arc::new(Inner {
                limits,
                ..Inner::default()
            }),
        }
    }

    /// The limits.
    pub fn limits(&self) -> &SpendLimits {
        match &self.inner.whole {
            Some(whole) => whole.limits(),
            None => &self.inner.limits,
        }
    }

    /// The spend so far.
    pub fn spent(&self) -> Spend {
        *self.lock()
    }

    /// Checks that another request is within the limits.
    ///
    /// # Errors
    /// Returns an error if a limit is reached, or if the cost is limited and the price of the model
    /// is unknown.
    pub fn check(&self, provider: &str, model: &str) -> Result<(), BudgetExceeded> {
        if let Some(whole) = &self.inner.whole {
            return whole.check(provider, model);
        }
        let (limits, spent) = (self.limits(), self.spent());
        if let Some(most) = limits.max_tokens
            && spent.tokens >= most
        {
            return Err(BudgetExceeded(format!(
                "the run has used {} tokens, agents included; its limit is {most}",
                spent.tokens
            )));
        }
        let Some(most) = limits.max_cost else {
            return Ok(());
        };
        match limits.price(provider, model) {
            Some(price) if price == Price::default() => Ok(()),
            None => Err(BudgetExceeded(format!(
                "the price of the model `{model}` is unknown, so a cost limit cannot be enforced"
            ))),
            Some(_) => match spent.cost {
                Some(cost) if cost < most => Ok(()),
                cost => Err(BudgetExceeded(format!(
                    "the run has cost {:.4} US dollars, agents included; its limit is {most}",
                    cost.unwrap_or(most)
                ))),
            },
        }
    }

    /// Adds the spend of a response and its request.
    pub(crate) fn answered(
        &self,
        provider: &str,
        request: &ModelRequest<'_>,
        answer: &ModelResponse,
    ) -> Spend {
        let limits = self.limits();
        let counted = match answer.usage {
            Some(usage) => usage,
            None if limits.is_none() => Usage::default(),
            None => estimated(request, answer),
        };
        let price = limits.price(provider, request.model);
        let spent = Spend {
            usage: answer.usage,
            tokens: counted.input_tokens.saturating_add(counted.output_tokens),
            cost: price.map(|price| price.cost(counted)),
        };
        self.spend(spent);
        spent
    }

    /// Returns a part of this budget with its own spend and request limit.
    ///
    /// The limit covers `earlier_requests`, which were made before.
    pub(crate) fn part(&self, earlier_requests: u64, max_requests: u64) -> Self {
        Self {
            inner: Arc::new(Inner {
                whole: Some(self.clone()),
                max_requests: Some(max_requests),
                earlier_requests,
                ..Inner::default()
            }),
        }
    }

    /// Returns the part of this budget that a fork uses.
    pub(crate) fn of_fork(&self) -> Self {
        Self {
            inner: Arc::new(Inner {
                whole: Some(self.clone()),
                is_fork: true,
                ..Inner::default()
            }),
        }
    }

    /// Returns whether a fork, or an agent that it called, uses this budget.
    pub(crate) fn is_in_fork(&self) -> bool {
        let whole = self.inner.whole.as_ref();
        self.inner.is_fork || whole.is_some_and(Self::is_in_fork)
    }

    /// The requests that were sent from this budget and its parts.
    pub fn requests(&self) -> u64 {
        *self.lock_requests()
    }

    /// Counts a request that is about to be sent, here and in the enclosing budgets.
    ///
    /// Counting and checking are one step, so concurrent agents cannot exceed a limit together.
    pub(crate) fn begin_request(&self) -> Result<(), RequestLimitReached> {
        {
            let mut requests = self.lock_requests();
            if let Some(most) = self.inner.max_requests
                && self.inner.earlier_requests.saturating_add(*requests) >= most
            {
                return Err(RequestLimitReached(most));
            }
            *requests += 1;
        }
        let whole = self.inner.whole.as_ref();
        let begun = whole.map_or(Ok(()), Self::begin_request);
        if begun.is_err() {
            *self.lock_requests() -= 1;
        }
        begun
    }

    /// Refuses work if no request is left, here or in the enclosing budgets.
    pub(crate) fn require_request(&self) -> Result<(), RequestLimitReached> {
        if let Some(most) = self.inner.max_requests
            && self.inner.earlier_requests.saturating_add(self.requests()) >= most
        {
            return Err(RequestLimitReached(most));
        }
        let whole = self.inner.whole.as_ref();
        whole.map_or(Ok(()), Self::require_request)
    }

    /// Marks a turn as suspended; another process may resume it.
    pub(crate) fn suspended(&self, invocation: &str) {
        self.waiting().insert(invocation.to_owned());
    }

    /// Adds the earlier spend of a resumed turn, unless this process suspended it.
    pub(crate) fn resumed(&self, invocation: &str, spent: Spend) {
        if !self.waiting().remove(invocation) {
            self.spend(spent);
        }
    }

    /// Sets the budget of the agents that `work` calls.
    pub(crate) async fn for_agents<F: Future>(self, work: F) -> F::Output {
        OF_TURN.scope(self, work).await
    }

    /// The budget for agents of the current turn, inside one.
    pub(crate) fn current() -> Option<Self> {
        OF_TURN.try_with(Clone::clone).ok()
    }

    fn spend(&self, more: Spend) {
        self.lock().add(more);
        if let Some(whole) = &self.inner.whole {
            whole.spend(more);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Spend> {
        self.inner
            .spent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_requests(&self) -> MutexGuard<'_, u64> {
        let requests = self.inner.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.inner
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Spend {
    fn default() -> Self {
        Self {
            usage: None,
            tokens: 0,
            cost: Some(0.0),
        }
    }
}

impl Spend {
    /// Adds further spend.
    pub(crate) fn add(&mut self, more: Self) {
        if let Some(usage) = more.usage {
            *self.usage.get_or_insert_with(Usage::default) += usage;
        }
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.cost = self.cost.zip(more.cost).map(|(cost, more)| cost + more);
    }

    pub(crate) fn to_json(self) -> Value {
        json!({
            "input_tokens": self.usage.map(|usage| usage.input_tokens),
            "output_tokens": self.usage.map(|usage| usage.output_tokens),
            "cached_tokens": self.usage.map(|usage| usage.cached_tokens),
            "reasoning_tokens": self.usage.map(|usage| usage.reasoning_tokens),
            "tokens": self.tokens,
            "cost": self.cost,
        })
    }

    pub(crate) fn from_json(value: &Value) -> Self {
        let count = |key: &str| value.get(key).and_then(Value::as_u64);
        let usage = count("input_tokens").zip(count("output_tokens"));
        Self {
            usage: usage.map(|(input_tokens, output_tokens)| {
                Usage::new(input_tokens, output_tokens)
                    .with_cached_tokens(count("cached_tokens").unwrap_or(0))
                    .with_reasoning_tokens(count("reasoning_tokens").unwrap_or(0))
            }),
            tokens: count("tokens").unwrap_or(0),
            cost: value.get("cost").and_then(Value::as_f64),
        }
    }
}

fn requests(count: u64) -> String {
    match count {
        1 => "1 request".to_owned(),
        _ => format!("{count} requests"),
    }
}

/// Estimates tokens from bytes, for limits where the server reports none.
fn estimated(request: &ModelRequest<'_>, answer: &ModelResponse) -> Usage {
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
    let messages = request.messages.iter();
    let asked = messages
        .map(|message| message.to_json().to_string().len())
        .sum();
    let answered = answer.message.to_json().to_string().len();
    Usage::new(tokens(asked), tokens(answered))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a run has too few tokens to lose a cent"
)]
fn millions(tokens: u64) -> f64 {
    tokens as f64 / 1e6
}
