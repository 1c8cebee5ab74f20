//! The tests of the crate, in one binary.

mod agents;
mod answers;
mod covered;
mod edits;
mod payloads;
mod permissions;
mod redaction;
mod routing;
mod spans;
mod transcript;

use std::fs;
use std::path::Path;

use logue_agent::{
    Agent, Assistant, AuditFile, Budget, Environment, FileSession, PermissionRules, Permissions,
    PrepareError, Prepared, Prompt, PromptScope, PromptSource, Redaction, ResponseCache,
    TranscriptFile, TrustFile, Turn, TurnError,
};

#[test]
fn every_file_of_this_folder_is_a_declared_module() {
    let declared = include_str!("main.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_declared = declared.lines().any(|line| line == format!("mod {name};"));
        assert!(
            name == "main" || is_declared,
            "{name} is not declared in main.rs"
        );
    }
}

#[test]
fn public_types_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    fn check_send<T: Send>() {}
    check::<Agent>();
    check::<Assistant>();
    check::<AuditFile>();
    check::<Budget>();
    check::<Environment>();
    check::<FileSession>();
    check::<PermissionRules>();
    check::<Permissions>();
    check::<PrepareError>();
    check::<Prepared>();
    check::<Prompt>();
    check::<PromptScope>();
    check::<PromptSource>();
    check::<Redaction>();
    check::<ResponseCache>();
    check::<TrustFile>();
    check::<TurnError>();
    check_send::<TranscriptFile>();
    check_send::<Turn>();
}
