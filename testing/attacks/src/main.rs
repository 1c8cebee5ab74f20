//! Attacks on the program, each of which tries to break one promise.
//!
//! An attack looks at effects: bytes that reached a server, files, modes of files and processes. It has
//! a control, so that an attack that never began is not reported as held.
#![cfg(target_os = "linux")]

mod attack;
mod author;
mod local;
mod model;
mod open;
mod probe;
mod race;
mod runner;
mod scene;
mod screen;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::attack::{Arena, Attack};
use crate::runner::Selection;

/// The attacks of every area.
const AREAS: &[&[Attack]] = &[
    author::agents::ATTACKS,
    author::display::ATTACKS,
    author::paths::ATTACKS,
    author::settings::ATTACKS,
    author::settings_hosts::ATTACKS,
    author::inspection::ATTACKS,
    author::trust::ATTACKS,
    model::approval::ATTACKS,
    model::changed::ATTACKS,
    model::confinement::ATTACKS,
    model::edits::ATTACKS,
    model::pages::ATTACKS,
    model::processes::ATTACKS,
    model::resources::ATTACKS,
    model::secrets::ATTACKS,
    model::servers::ATTACKS,
    model::swapped::ATTACKS,
    model::volume::ATTACKS,
    race::ATTACKS,
    local::folders::ATTACKS,
    local::listener::ATTACKS,
    local::owners::ATTACKS,
];

const USAGE: &str = "usage: attacks [--only NAME]… [--repeat N] [--list] [--json] [--no-build]

  --only NAME   run attacks whose names begin with NAME
  --repeat N    let each race access its files N times
  --list        print the attacks without running them
  --json        print JSON lines
  --no-build    attack the program beside this one, as it is";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "probe") {
        return probe::main(&arguments[1..]);
    }
    match start(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            drop(writeln!(std::io::stderr(), "{message}"));
            ExitCode::from(2)
        }
    }
}

fn start(arguments: &[String]) -> Result<bool, String> {
    let mut selection = Selection::default();
    let (mut rounds, mut builds, mut lists) = (48, true, false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(USAGE);
        match argument.as_str() {
            "--only" => selection.names.push(value()?.clone()),
            "--repeat" => rounds = value()?.parse().map_err(|_| USAGE)?,
            "--list" => lists = true,
            "--json" => selection.is_json = true,
            "--no-build" => builds = false,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let attacks: Vec<Attack> = AREAS.iter().copied().flatten().copied().collect();
    if lists {
        return runner::list(&attacks, &selection).map_err(|error| error.to_string());
    }
    let probe = std::env::current_exe().map_err(|error| error.to_string())?;
    let arena = Arena {
        logue: program(&probe, builds)?,
        probe,
        confinement: None,
        rounds,
    };
    runner::run(&attacks, &selection, &arena).map_err(|error| error.to_string())
}

/// Returns the program that is attacked, which is beside this one.
fn program(probe: &Path, builds: bool) -> Result<PathBuf, String> {
    if builds {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--package", "logue-cli"])
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("cannot build logue-cli".to_owned());
        }
    }
    let path = probe.with_file_name("logue");
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} not found; build it", path.display()))
    }
}
