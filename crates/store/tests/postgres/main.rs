//! The store in a PostgreSQL database: the shared suite and the properties of the medium.
#![cfg(all(feature = "postgres", unix))]
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod cost;
mod crash;
mod damage;
mod events;
mod failures;
mod lost_answers;
mod outages;
mod payloads;
mod suite;
mod turns;

use logue_store::{LeaseTime, PostgresOptions, PostgresStore};

/// Opens the store in a schema of a database, with leases by the times of its callers.
fn open(url: &str, schema: &str) -> PostgresStore {
    let options = PostgresOptions::default().lease_time(LeaseTime::Caller);
    PostgresStore::open_with(&with(url, &format!("schema={schema}")), options).unwrap()
}

/// Adds a parameter to an address.
fn with(url: &str, parameter: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{parameter}")
}

fn said(text: &str) -> serde_json::Value {
    serde_json::json!({ "role": "user", "content": text })
}
