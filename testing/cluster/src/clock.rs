//! Clocks of servers that are wrong: `libfaketime`, preloaded into them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the library; `None`, with a note, where it is not available.
///
/// # Errors
/// Returns an error if the script that unpacks it cannot be started.
pub fn clock_library() -> io::Result<Option<PathBuf>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("faketime/fetch");
    let output = Command::new(script).output()?;
    let library = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if output.status.success() && library.is_file() {
        return Ok(Some(library));
    }
    report("SKIPPED: clocks are right, because libfaketime cannot be unpacked");
    Ok(None)
}

#[expect(clippy::print_stdout, reason = "a skip is reported")]
fn report(text: &str) {
    println!("{text}");
}
