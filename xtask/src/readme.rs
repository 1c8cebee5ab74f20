//! The commands of the README and of `docs`, which a test of the program runs.

use std::path::Path;
use std::process::Command;

/// Runs the test of the commands, each page in one directory.
pub(crate) fn readme(root: &Path) -> Result<(), String> {
    let test = "readme::every_documented_command_works_in_the_order_of_its_page";
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "test",
        "-p",
        "logue-cli",
        "--test",
        "cli",
        "--",
        "--exact",
        test,
    ]);
    let status = command.current_dir(root).status();
    let status = status.map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("a documented command does not work".to_owned())
    }
}
