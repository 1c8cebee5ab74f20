//! The integration tests of the crate, in one binary.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed test panics"
)]

mod chat;
mod contract;
mod harmony;
mod harmony_prompt;
mod replay;
mod requests;
mod sanitized_names;
mod server_errors;
mod servers;
mod sse;
mod wire;

use std::path::Path;

use logue_model::{
    BoxFuture, Echo, EndpointOptions, HarmonyCompletions, HttpLimits, HttpProvider, ModelEvent,
    ModelRequest, ModelResponse, Provider, ProviderError, Recorder, Recording, Replay,
    RetryProvider, SanitizedNames, ServerProbe, StructuredProvider,
};

/// Changes some of the limits.
fn limits_with(mut limits: HttpLimits, change: impl FnOnce(&mut HttpLimits)) -> HttpLimits {
    change(&mut limits);
    limits
}

#[test]
fn every_file_is_a_declared_module() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model");
    for (folder, declarations) in [
        ("", include_str!("main.rs")),
        ("contract", include_str!("contract.rs")),
        ("requests", include_str!("requests.rs")),
    ] {
        for entry in std::fs::read_dir(tests.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension != "rs") {
                continue;
            }
            let name = path.file_stem().unwrap().to_str().unwrap();
            let declaration = format!("mod {name};");
            let is_declared = declarations.lines().any(|line| line == declaration);
            assert!(
                name == "main" || is_declared,
                "{} is not declared",
                path.display()
            );
        }
    }
}

#[test]
fn public_types_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    fn check_send<T: Send>() {}
    check::<Box<dyn Provider>>();
    check::<Echo>();
    check::<EndpointOptions>();
    check::<HarmonyCompletions>();
    check::<HttpProvider>();
    check::<ModelEvent>();
    check::<ModelRequest<'_>>();
    check::<ModelResponse>();
    check::<ProviderError>();
    check::<Recorder>();
    check::<Recording>();
    check::<Replay>();
    check::<RetryProvider<Echo>>();
    check::<SanitizedNames>();
    check::<ServerProbe>();
    check::<StructuredProvider<Echo>>();
    check_send::<BoxFuture<'_, Result<ModelResponse, ProviderError>>>();
}
