//! What a run may spend, and what it has spent: its own requests and those of its agents.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logue_model::{Request, Response, Usage};
use serde_json::{Value, json};

/// The category of a turn that would spend more than it may.
pub(crate) const BUDGET_EXCEEDED: &str = "budget_exceeded";

/// Tokens are counted by this many bytes where a server does not say how many there were.
const BYTES_PER_TOKEN: usize = 4;

/// What a model costs, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Tokens of requests.
    pub input: f64,
    /// Tokens of answers, reasoning included.
    pub output: f64,
    /// Tokens of requests that the server had kept from an earlier one; as `input` if absent.
    pub cached_input: Option<f64>,
}

/// What a run may spend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Most tokens, of requests and answers together.
    pub max_tokens: Option<u64>,
    /// Most money, in US dollars.
    pub max_cost: Option<f64>,
    /// What models cost, by their names at the provider.
    pub prices: BTreeMap<String, Price>,
}

/// What was spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Tokens, as far as servers say how many.
    pub usage: Option<Usage>,
    /// Tokens of requests and answers, estimated where a server does not say.
    pub tokens: u64,
    /// Money in US dollars; `None` if a model has no known price.
    pub cost: Option<f64>,
}

/// The limits of a run and what it has spent. Cloning is cheap; clones share what is spent, so one is
/// given to everything that spends together: a turn and the agents that it asks.
///
/// Limits are looked at before each request. A request that was begun is paid for, so a run may pass
/// its limits by what its requests that are under way cost.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    limits: Limits,
    /// What this is a part of: whatever is spent here is spent there too.
    whole: Option<Budget>,
    spent: Mutex<Spent>,
    /// Turns that wait for a person and whose spending is in here.
    waiting: Mutex<BTreeSet<String>>,
}

/// Why nothing more may be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BudgetExceeded(String);

tokio::task_local! {
    /// What the turn has for its agents, in whose task they are asked.
    static OF_TURN: Budget;
}

impl Price {
    /// What tokens cost.
    fn of(&self, usage: Usage) -> f64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let full = usage.input_tokens - cached;
        let cached_price = self.cached_input.unwrap_or(self.input);
        let dollars = millions(full) * self.input + millions(cached) * cached_price;
        dollars + millions(usage.output_tokens) * self.output
    }
}

impl Limits {
    /// The price of a model of a provider, if it is known. What answers on this machine out of a
    /// file, or by itself, costs nothing.
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
    /// A budget of which nothing is spent. The default one has no limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            inner: Arc::new(Inner {
                limits,
                ..Inner::default()
            }),
        }
    }

    /// What may be spent.
    pub fn limits(&self) -> &Limits {
        match &self.inner.whole {
            Some(whole) => whole.limits(),
            None => &self.inner.limits,
        }
    }

    /// What was spent so far.
    pub fn spent(&self) -> Spent {
        *self.lock()
    }

    /// Whether a model may be asked.
    ///
    /// # Errors
    /// A limit is reached, or money is limited and nobody knows what the model costs.
    pub fn check(&self, provider: &str, model: &str) -> Result<(), BudgetExceeded> {
        if let Some(whole) = &self.inner.whole {
            return whole.check(provider, model);
        }
        let (limits, spent) = (self.limits(), self.spent());
        if let Some(most) = limits.max_tokens
            && spent.tokens >= most
        {
            return Err(BudgetExceeded(format!(
                "the run has used {} tokens, agents included, and {most} are the most",
                spent.tokens
            )));
        }
        let Some(most) = limits.max_cost else {
            return Ok(());
        };
        match limits.price(provider, model) {
            Some(price) if price == Price::default() => Ok(()),
            None => Err(BudgetExceeded(format!(
                "no price of the model `{model}` is known, so nobody can say what it costs"
            ))),
            Some(_) => match spent.cost {
                Some(cost) if cost < most => Ok(()),
                cost => Err(BudgetExceeded(format!(
                    "the run has cost {:.4} US dollars, agents included, and {most} are the most",
                    cost.unwrap_or(most)
                ))),
            },
        }
    }

    /// Counts an answer and what was asked for it.
    pub(crate) fn answered(
        &self,
        provider: &str,
        request: &Request<'_>,
        answer: &Response,
    ) -> Spent {
        let limits = self.limits();
        let counted = match answer.usage {
            Some(usage) => usage,
            None if limits.is_none() => Usage::default(),
            None => estimated(request, answer),
        };
        let price = limits.price(provider, request.model);
        let spent = Spent {
            usage: answer.usage,
            tokens: counted.input_tokens.saturating_add(counted.output_tokens),
            cost: price.map(|price| price.of(counted)),
        };
        self.spend(spent);
        spent
    }

    /// A part of this budget that says by itself what was spent in it.
    pub(crate) fn part(&self) -> Self {
        Self {
            inner: Arc::new(Inner {
                whole: Some(self.clone()),
                ..Inner::default()
            }),
        }
    }

    /// The turn waits for a person, maybe for another process.
    pub(crate) fn suspended(&self, invocation: &str) {
        self.waiting().insert(invocation.to_owned());
    }

    /// A turn goes on that has spent so much: here, or in another process.
    pub(crate) fn resumed(&self, invocation: &str, spent: Spent) {
        if !self.waiting().remove(invocation) {
            self.spend(spent);
        }
    }

    /// What the agents are asked on that `work` asks.
    pub(crate) async fn for_agents<F: Future>(self, work: F) -> F::Output {
        OF_TURN.scope(self, work).await
    }

    /// What a turn has for its agents, if this is asked within one.
    pub(crate) fn of_turn() -> Option<Self> {
        OF_TURN.try_with(Clone::clone).ok()
    }

    fn spend(&self, more: Spent) {
        self.lock().add(more);
        if let Some(whole) = &self.inner.whole {
            whole.spend(more);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.inner
            .spent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.inner
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Spent {
    fn default() -> Self {
        Self {
            usage: None,
            tokens: 0,
            cost: Some(0.0),
        }
    }
}

impl Spent {
    /// Adds what else was spent.
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
            usage: usage.map(|(input_tokens, output_tokens)| Usage {
                input_tokens,
                output_tokens,
                cached_tokens: count("cached_tokens").unwrap_or(0),
                reasoning_tokens: count("reasoning_tokens").unwrap_or(0),
            }),
            tokens: count("tokens").unwrap_or(0),
            cost: value.get("cost").and_then(Value::as_f64),
        }
    }
}

/// Tokens by the bytes of what was said, where a limit has to hold and the server counts none.
fn estimated(request: &Request<'_>, answer: &Response) -> Usage {
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
    let messages = request.messages.iter();
    let asked = messages
        .map(|message| message.to_json().to_string().len())
        .sum();
    Usage {
        input_tokens: tokens(asked),
        output_tokens: tokens(answer.message.to_json().to_string().len()),
        ..Usage::default()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no run has so many tokens that a cent of them would be lost"
)]
fn millions(tokens: u64) -> f64 {
    tokens as f64 / 1e6
}
