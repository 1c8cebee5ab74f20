//! Tests of the public interface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod hf_tokenizer;
mod masks;
mod templates;

const fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn public_types_are_send_and_sync() {
    is_send_and_sync::<logue_data::ChatTemplate>();
    is_send_and_sync::<logue_data::HfTokenizer>();
    is_send_and_sync::<logue_data::Refusal>();
    is_send_and_sync::<logue_data::mask::MaskOptions>();
}

/// Fails if a file of this directory is not declared above, so that its tests would not run.
#[test]
fn every_test_file_is_declared() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let declarations = include_str!("main.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(stem) = name.strip_suffix(".rs") else {
            continue;
        };
        assert!(
            stem == "main" || declarations.contains(&format!("mod {stem};")),
            "{name} is not declared"
        );
    }
}
