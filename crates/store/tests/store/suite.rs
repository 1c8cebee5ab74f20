//! The shared suite over every store.

use std::sync::Arc;

use logue_harness::store::{MemoryStore, SharedStore};
use logue_store::conformance::{ConformanceCase, cases, compare};
use proptest::prelude::*;

use crate::spread::Spread;

/// Runs all cases and reports all failures.
async fn all_cases(make: impl Fn() -> SharedStore) {
    let mut failures = Vec::new();
    for case in cases() {
        if let Err(failure) = case.run(make()).await {
            failures.push(failure.to_string());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn memory() {
    all_cases(|| Arc::<MemoryStore>::default()).await;
}

#[tokio::test]
async fn sqlite() {
    all_cases(|| Arc::new(Spread::over(1))).await;
}

#[tokio::test]
async fn sqlite_opened_for_each_operation() {
    all_cases(|| Arc::new(Spread::over(0))).await;
}

#[tokio::test]
async fn sqlite_through_several_connections() {
    all_cases(|| Arc::new(Spread::over(3))).await;
}

#[test]
fn the_names_of_cases_are_different() {
    let mut names: Vec<&str> = cases().iter().map(ConformanceCase::name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases().len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_script_is_answered_as_in_memory(script in prop::collection::vec(any::<u64>(), 0..160)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = Spread::over(2);
        let compared = runtime.block_on(compare(&store, &script));
        prop_assert!(compared.is_ok(), "{}", compared.unwrap_err());
    }
}
