//! The names of all metrics, with their labels.
//!
//! Values of labels come from the server: names of agents and models from its prompts, routes from its
//! own templates, codes from its own errors. Texts of clients are never labels.

/// The form of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// A sum.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution over buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// A metric with its labels.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
    /// Whether the metric is left out until it has a value.
    pub(crate) is_optional: bool,
}

impl Family {
    const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        let form = Form::Counter;
        Self {
            name,
            form,
            labels,
            help,
            is_optional: false,
        }
    }

    const fn gauge(name: &'static str, help: &'static str) -> Self {
        let form = Form::Gauge;
        let labels = &[];
        Self {
            name,
            form,
            labels,
            help,
            is_optional: false,
        }
    }

    const fn optional(self) -> Self {
        Self {
            is_optional: true,
            ..self
        }
    }

    const fn seconds(name: &'static str, bounds: &'static [f64], help: &'static str) -> Self {
        let form = Form::Histogram(bounds);
        let labels = &["agent"];
        Self {
            name,
            form,
            labels,
            help,
            is_optional: false,
        }
    }
}

pub(crate) static HTTP_REQUESTS: Family = Family::counter(
    "logue_http_requests_total",
    &["method", "route", "status"],
    "Requests by route and class of the status.",
);
pub(crate) static PROBLEMS: Family = Family::counter(
    "logue_problems_total",
    &["code"],
    "Requests that were refused or failed, by code.",
);

pub(crate) static TURNS_RUNNING: Family =
    Family::gauge("logue_turns_running", "Turns that run in this process.");
pub(crate) static TURNS: Family = Family::counter(
    "logue_turns_total",
    &["agent", "outcome"],
    "Turns that ended, by outcome.",
);
pub(crate) static TURN_SECONDS: Family = Family::seconds(
    "logue_turn_duration_seconds",
    &[
        0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
    ],
    "Time from the request of a turn to its end.",
);
pub(crate) static FIRST_DELTA_SECONDS: Family = Family::seconds(
    "logue_turn_first_delta_seconds",
    &[
        0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    ],
    "Time from the request of a turn to the first piece of visible text.",
);
pub(crate) static TOKENS: Family = Family::counter(
    "logue_tokens_total",
    &["agent", "model", "kind"],
    "Tokens that models report.",
);
pub(crate) static APPROVALS_WAITING: Family = Family::gauge(
    "logue_approvals_waiting",
    "Turns of the store that wait for a decision.",
);
pub(crate) static LISTEN_UP: Family = Family::gauge(
    "logue_store_listen_up",
    "Whether notifications of other nodes arrive.",
)
.optional();
pub(crate) static EVENT_STREAMS_OPEN: Family = Family::gauge(
    "logue_event_streams_open",
    "Readers of events in this process.",
);

pub(crate) static GATEWAY_REQUESTS: Family = Family::counter(
    "logue_gateway_requests_total",
    &["outcome"],
    "Requests of clients by outcome.",
);
pub(crate) static GATEWAY_REPAIRS: Family = Family::counter(
    "logue_gateway_repairs_total",
    &["code"],
    "Repairs of malformed model output by code.",
);
pub(crate) static GATEWAY_REASKS: Family = Family::counter(
    "logue_gateway_reasks_total",
    &["cause"],
    "Second requests to the model after an invalid answer.",
);
pub(crate) static GATEWAY_TOKENS: Family = Family::counter(
    "logue_gateway_tokens_total",
    &["kind"],
    "Tokens that the upstream server reports.",
);

/// The metrics of a server of agents.
pub(crate) static OF_AGENTS: &[&Family] = &[
    &HTTP_REQUESTS,
    &PROBLEMS,
    &TURNS_RUNNING,
    &TURNS,
    &TURN_SECONDS,
    &FIRST_DELTA_SECONDS,
    &TOKENS,
    &APPROVALS_WAITING,
    &LISTEN_UP,
    &EVENT_STREAMS_OPEN,
];

/// The metrics of a gateway.
pub(crate) static OF_GATEWAY: &[&Family] = &[
    &HTTP_REQUESTS,
    &PROBLEMS,
    &GATEWAY_REQUESTS,
    &GATEWAY_REPAIRS,
    &GATEWAY_REASKS,
    &GATEWAY_TOKENS,
];
