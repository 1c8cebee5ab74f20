//! `logue serve` as its clients meet it: real processes, sockets, files and signals.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod access;
mod ag_ui;
mod approval_notes;
mod browser;
mod cancelled;
mod client;
#[cfg(feature = "otlp")]
mod collector;
mod completions;
mod continued;
mod cuts;
mod database;
mod database_full;
mod debug_view;
mod documented;
mod draining;
mod ended_tokens;
mod erased;
mod export;
mod failing_agents;
mod first_agents;
mod gateway;
mod hidden;
mod history;
mod hostile;
mod interface;
mod interrupted_calls;
mod kept_responses;
mod keyed_completions;
mod killed;
mod limits;
mod lost_events;
mod memory;
mod merged;
mod metrics;
mod migrating;
mod openapi;
mod page;
mod pairs;
mod parameters;
mod prefix;
#[path = "../cli/program.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod program;
mod prompt_files;
mod proxy;
mod read_only;
mod readiness;
mod recovered_completions;
mod refused;
mod reload;
mod repeated_keys;
mod replaced;
mod request_records;
mod responses;
mod search;
mod sessions;
mod shared;
mod signals;
mod silences;
mod slow_log;
#[cfg(feature = "otlp")]
mod spans;
mod starts;
mod superseded;
mod tokens;
#[path = "../cli/waiting.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod waiting;
