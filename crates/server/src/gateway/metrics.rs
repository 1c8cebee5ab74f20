//! Counters of a gateway in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use logue_model::Usage;

use crate::chat::problem::Problem;

/// A family of counters with one label.
struct Family {
    name: &'static str,
    label: &'static str,
    help: &'static str,
}

const REQUESTS: Family = Family {
    name: "logue_gateway_requests_total",
    label: "outcome",
    help: "Requests of clients by outcome.",
};
const REPAIRS: Family = Family {
    name: "logue_gateway_repairs_total",
    label: "code",
    help: "Repairs of malformed model output by code.",
};
const REASKS: Family = Family {
    name: "logue_gateway_reasks_total",
    label: "cause",
    help: "Second requests to the model after an invalid answer.",
};
const TOKENS: Family = Family {
    name: "logue_gateway_tokens_total",
    label: "kind",
    help: "Tokens that the upstream server reports.",
};

/// The counters of a gateway.
#[derive(Default)]
pub(crate) struct GatewayMetrics {
    counts: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

impl GatewayMetrics {
    /// Counts a request that was accepted or refused.
    pub(super) fn request(&self, outcome: Result<(), &Problem>) {
        let outcome = match outcome {
            Ok(()) => "ok",
            Err(problem) if problem.status == StatusCode::TOO_MANY_REQUESTS => "limited",
            Err(problem) if problem.status.is_client_error() => "client_error",
            Err(_) => "upstream_error",
        };
        self.add(&REQUESTS, outcome, 1);
    }

    /// Counts a request whose client left.
    pub(super) fn cancelled(&self) {
        self.add(&REQUESTS, "cancelled", 1);
    }

    pub(super) fn repair(&self, code: &'static str) {
        self.add(&REPAIRS, code, 1);
    }

    pub(super) fn reask(&self, cause: &'static str) {
        self.add(&REASKS, cause, 1);
    }

    pub(super) fn tokens(&self, usage: &Usage) {
        let kinds = [
            ("input", usage.input_tokens),
            ("cached", usage.cached_tokens),
            ("output", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        ];
        for (kind, count) in kinds {
            self.add(&TOKENS, kind, count);
        }
    }

    /// Returns the counters as text.
    pub(super) fn to_text(&self) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for Family { name, label, help } in [REQUESTS, REPAIRS, REASKS, TOKENS] {
            text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} counter\n"));
            let own = counts.iter().filter(|((family, _), _)| *family == name);
            for ((_, value), count) in own {
                let line = writeln!(text, "{name}{{{label}=\"{value}\"}} {count}");
                debug_assert!(line.is_ok(), "a string accepts every text");
            }
        }
        text
    }

    fn add(&self, family: &Family, value: &'static str, count: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = counts.entry((family.name, value)).or_default();
        *counter = counter.saturating_add(count);
    }
}
