//! The tests of the crate, in one binary.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod edit;
mod evaluate;
mod format;
mod import;
mod literate;
mod lossless;
mod references;
mod refine;
mod repair;
mod tree;
mod view;
mod warnings;
mod write;

use std::path::Path;

use chatmd::edit::{EditError, Edits};
use chatmd::{
    Document, ElementNode, Evaluation, EvaluationRequest, EvaluationResponse, Evaluator,
    ExpandedDocument, MemoryWorld, Repair, Tree, WorldError,
};

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test lists its own directory"
)]
fn every_file_of_this_directory_is_a_declared_module() {
    let declared = include_str!("main.rs");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chatmd");
    for entry in std::fs::read_dir(directory).unwrap() {
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
    check::<Document>();
    check::<EditError>();
    check::<Edits<'_, '_>>();
    check::<ElementNode<'_>>();
    check::<Evaluation>();
    check::<EvaluationRequest<'_>>();
    check::<EvaluationResponse>();
    check::<Evaluator<'_>>();
    check::<ExpandedDocument<'_>>();
    check::<MemoryWorld>();
    check::<Repair>();
    check::<Tree<'_>>();
    check::<WorldError>();
}
