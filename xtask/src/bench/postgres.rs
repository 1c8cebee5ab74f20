//! `cargo xtask bench postgres`: the PostgreSQL store beside `LangGraph` and beside a bare statement.

use std::ffi::OsString;
use std::path::Path;

const USAGE: &str = "usage: cargo xtask bench postgres [promises|growth|rates|long|appends]";
/// The packages of the peer.
const REQUIREMENTS: &str = "bench/peers/langgraph/requirements.txt";

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let part = match arguments {
        [] => "all",
        [part @ ("promises" | "growth" | "rates" | "long" | "appends")] => part,
        _ => return Err(USAGE.to_owned()),
    };
    let programs = super::build(root)?;
    let mut words = vec![OsString::from(part)];
    if !matches!(part, "long" | "appends") {
        let identity = std::fs::read_to_string(root.join(REQUIREMENTS))
            .map_err(|error| format!("{REQUIREMENTS}: {error}"))?;
        let packages = ["--requirement", REQUIREMENTS];
        match super::python::environment(root, "bench-postgres", &packages, &identity) {
            Ok(python) => words.push(python.into()),
            Err(reason) => println!("SKIPPED: LangGraph: {reason}"),
        }
    }
    super::print_table(root, &programs.bench, "postgres", &words)
}
