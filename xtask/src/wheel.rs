//! `cargo xtask wheel`: the Python package `openchatml`, built by maturin.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The build tool, as `pip` takes it.
const MATURIN: &str = "maturin>=1.9,<2";

/// The most bytes of a wheel.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Builds the wheel into `target/wheels`. Maturin is installed into a virtual environment under
/// `target`, unless it is there.
pub(crate) fn wheel(root: &Path) -> Result<(), String> {
    let environment = root.join("target/wheel/venv");
    let maturin = environment.join("bin/maturin");
    if !maturin.is_file() {
        let mut create = Command::new("python3");
        create.args(["-m", "venv"]).arg(&environment);
        run(&mut create)?;
        let mut install = Command::new(environment.join("bin/python"));
        install.args(["-m", "pip", "install", "--quiet", "--no-input"]);
        install.arg("--disable-pip-version-check").arg(MATURIN);
        run(&mut install)?;
    }
    let folder = root.join("target/wheels");
    for old in wheels(&folder)? {
        std::fs::remove_file(&old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    let mut build = Command::new(maturin);
    build.args(["build", "--release", "--locked", "--quiet", "--out"]);
    build.arg(&folder);
    build.current_dir(root.join("bindings/python"));
    run(&mut build)?;
    for wheel in wheels(&folder)? {
        let bytes = std::fs::metadata(&wheel)
            .map_err(|error| format!("{}: {error}", wheel.display()))?
            .len();
        println!("wheel: {}, {bytes} bytes", wheel.display());
        if bytes > MAX_BYTES {
            return Err(format!("wheel: {bytes} bytes, more than {MAX_BYTES}"));
        }
    }
    Ok(())
}

/// Returns the wheels of the package in `folder`.
fn wheels(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| format!("{}: {error}", folder.display()))?
            .path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("openchatml-") && name.ends_with(".whl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program}: {status}"))
    }
}
