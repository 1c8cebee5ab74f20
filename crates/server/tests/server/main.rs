//! The tests of the crate, in one binary.

mod serve;

use std::fs;
use std::path::Path;

use logue_server::{BearerToken, HttpOptions, PromptServer, ServeOptions};

#[test]
fn every_file_of_this_folder_is_a_declared_module() {
    let declared = include_str!("main.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server");
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
    check::<BearerToken>();
    check::<HttpOptions>();
    check::<PromptServer>();
    check::<ServeOptions>();
    check::<Box<dyn logue_server::PromptHost>>();
}
