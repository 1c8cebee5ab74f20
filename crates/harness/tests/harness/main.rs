//! The public interface of the crate: one file for each promise.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod buckets;
mod chat;
mod memory_store;
mod migrations;
mod resumption;
mod session_stores;

/// Fails if a file of this directory is not declared above, so that its tests would not run.
#[test]
#[expect(clippy::disallowed_methods, reason = "lists the test files")]
fn every_test_file_is_declared() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness");
    let declarations = include_str!("main.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".rs").unwrap_or(&name);
        assert!(
            stem == "main" || declarations.contains(&format!("mod {stem};")),
            "{name} is not declared"
        );
    }
}

#[test]
fn public_types_are_send_and_sync() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<logue_harness::chat::ChatHarness>();
    is_send_and_sync::<logue_harness::chat::ChatHarnessBuilder>();
    is_send_and_sync::<logue_harness::chat::ChatTurnOutcome>();
    is_send_and_sync::<logue_harness::chat::Subscription>();
    is_send_and_sync::<logue_harness::store::MemoryStore>();
    is_send_and_sync::<logue_harness::sessions::Sessions>();
    is_send_and_sync::<logue_harness::turns::TurnHarness>();
}
