//! The cases in `conformance/harness`, and that the runner means what it says.

mod flip;
mod words;

use std::path::{Path, PathBuf};

use openarmature_runner::run_folder;

/// The cases of this workspace.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/harness")
}

#[test]
fn every_case_holds() {
    let report = run_folder(&folder()).unwrap();
    assert_eq!(report.lines, Vec::<String>::new());
    assert!(report.passed >= 60, "only {} cases", report.passed);
}
