//! Integration tests in one binary: cases as documents, then properties.
#![expect(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

mod argument_schemas;
mod async_types;
mod called;
mod conversations;
mod conversion_cases;
mod conversion_properties;
mod declared;
mod declared_schemas;
mod document_header;
mod harmony;
mod harmony_ids;
mod harmony_transcripts;
mod json_bodies;
mod literate;
mod losses;
mod marked;
mod owning;
mod reading;
mod rendering;
mod rendering_properties;
mod responses;
mod rewriting;
mod round_trip;
mod sampling;
mod scanning;
mod shapes;
mod strategies;
mod streaming;
mod v0_1;
mod verdicts;
mod viewing;
mod writing;

/// A file without a `mod` line would never run.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test lists its own directory"
)]
fn every_file_of_this_directory_is_a_declared_module() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openchatml");
    let declared: Vec<&str> = include_str!("main.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|name| *name != "main") else {
            continue;
        };
        assert!(declared.contains(&module), "`{name}` has no `mod` line");
    }
}
