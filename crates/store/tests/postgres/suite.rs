//! The shared suite.

use std::sync::Arc;

use logue_store::conformance::{cases, compare};
use proptest::prelude::*;
use testkit::postgres::{PgBouncer, PostgresServer};

use super::open;

/// Runs all cases, each in its own schema, and reports all failures.
async fn all_cases(url: &str) {
    let mut failures = Vec::new();
    for (number, case) in cases().iter().enumerate() {
        let store = open(url, &format!("case_{number}"));
        if let Err(failure) = case.run(Arc::new(store)).await {
            failures.push(failure.to_string());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn direct() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    all_cases(&server.database().unwrap().url()).await;
}

/// `PgBouncer` gives each transaction another server connection.
#[tokio::test]
async fn through_a_transaction_pooler() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let Some(pooler) = PgBouncer::start(&server, &[("default_pool_size", "3")]).unwrap() else {
        return;
    };
    all_cases(&server.database().unwrap().url_on(pooler.socket())).await;
}

#[test]
fn any_script_is_answered_as_in_memory() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let number = std::cell::Cell::new(0);
    let config = ProptestConfig {
        cases: 12,
        ..ProptestConfig::default()
    };
    proptest!(config, |(script in prop::collection::vec(any::<u64>(), 0..160))| {
        number.set(number.get() + 1);
        let store = open(&database.url(), &format!("script_{}", number.get()));
        let compared = runtime.block_on(compare(&store, &script));
        prop_assert!(compared.is_ok(), "{}", compared.unwrap_err());
    });
}
