//! The table of the PostgreSQL store beside `LangGraph` with its PostgreSQL saver.
//!
//! A private server with its default settings runs the databases of all programs. The programs take
//! turns in one run, and each has a database of its own.

mod append;
mod measured;
pub(crate) mod player;
mod program;
mod relay;

use std::path::Path;

use testkit::postgres::PostgresServer;

use crate::harness::Failed;
use measured::{Bench, Goal};
use program::Program;

/// The texts of users and of the model, and their length in bytes.
const TEXTS: (usize, usize) = (800, 600);

/// Prints the tables, or one of them. `python` has the packages of the peer.
pub(crate) fn table(part: &str, python: Option<&Path>) -> Result<(), Failed> {
    let Some(server) = PostgresServer::start()? else {
        return Ok(());
    };
    let mut programs = vec![Program::own()?];
    if let Some(python) = python {
        let peer = |name, options| Program::peer(python, name, options);
        programs.push(peer("LangGraph", &[]));
        programs.push(peer("… a saver for each session", &["--savers", "session"]));
        programs.push(peer("… durability `exit`", &["--durability", "exit"]));
        programs.push(peer("… `DeltaChannel` (beta)", &["--channel", "delta"]));
    }
    let texts = logue_bench::conversations::texts(TEXTS.0, TEXTS.1);
    let bench = Bench::new(server, programs, texts)?;
    let is_part = |name| part == "all" || part == name;
    bench.print_about()?;
    let mut goals = Vec::new();
    if is_part("promises") {
        bench.print_promises(&mut goals)?;
    }
    if is_part("growth") {
        bench.print_growth(&mut goals)?;
    }
    if is_part("rates") {
        bench.print_rates(&mut goals)?;
    }
    if is_part("long") {
        bench.print_long(&mut goals)?;
    }
    if is_part("appends") {
        bench.print_appends(&mut goals)?;
    }
    Goal::print(&goals);
    Ok(())
}
